"""Whole small networks: several inputs and outputs, all opsets, weights in side files; see test_operators.py."""

import itertools

import numpy as np
from case_tools import Case, cast, ints, ir_version, model, node, positive, rows, to_int, w, within
from onnx import TensorProto, helper, numpy_helper

NETWORKS = []


def port(name, shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def network(
    name, inputs, nodes, constants=None, outputs="y", opset=13, affine=False, draw=None, beside=None
):
    """inputs: name -> shape. beside: tensor -> (file, offset) of weights that lie beside the model."""
    tensors, files = [], {}
    for key, value in (constants or {}).items():
        value = np.asarray(value)
        tensor = numpy_helper.from_array(value, key)
        if beside and key in beside:
            file, offset = beside[key]
            data = value.tobytes()
            kept = bytearray(files.get(file, b"")).ljust((offset or 0) + len(data), b"\x7f")
            kept[offset or 0 : (offset or 0) + len(data)] = data
            files[file] = bytes(kept)
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            entries = {"location": file}
            if offset is not None:
                entries |= {"offset": str(offset), "length": str(len(data))}
            for k, v in entries.items():
                tensor.external_data.add(key=k, value=v)
        tensors.append(tensor)
    made = model(
        nodes,
        [port(k, shape) for k, shape in inputs.items()],
        [port(k, None) for k in outputs.split()],
        tensors,
        opset,
        ir_version(opset),
    )
    if len(inputs) == 1:
        (shape,) = inputs.values()
        x = rows(shape or (), draw)
    else:
        shapes = [[d if isinstance(d, int) else 1 for d in shape] for shape in inputs.values()]
        x = rows((sum(int(np.prod(shape)) for shape in shapes),), draw)
    NETWORKS.append(Case(name, made, x, affine, files))


# --- several inputs and outputs ----------------------------------------------------------------------

for names in ("a b", "b a"):  # rows follow the order of the graph's inputs, not of their reading
    shapes = {"a": (1, 3), "b": (1, 4)}
    network(
        f"two inputs, {names}",
        {k: shapes[k] for k in names.split()},
        [node("Concat", "a b", "c", axis=1), node("Gemm", "c k d")],
        {"k": w(7, 2), "d": w(2)},
        affine=True,
    )
network(
    "an image and a vector",
    {"image": (1, 1, 4, 4), "v": (1, 3)},
    [
        node("Conv", "image k", "a"),
        node("Relu", "a", "b"),
        node("Flatten", "b", "c"),
        node("Concat", "c v", "d", axis=1),
        node("MatMul", "d l"),
    ],
    {"k": w(2, 1, 2, 2), "l": w(21, 3)},
)
network(
    "two inputs with an open batch",
    {"a": ("batch", 3), "b": ("batch", 3)},
    [node("Mul", "a b", "c"), node("Sub", "c a")],
)
network(
    "three inputs, one of them a number",
    {"a": (2, 3), "t": (), "b": (3,)},
    [node("Mul", "a t", "c"), node("Add", "c b")],
)
network(
    "an input that nothing reads",
    {"a": (1, 3), "unread": (1, 2), "b": (1, 1)},
    [node("Mul", "a b")],
)
network(
    "two outputs",
    {"x": (1, 4)},
    [
        node("Gemm", "x k", "a"),
        node("Relu", "a", "b"),
        node("MatMul", "b l", "y"),
        node("MatMul", "b m", "z"),
    ],
    {"k": w(4, 5), "l": w(5, 3), "m": w(5, 2)},
    outputs="y z",
)
network(
    "two outputs, the later one first",
    {"x": (1, 4)},
    [node("MatMul", "x k", "y"), node("Relu", "y", "z"), node("Softmax", "z", "p", axis=1)],
    {"k": w(4, 3)},
    outputs="p y",
)
network(
    "outputs of several ranks",
    {"x": (2, 3, 4)},
    [
        node("ReduceSum", "x", "y", keepdims=0),
        node("ReduceMean", "x", "z", axes=[1], keepdims=0),
        node("Transpose", "x", "t", perm=[2, 0, 1]),
    ],
    outputs="t y z",
    affine=True,
)
network(
    "two inputs and two outputs",
    {"state": (1, 3), "action": (1, 2)},
    [
        node("MatMul", "state k", "a"),
        node("MatMul", "action l", "b"),
        node("Add", "a b", "next"),
        node("Tanh", "next", "t"),
        node("ReduceSum", "t s", "reward", keepdims=0),
    ],
    {"k": w(3, 3), "l": w(2, 3), "s": ints(1)},
    outputs="next reward",
)
network(
    "both halves of a split are outputs",
    {"x": (1, 6)},
    [node("Split", "x", "y z", axis=1)],
    outputs="z y",
    affine=True,
)

# --- shapes of files in the wild ---------------------------------------------------------------------

network(
    "no batch axis",
    {"x": (12, 8)},
    [node("MatMul", "x k", "a"), node("Relu", "a", "b"), node("MatMul", "l b")],
    {"k": w(8, 3), "l": w(5, 12)},
)
network(
    "no batch axis, every row normalised",
    {"x": (12, 8)},
    [node("LayerNormalization", "x s b", "a"), node("Softmax", "a", axis=0)],
    {"s": w(8), "b": w(8)},
    opset=17,
)
network(
    "a vector to a number",
    {"x": (12,)},
    [node("MatMul", "x k", "a"), node("Relu", "a", "b"), node("ReduceSum", "b", keepdims=0)],
    {"k": w(12, 5)},
)
network(
    "a number to a number",
    {"x": ()},
    [node("Mul", "x k", "a"), node("Tanh", "a")],
    {"k": np.float32(0.5)},
)
network(
    "nhwc",
    {"x": (1, 6, 5, 3)},
    [
        node("Transpose", "x", "t", perm=[0, 3, 1, 2]),
        node("Conv", "t k b", "a", pads=[1] * 4),
        node("Clip", "a lo hi", "c"),
        node("MaxPool", "c", "d", kernel_shape=[2, 2], strides=[2, 2]),
        node("Transpose", "d", "e", perm=[0, 2, 3, 1]),
        node("Reshape", "e flat", "f"),
        node("Gemm", "f l"),
    ],
    {
        "k": w(4, 3, 3, 3),
        "b": w(4),
        "lo": np.float32(0),
        "hi": np.float32(6),
        "flat": ints(-1, 24),
        "l": w(24, 3),
    },
)
network(
    "a convolution over time",
    {"x": (1, 20, 3)},
    [
        node("Transpose", "x", "t", perm=[0, 2, 1]),
        node("Conv", "t k b", "a", kernel_shape=[5], strides=[2], pads=[2, 2]),
        node("Relu", "a", "c"),
        node("Conv", "c l", "d", kernel_shape=[3], dilations=[2]),
        node("GlobalMaxPool", "d", "e"),
        node("Flatten", "e"),
    ],
    {"k": w(4, 3, 5), "b": w(4), "l": w(3, 4, 3)},
)
network(
    "depthwise convolutions, squeezed and excited",
    {"x": (1, 2, 8, 8)},
    [
        node("Conv", "x k", "a"),
        node("HardSwish", "a", "b"),
        node("Conv", "b l", "c", group=6, pads=[1] * 4, strides=[2, 2]),
        node("GlobalAveragePool", "c", "d"),
        node("Conv", "d m", "e"),
        node("Relu", "e", "f"),
        node("Conv", "f n", "g"),
        node("HardSigmoid", "g", "h", alpha=1 / 6),
        node("Mul", "c h", "i"),
        node("Conv", "i o", "j"),
        node("ReduceMean", "j", "p", axes=[2, 3], keepdims=0),
    ],
    {"k": w(6, 2, 1, 1), "l": w(6, 1, 3, 3), "m": w(2, 6, 1, 1), "n": w(6, 2, 1, 1),
     "o": w(3, 6, 1, 1)},
    outputs="p",
    opset=14,
)  # fmt: skip
for name in ("N", "batch_size", "unk__6", None):
    network(
        f"open batch {name}",
        {"x": (name, 2, 4, 4)},
        [
            node("Shape", "x", "s"),
            node("Gather", "s i", "n", axis=0),
            node("Unsqueeze", "n", "u", axes=[0]),
            node("Concat", "u m", "t", axis=0),
            node("Conv", "x k", "a"),
            node("Relu", "a", "b"),
            node("Reshape", "b t", "c"),
            node("Gemm", "c l"),
        ],
        {"i": np.int64(0), "m": ints(27), "k": w(3, 2, 2, 2), "l": w(27, 3)},
        opset=11,
    )
network(
    "an encoder and a decoder",
    {"x": (1, 1, 8, 8)},
    [
        node("Conv", "x k", "a", pads=[1] * 4),
        node("Relu", "a", "b"),
        node("MaxPool", "b", "c", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", "c l", "d", pads=[1] * 4),
        node("Relu", "d", "e"),
        node("ConvTranspose", "e m", "f", strides=[2, 2]),
        node("Resize", "e _ s", "g", mode="linear", coordinate_transformation_mode="half_pixel"),
        node("Concat", "b f g", "h", axis=1),
        node("Conv", "h n", "i"),
        node("Sigmoid", "i"),
    ],
    {"k": w(2, 1, 3, 3), "l": w(3, 2, 3, 3), "m": w(3, 2, 2, 2), "n": w(1, 7, 1, 1),
     "s": np.float32([1, 1, 2, 2])},
)  # fmt: skip
network(
    "causal attention",
    {"x": (1, 5, 8)},
    [
        node("MatMul", "x q", "a"),
        node("MatMul", "x k", "b"),
        node("MatMul", "x v", "c"),
        node("Transpose", "b", "t", perm=[0, 2, 1]),
        node("MatMul", "a t", "d"),
        node("Trilu", "ones", "mask", upper=0),
        cast("mask", "keep", TensorProto.BOOL),
        node("Where", "keep d low", "e"),
        node("Softmax", "e", "f", axis=-1),
        node("MatMul", "f c"),
    ],
    {"q": w(8, 4), "k": w(8, 4), "v": w(8, 4), "ones": np.ones((5, 5), np.float32),
     "low": np.float32(-np.inf)},
    opset=14,
)  # fmt: skip
network(
    "windows shifted by slices",
    {"x": (1, 4, 4, 2)},
    [
        node("Slice", "x one last axis", "a"),
        node("Slice", "x none one axis", "b"),
        node("Concat", "a b", "c", axis=1),
        node("Reshape", "c windows", "d"),
        node("Transpose", "d", "e", perm=[0, 1, 3, 2, 4, 5]),
        node("Reshape", "e tokens", "f"),
        node("Softmax", "f", axis=1),
    ],
    {"none": ints(0), "one": ints(1), "last": ints(2**63 - 1), "axis": ints(1),
     "windows": ints(1, 2, 2, 2, 2, 2), "tokens": ints(4, 4, 2)},
)  # fmt: skip

# --- what depends on the values of a row -------------------------------------------------------------

network(
    "a window that starts where the row says",
    {"x": (9,)},
    [
        node("Slice", "x zero one zero", "first"),
        to_int("first", "s"),
        node("Add", "s three", "e"),
        node("Slice", "x s e zero one", "window"),
        node("MatMul", "window k", "a"),
        node("Relu", "a"),
    ],
    {"zero": ints(0), "one": ints(1), "three": ints(3), "k": w(3, 4)},
    draw=within(0, 5.9),
)
network(
    "the row chooses a column of another input",
    {"table": (3, 4), "which": (1,)},
    [to_int("which", "i"), node("Gather", "table i", "a", axis=1), node("MatMul", "k a")],
    {"k": w(2, 3)},
    draw=within(0, 3.9),
)
network(
    "the largest is taken out",
    {"x": (1, 6)},
    [
        node("ArgMax", "x", "i", axis=1),
        node("ScatterElements", "x i z", "a", axis=1),
        node("ReduceMax", "a", "b", axes=[1]),
        node("Sub", "a b"),
    ],
    {"z": np.zeros((1, 1), np.float32)},
)

# --- constants ---------------------------------------------------------------------------------------

network(
    "all kinds of constants",
    {"x": (2, 3)},
    [
        node("Constant", "", "f", value_float=0.5),
        node("Constant", "", "fs", value_floats=[1.0, -2.0, 3.0]),
        node("Constant", "", "i", value_int=3),
        node("Constant", "", "is", value_ints=[3, -1]),
        node("Mul", "x f", "a"),
        node("Mul", "a fs", "b"),
        node("Reshape", "b is", "c"),
        cast("i", "j"),
        node("Add", "c j"),
    ],
    affine=True,
)
network(
    "constants that are computed",
    {"x": (2, 3)},
    [
        node("Mul", "c c", "d"),
        node("Exp", "d", "e"),
        node("Concat", "e c", "f", axis=0),
        node("Gather", "f i", "g", axis=0),
        node("MatMul", "x g"),
    ],
    {"c": w(2, 3), "i": ints(3, 0, 2)},
    affine=True,
)

# --- weights beside the model ------------------------------------------------------------------------

LAYERS = [node("Gemm", "x k b", "a"), node("Relu", "a", "r"), node("MatMul", "r l")]
WEIGHTS = {"k": w(4, 5), "b": w(5), "l": w(5, 3)}
for name, beside in {
    "one file": {"k": ("weights.bin", 0), "b": ("weights.bin", 80), "l": ("weights.bin", 128)},
    "a file each": {"k": ("k", None), "b": ("b.bin", None), "l": ("l.data", 4096)},
    "some": {"l": ("only-l.bin", None)},
    "in a folder": {"k": ("parts/k.bin", None), "l": ("parts/l.bin", 16)},
}.items():
    network(f"weights beside: {name}", {"x": (1, 4)}, LAYERS, WEIGHTS, beside=beside)
network(
    "whole numbers beside",
    {"x": (3, 4)},
    [node("Gather", "x s", "a"), node("Softmax", "a", axis=-1)],
    {"s": ints(2, -1)},
    beside={"s": ("places.bin", 0)},
)

# --- every opset -------------------------------------------------------------------------------------


def small_convolution(opset):
    """The definitions of Squeeze, Softmax, Clip and ReduceMean change on the way from 7 to 23."""
    nodes = [
        node("Conv", "x k b", "a", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("BatchNormalization", "a s o m v", "c", epsilon=0.001),
        node("Relu", "c", "d"),
        node("MaxPool", "d", "e", kernel_shape=[2, 2], strides=[2, 2]),
    ]
    constants = {"k": w(3, 2, 3, 3), "b": w(3), "s": w(3), "o": w(3), "m": w(3), "v": positive(3)}
    if opset < 11:
        nodes.append(node("Clip", "e", "f", min=0.0, max=2.5))
    else:
        nodes.append(node("Clip", "e lo hi", "f"))
        constants |= {"lo": np.float32(0), "hi": np.float32(2.5)}
    if opset < 18:
        nodes.append(node("ReduceMean", "f", "g", axes=[3]))
    else:
        nodes.append(node("ReduceMean", "f places", "g"))
        constants["places"] = ints(3)
    if opset < 13:
        nodes.append(node("Squeeze", "g", "h", axes=[3]))
    else:
        nodes.append(node("Squeeze", "g squeezed", "h"))
        constants["squeezed"] = ints(3)
    nodes += [
        node("Flatten", "h", "i"),
        node("Gemm", "i l n", "j"),
        node("Softmax", "j", "y", axis=1),
    ]
    constants |= {"l": w(9, 4), "n": w(4)}
    return nodes, constants


for opset, batch in itertools.product(range(7, 24), (1, "N")):
    nodes, constants = small_convolution(opset)
    shape = (batch, 2, 6, 6)
    network(
        f"convolution, opset {opset}, batch {batch}", {"x": shape}, nodes, constants, opset=opset
    )

assert len({case.name for case in NETWORKS}) == len(NETWORKS)
