"""Cases of operators that pick values by what they are, and of pooling by norms and places."""

import numpy as np
import onnx
from case_tools import (
    cast,
    ints,
    net,
    node,
    one,
    several,
    to_int,
    w,
    whole,
    whole_numbers,
    within,
)
from onnx import TensorProto, helper

# --- places that the values say: the shape of the result depends on the row --------------------------


for axis in (None, 0, 1, -1):
    given = {} if axis is None else {"axis": axis}
    condition = np.array([0, 1, 1], bool)
    one("Compress", f"axis{axis}", (3, 4), condition, opset=11, affine=True, **given)
nodes = [
    node("Greater", "x zero", "c"),
    node("Compress", "x c", "some"),
    node("Concat", "some zeros", "long", axis=0),
    node("Slice", "long b e", "y"),
]
constants = {"zero": np.float32(0), "zeros": np.zeros(6, np.float32), "b": ints(0), "e": ints(6)}
several("Compress", "condition-of-the-row", nodes, (6,), constants)

nodes = [
    node("NonZero", "x", "i"),
    node("Transpose", "i", "t", perm=[1, 0]),
    node("Concat", "t zeros", "long", axis=0),
    node("Slice", "long b e", "some"),
    cast("some"),
]
constants = {"zeros": np.zeros((6, 2), np.int64), "b": ints(0), "e": ints(6)}
several("NonZero", "of-the-row", nodes, (2, 3), constants, draw=whole_numbers)
nodes = [node("NonZero", "c", "i"), cast("i", "f"), node("Add", "x f")]
several("NonZero", "const", nodes, (2, 2), {"c": np.float32([[0, 1], [2, 0]])}, affine=True)

for sorted_ in (1, 0):
    for output in ("u", "i", "v", "n"):
        tail = {"zeros": np.zeros(6, np.float32 if output == "u" else np.int64)}
        nodes = [
            node("Unique", "x", "u i v n", sorted=sorted_),
            node("Concat", f"{output} zeros", "long", axis=0),
            node("Slice", "long b e", "some"),
            cast("some"),
        ]
        constants = {**tail, "b": ints(0), "e": ints(6)}
        several("Unique", f"{output}-{sorted_}", nodes, (6,), constants, 11, draw=whole_numbers)
nodes = [node("Unique", "c", "u", axis=0), node("MatMul", "u x", "y")]
several("Unique", "axis", nodes, (2, 3), {"c": np.float32([[1, 2], [0, 3], [1, 2]])}, affine=True)

BOXES = np.float32([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11]]])
nodes = [
    node("NonMaxSuppression", "c x most overlap score", "i"),
    node("Concat", "i zeros", "long", axis=0),
    node("Slice", "long b e", "some"),
    cast("some"),
]
constants = {
    "c": BOXES, "most": ints(3), "overlap": np.float32([0.5]), "score": np.float32([-0.5]),
    "zeros": np.zeros((8, 3), np.int64), "b": ints(0), "e": ints(8),
}  # fmt: skip
several("NonMaxSuppression", "scores", nodes, (1, 2, 4), constants, 11)
nodes = [node("NonMaxSuppression", "x s most overlap", "i", center_point_box=1), *nodes[1:]]
boxes = {**constants, "s": w(1, 2, 4)}
several("NonMaxSuppression", "boxes", nodes, (1, 4, 4), boxes, 11, draw=within(0.2, 2))

# --- sequences, diagonals, crops ---------------------------------------------------------------------

one("ReverseSequence", "time-first", (4, 3, 2), ints(4, 2, 1), opset=10, affine=True)
lengths = ints(1, 4, 3)
one("ReverseSequence", "batch-first", (3, 4), lengths, opset=10, affine=True, time_axis=1, batch_axis=0)
for k, shape in ((0, (3, 3)), (1, (2, 4)), (-2, (4, 3))):
    nodes = [node("EyeLike", "x", "e", k=k), node("Mul", "x e")]
    several("EyeLike", f"{k}", nodes, shape, opset=9, affine=True)
nodes = [node("EyeLike", "x", "e", dtype=TensorProto.INT64), cast("e", "f"), node("Add", "x f")]
several("EyeLike", "int64", nodes, (2, 3), opset=9, affine=True)
for name, shape, sizes, given in (
    ("crop", (4, 5), ints(2, 2), {}),
    ("pad", (2, 3), ints(5, 6), {}),
    ("both", (6, 3), ints(3, 6), {}),
    ("axes", (4, 5, 3), ints(3, 6), {"axes": [-2, 2]}),
):
    one("CenterCropPad", name, shape, sizes, opset=18, affine=True, **given)
nodes = [node("Scatter", "x i u", axis=1)]
several("Scatter", "axis1", nodes, (3, 4), {"i": ints([1], [3], [0]), "u": w(3, 1)}, 9, affine=True)
nodes = [node("Scatter", "c i x")]
several("Scatter", "updates", nodes, (2, 4), {"i": ints([0, 1, 2, 0], [2, 2, 0, 1]), "c": w(3, 4)}, 10,
        affine=True)  # fmt: skip

# --- pooling -----------------------------------------------------------------------------------------

for p, given, shape, opset in (
    (2, {"kernel_shape": [2, 2]}, (2, 3, 5, 5), 11),
    (1, {"kernel_shape": [2, 2], "strides": [2, 2]}, (1, 2, 6, 6), 11),
    (3, {"kernel_shape": [3], "pads": [1, 1]}, (1, 2, 7), 11),
    (2, {"kernel_shape": [2, 2], "dilations": [2, 2]}, (1, 1, 6, 6), 18),
    (2, {"kernel_shape": [3, 2, 2], "auto_pad": "SAME_UPPER"}, (1, 1, 4, 4, 4), 11),
):
    one("LpPool", f"{p}-{given}", shape, opset=opset, p=p, **given)
one("LpPool", "default-norm", (1, 2, 4, 4), opset=7, kernel_shape=[2, 2])
for p, shape in ((2, (2, 3, 4, 4)), (1, (1, 2, 5)), (3, (1, 2, 2, 2, 2))):
    one("GlobalLpPool", f"{p}", shape, opset=7, p=p)
for storage, given, shape in (
    (0, {"kernel_shape": [2, 2], "strides": [2, 2]}, (2, 3, 4, 4)),
    (0, {"kernel_shape": [3], "pads": [1, 1]}, (1, 2, 6)),
    (1, {"kernel_shape": [2, 2], "pads": [0, 1, 1, 1]}, (2, 2, 5, 4)),
    (0, {"kernel_shape": [2, 2, 2]}, (1, 2, 3, 3, 4)),
):
    pool = node("MaxPool", "x", "v i", storage_order=storage, **given)
    several("MaxPool", f"places-{storage}-{len(shape)}", [pool, cast("i")], shape, opset=12)
unpool = {"kernel_shape": [2, 2], "strides": [2, 2]}
nodes = [node("MaxPool", "x", "v i", **unpool), node("MaxUnpool", "v i", **unpool)]
several("MaxUnpool", "of-a-pool", nodes, (2, 3, 4, 4), opset=11)
places = ints([[[5, 7], [13, 15]]])
one("MaxUnpool", "const", (1, 1, 2, 2), places, opset=11, affine=True, **unpool)
one("MaxUnpool", "shape", (1, 1, 2, 2), places, ints(1, 1, 4, 4), opset=11, affine=True, **unpool)
for shape, image, block, given in (
    ((1, 5, 5), (5, 5), (1, 5), {}),
    ((2, 8, 9), (5, 5), (2, 2), {"strides": [2, 2], "pads": [1, 0, 0, 1]}),
    ((1, 4, 5), (6, 6), (2, 2), {"dilations": [1, 5]}),
    ((1, 10, 12), (3, 4, 5), (1, 1, 5), {}),
    ((1, 6, 4), (5,), (2,), {}),
):
    one("Col2Im", f"{shape}", shape, ints(*image), ints(*block), opset=18, affine=True, **given)

# --- sequences of words, other domains ---------------------------------------------------------------

WORDS = {
    "ngram_counts": [0, 4], "ngram_indexes": [0, 1, 2, 3, 4, 5, 6], "pool_int64s": [2, 3, 5, 4, 5, 6, 7, 8, 6, 7],
    "max_gram_length": 2, "min_gram_length": 1,
}  # fmt: skip
for mode, skip, shape, more in (
    ("TF", 0, (12,), {}),
    ("TF", 5, (2, 6), {"min_gram_length": 2}),
    ("IDF", 2, (12,), {"weights": [float(i) for i in range(7)]}),
    ("TFIDF", 5, (2, 8), {"weights": [2.0] * 7}),
):
    nodes = [to_int("x", "i"), node("TfIdfVectorizer", "i", mode=mode, max_skip_count=skip, **{**WORDS, **more})]
    several("TfIdfVectorizer", f"{mode}-{skip}", nodes, shape, opset=9, draw=within(2, 8.9))


def elsewhere(op, name, shape, constants, at=0, opset=1, affine=False, outputs="y", **attributes):
    """An operator of another domain, which its name begins with."""
    domain, _, kind = op.rpartition(".")
    names = [f"c{i}" for i in range(len(constants))]
    names.insert(at, "x")
    given = {f"c{i}": c for i, c in enumerate(constants)}
    made = node(kind, " ".join(names), outputs, **attributes)
    made.domain = domain
    model = onnx.load_from_string(net([made], shape, given, 13))
    model.opset_import.append(helper.make_opsetid(domain, opset))
    whole(op, name, model.SerializeToString(), shape, affine)


for index in (ints(1), ints(2, 0)):
    elsewhere("ai.onnx.ml.ArrayFeatureExtractor", f"{index.tolist()}", (2, 4), [index], affine=True)
elsewhere("ai.onnx.ml.ArrayFeatureExtractor", "vector", (4,), [ints(1, 3)], affine=True)
for threshold in (0.0, 0.5):
    elsewhere("ai.onnx.ml.Binarizer", f"{threshold}", (2, 4), [], threshold=threshold)
TRAINING = "ai.onnx.preview.training."
for steps in (0, 3):
    rest = [np.float32(0.1), np.int64(steps), w(3), w(3)]
    for mode in ("standard", "nesterov"):
        elsewhere(f"{TRAINING}Momentum", f"{mode}-{steps}", (3,), rest, 2, outputs="y v", mode=mode, alpha=0.9,
                  beta=0.5, norm_coefficient=0.01)  # fmt: skip
    rest = [*rest[:3], np.abs(w(3))]
    elsewhere(f"{TRAINING}Adagrad", f"{steps}", (3,), rest, 2, outputs="y h", decay_factor=0.1, epsilon=0.1,
              norm_coefficient=0.01)  # fmt: skip
    rest = [*rest[:3], w(3), np.abs(w(3))]
    elsewhere(f"{TRAINING}Adam", f"{steps}", (3,), rest, 2, outputs="y v h", alpha=0.9, beta=0.5, epsilon=0.1,
              norm_coefficient=0.01, norm_coefficient_post=0.1)  # fmt: skip
