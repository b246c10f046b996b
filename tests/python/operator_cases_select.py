"""Cases of operators that pick values by what they are, and of pooling by norms and places."""

import numpy as np
from case_tools import cast, ints, node, one, several, w, whole_numbers, within
from onnx import TensorProto

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
