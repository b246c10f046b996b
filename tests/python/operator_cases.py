"""Small networks for every ONNX operator that grapeshot runs; test_operators.py compares them."""

import dataclasses
import itertools

import numpy as np
from onnx import TensorProto, helper, numpy_helper

DRAW = np.random.default_rng(20)
CASES = {}  # operator -> its cases


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    model: bytes
    x: np.ndarray  # rows
    affine: bool  # the outputs are affine in the inputs, so that gradients are known exactly


def w(*shape):
    """Weights."""
    return DRAW.standard_normal(shape).astype(np.float32)


def node(op, inputs, outputs="y", **attributes):
    made = helper.make_node(op, inputs.split(), outputs.split(), **attributes)
    # `_` stands for an optional input that is left out.
    made.input[:] = ["" if i == "_" else i for i in made.input]
    return made


def net(nodes, shape, constants=None, opset=13, output="y", listed=False, floats=False):
    """The serialised network from x (float32, `shape`) to `output`.

    listed: initializers are listed among the inputs, as before IR version 4.
    floats: they are kept as repeated fields instead of raw bytes.
    """
    tensors = [
        helper.make_tensor(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape, v.flatten())
        if floats
        else numpy_helper.from_array(v, k)
        for k, v in ((k, np.asarray(v)) for k, v in (constants or {}).items())
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    if listed:
        inputs += [helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in tensors]
    outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)]
    for i, each in enumerate(nodes):
        each.name = f"the_{each.op_type}" + (f"_{i}" if i else "")
    graph = helper.make_graph(nodes, "case", inputs, outputs, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 3 if listed else 8
    return model.SerializeToString()


def rows(shape, draw=None, n=3):
    return (draw or w)(n, *[s if isinstance(s, int) else 1 for s in shape])


def whole(op, name, model, shape, affine=False, draw=None):
    CASES.setdefault(op, []).append(Case(f"{op}-{name}", model, rows(shape, draw), affine))


def one(op, name, shape, *constants, at=0, opset=13, affine=False, draw=None, **attributes):
    """A network of one node that reads x as input number `at` and constants (None: left out)."""
    names = [f"c{i}" if c is not None else "_" for i, c in enumerate(constants)]
    names.insert(at, "x")
    given = {f"c{i}": c for i, c in enumerate(constants) if c is not None}
    model = net([node(op, " ".join(names), **attributes)], shape, given, opset)
    whole(op, f"{name}-{opset}", model, shape, affine, draw)


def halves(*shape):
    """Whole and half numbers, both zeros among them, and some in between."""
    x = DRAW.integers(-7, 8, shape).astype(np.float32) / 2
    x.flat[:2] = 0.0, -0.0
    return np.where(DRAW.random(shape) < 0.3, x + w(*shape), x).astype(np.float32)


def positive(*shape):
    return 0.5 + np.abs(w(*shape))


# --- element by element ------------------------------------------------------------------------------

for op in ("Relu", "Sigmoid", "Tanh"):
    for shape, opset in (((1, 5), 9), ((2, 3, 4), 13), ((6,), 6)):
        one(op, f"rank{len(shape)}", shape, opset=opset)
for alpha in ({}, {"alpha": 0.3}, {"alpha": -0.5}):
    one("LeakyRelu", f"{alpha}", (2, 5), opset=16 if alpha else 6, **alpha)
for op, opsets in (("Sign", (9, 13)), ("Round", (11, 22)), ("Floor", (6, 13))):
    for shape, opset in zip(((3, 4), (9,)), opsets, strict=True):
        one(op, f"rank{len(shape)}", shape, opset=opset, draw=halves)

for op in ("Add", "Sub", "Mul", "Div"):
    linear = op != "Div"
    for constant in ((), (1,), (4,), (3, 1), (2, 3, 4), (5, 1, 3, 4)):
        one(op, f"const{list(constant)}", (3, 4), positive(*constant), affine=True, opset=7)
    one(op, "const-first", (3, 4), w(2, 1, 4), at=1, affine=linear, opset=14, draw=positive)
    one(op, "const-first-scalar", (4,), w(), at=1, affine=linear, draw=positive)
    # Two tensors of the same network: equal shapes, and of rank 1 against rank 2.
    square = net([node("Mul", "x x", "a"), node(op, "x a")], (2, 3), opset=14)
    whole(op, "both-rows", square, (2, 3), draw=positive)
    mixed = [node("MatMul", "x c", "a"), node(op, "a x")]
    whole(op, "rank1-rank2", net(mixed, (4, 4), {"c": positive(4)}, 7), (4, 4), draw=positive)
    mixed = [node("Flatten", "x", "a", axis=2), node("Mul", "a c", "b"), node(op, "b x")]
    whole(op, "rank2-rank3", net(mixed, (2, 1, 3), {"c": w(3)}, 13), (2, 1, 3), draw=positive)
whole(
    "Add",
    "listed",
    net([node("Add", "x c")], (2, 3), {"c": w(3)}, 8, listed=True),
    (2, 3),
    affine=True,
)
whole(
    "Add",
    "repeated-fields",
    net([node("Add", "x c")], (2, 3), {"c": w(3)}, 8, floats=True),
    (2, 3),
    affine=True,
)
whole("Add", "open-batch", net([node("Add", "x c")], ("N", 3), {"c": w(2, 1)}), ("N", 3))
# Integers divide towards zero: Reshape sees the quotient, [-1, 2] from -7 / 4 and 7 / 3.
sizes = {"a": np.array([-7, 7]), "b": np.array([4, 3])}
whole(
    "Div",
    "integers",
    net([node("Div", "a b", "s"), node("Reshape", "x s")], (3, 4), sizes, 14),
    (3, 4),
    affine=True,
)

for axis, opset in itertools.product((0, 1, 2, -1, None), (11, 12, 13)):
    given = {} if axis is None else {"axis": axis}
    one("Softmax", f"axis{axis}", (2, 3, 4), opset=opset, **given)
one("Softmax", "old", (1, 5), opset=8)
one("Softmax", "large", (2, 4), draw=lambda *s: 300 * w(*s))

# --- layers ------------------------------------------------------------------------------------------


def conv(name, shape, weight, bias=True, opset=11, **attributes):
    constants = (weight, w(weight.shape[0])) if bias else (weight,)
    one("Conv", name, shape, *constants, opset=opset, affine=True, **attributes)


conv("1d", (1, 3, 11), w(4, 3, 3), strides=[2], pads=[1, 1], kernel_shape=[3])
conv("plain", (1, 2, 6, 5), w(3, 2, 3, 2), bias=False, opset=1)
conv("uneven", (1, 2, 7, 8), w(3, 2, 3, 2), pads=[0, 1, 2, 1], strides=[2, 1], dilations=[1, 2])
conv("dilated", (1, 2, 9, 9), w(4, 2, 3, 3), dilations=[2, 3], pads=[2, 3, 2, 3])
conv("groups", (1, 4, 6, 6), w(6, 2, 3, 3), group=2, pads=[1, 1, 1, 1], opset=22)
conv("depthwise", (1, 5, 6, 6), w(10, 1, 3, 3), group=5, strides=[2, 2])
conv("pointwise", (1, 6, 4, 5), w(3, 6, 1, 1), opset=9)
conv("batch", (3, 2, 6, 6), w(4, 2, 3, 3), pads=[1, 0, 1, 0])
conv("3d", (1, 2, 4, 5, 6), w(3, 2, 2, 3, 2), pads=[1, 0, 1, 0, 1, 0], strides=[1, 2, 1])
conv("valid", (1, 2, 6, 6), w(3, 2, 3, 3), auto_pad="VALID", strides=[2, 2])
for side, size in itertools.product(("UPPER", "LOWER"), (6, 7)):
    same = {"auto_pad": f"SAME_{side}"}
    conv(f"same-{side}-{size}", (1, 2, size, 8), w(3, 2, 4, 3), strides=[2, 3], **same)
# Images: few channels, all kinds of sizes; the gradient may be computed in another way.
for channels, size, kernel, pad in (
    (1, 8, 3, 0),
    (3, 9, 5, 2),
    (3, 8, 2, 0),
    (4, 7, 3, 1),
    (3, 32, 5, 0),
):
    name = f"image-{channels}x{size}-{kernel}"
    conv(name, (1, channels, size, size + 1), w(16, channels, kernel, kernel), pads=[pad] * 4)
image = [
    node("Transpose", "x", "a", perm=[0, 3, 1, 2]),
    node("Conv", "a k", "b"),
    node("Transpose", "b", perm=[0, 2, 3, 1]),
]
whole("Conv", "nhwc", net(image, (1, 9, 8, 3), {"k": w(16, 3, 3, 3)}), (1, 9, 8, 3), affine=True)

for opset in (1, 8, 10, 11, 12, 22):
    one("MaxPool", "2d", (1, 2, 6, 7), opset=opset, kernel_shape=[2, 3], strides=[2, 2])
one("MaxPool", "1d", (1, 3, 10), kernel_shape=[3], strides=[3], pads=[1, 1])
one("MaxPool", "3d", (1, 2, 5, 6, 4), kernel_shape=[2, 2, 2], strides=[2, 1, 2])
one("MaxPool", "no-stride", (2, 2, 5, 5), kernel_shape=[3, 3])
one("MaxPool", "dilated", (1, 1, 7, 7), kernel_shape=[2, 3], dilations=[3, 2])
one("MaxPool", "uneven", (1, 2, 6, 6), kernel_shape=[3, 3], pads=[0, 2, 1, 0], strides=[2, 2])
one("MaxPool", "ceil", (1, 2, 6, 7), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
one(
    "MaxPool",
    "ceil-pads",
    (1, 1, 6, 6),
    kernel_shape=[3, 3],
    strides=[2, 2],
    ceil_mode=1,
    pads=[1] * 4,
)
one("MaxPool", "ceil-shrinks", (1, 1, 2, 2), kernel_shape=[1, 1], strides=[2, 2], ceil_mode=1)
one(
    "MaxPool",
    "ceil-uneven",
    (1, 1, 5, 5),
    kernel_shape=[3, 3],
    strides=[3, 2],
    ceil_mode=1,
    pads=[0, 0, 2, 1],
)
one(
    "MaxPool",
    "negative",
    (1, 1, 4, 4),
    kernel_shape=[2, 2],
    pads=[1] * 4,
    draw=lambda *s: -positive(*s),
)
for side in ("UPPER", "LOWER"):
    one(
        "MaxPool",
        f"same-{side}",
        (1, 2, 5, 6),
        kernel_shape=[2, 3],
        auto_pad=f"SAME_{side}",
        strides=[1, 2],
    )
one("MaxPool", "valid", (1, 2, 5, 6), kernel_shape=[2, 3], auto_pad="VALID")


def average(name, shape, opset=19, **attributes):
    for count in (0, 1):
        full = {**attributes, "count_include_pad": count}
        one("AveragePool", f"{name}-count{count}", shape, opset=opset, affine=True, **full)


average("2d", (1, 2, 6, 7), kernel_shape=[2, 3], strides=[2, 2], opset=7)
average("1d", (1, 3, 10), kernel_shape=[3], pads=[1, 1], opset=10)
average("3d", (1, 2, 4, 5, 6), kernel_shape=[2, 2, 3], pads=[1, 0, 1] * 2, opset=11)
average("pads", (2, 2, 6, 6), kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2], opset=11)
average("uneven", (1, 2, 6, 6), kernel_shape=[3, 3], pads=[0, 2, 1, 0], strides=[2, 2])
average("ceil", (1, 2, 6, 7), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
average("ceil-pads", (1, 1, 6, 6), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1, pads=[1] * 4)
average("same-upper", (1, 1, 5, 6), kernel_shape=[2, 2], auto_pad="SAME_UPPER")
average("same-lower", (1, 1, 5, 6), kernel_shape=[2, 3], auto_pad="SAME_LOWER", strides=[2, 2])
average("dilated", (1, 1, 7, 7), kernel_shape=[2, 2], dilations=[2, 3], pads=[1, 0, 0, 1])

for shape, opset in (((1, 3, 4, 5), 1), ((2, 3, 7), 13), ((1, 2, 3, 4, 2), 22)):
    one("GlobalAveragePool", f"rank{len(shape)}", shape, opset=opset, affine=True)


def statistics(channels):
    return w(channels), w(channels), w(channels), positive(channels)


for shape, opset, given in (
    ((2, 3), 9, {}),
    ((1, 3, 5), 14, {"epsilon": 0.1}),
    ((1, 3, 4, 5), 7, {"epsilon": 0.001, "momentum": 0.8}),
    ((2, 3, 4, 5), 15, {"training_mode": 0}),
    ((1, 2, 3, 4, 2), 13, {"epsilon": 0.5}),
):
    one(
        "BatchNormalization",
        f"rank{len(shape)}",
        shape,
        *statistics(shape[1]),
        opset=opset,
        affine=True,
        **given,
    )

for trans_a, trans_b in itertools.product((0, 1), (0, 1)):
    flips = {"transA": trans_a, "transB": trans_b}
    x_shape, b_shape = ((4, 2) if trans_a else (2, 4)), ((3, 4) if trans_b else (4, 3))
    one("Gemm", f"{trans_a}{trans_b}", x_shape, w(*b_shape), w(3), opset=9, affine=True, **flips)
    second = (3, 4) if trans_b else (4, 3)
    a_shape = (4, 2) if trans_a else (2, 4)
    one(
        "Gemm",
        f"second-{trans_a}{trans_b}",
        second,
        w(*a_shape),
        w(2, 3),
        at=1,
        affine=True,
        alpha=0.5,
        **flips,
    )
for c in ((), (1,), (3,), (1, 3), (2, 1), (2, 3), (1, 1)):
    one("Gemm", f"c{list(c)}", (2, 4), w(4, 3), w(*c), affine=True, alpha=1.5, beta=-0.5, opset=7)
one("Gemm", "one-row", (1, 4), w(4, 3), w(3), affine=True, alpha=2.0, beta=0.25)
one("Gemm", "no-c", (2, 4), w(3, 4), affine=True, opset=11, transB=1, alpha=0.5)
one("Gemm", "x-is-c", (1, 3), w(2, 4), w(4, 3), at=2, affine=True, beta=2.0)
whole("Gemm", "rows-rows", net([node("Gemm", "x x x", transB=1, alpha=0.5)], (3, 3)), (3, 3))

for x_shape, c_shape in (
    ((4,), (4, 3)),
    ((4,), (4,)),
    ((2, 4), (4, 3)),
    ((1, 4), (4, 3)),
    ((2, 4), (4,)),
    ((2, 3, 4), (4, 5)),
    ((2, 3, 4), (2, 4, 5)),
    ((3, 4), (2, 4, 5)),
    ((1, 2, 3, 4), (2, 4, 5)),
    ((1, 2, 3, 4), (4,)),
    ((4,), (2, 4, 5)),
):
    one("MatMul", f"{list(x_shape)}x{list(c_shape)}", x_shape, w(*c_shape), opset=9, affine=True)
for x_shape, c_shape in (
    ((2, 4), (3, 2)),
    ((2,), (3, 2)),
    ((2, 4), (2,)),
    ((3, 4), (2, 5, 3)),
    ((2, 3, 4), (5, 3)),
    ((2, 4, 3), (4,)),
):
    one("MatMul", f"{list(c_shape)}x{list(x_shape)}", x_shape, w(*c_shape), at=1, affine=True)
for shape, perm in (((3, 4), [1, 0]), ((2, 3, 4), [0, 2, 1]), ((1, 2, 3, 4), [0, 1, 3, 2])):
    turned = [node("Transpose", "x", "t", perm=perm), node("MatMul", "x t")]
    whole("MatMul", f"rows-rows-{len(shape)}", net(turned, shape), shape)
attention = [node("MatMul", "x q", "a"), node("Transpose", "x", "t"), node("MatMul", "t a")]
whole("MatMul", "rows-rows-1-2", net(attention, (3, 4), {"q": w(4)}), (3, 4))

# --- shapes ------------------------------------------------------------------------------------------

constants = {
    "value": helper.make_tensor("v", TensorProto.FLOAT, (2, 1), [1.5, -2.0]),
    "value_float": 2.5,
    "value_floats": [1.0, 2.0, 4.0],
}
for key, value in constants.items():
    nodes = [node("Constant", "", "c", **{key: value}), node("Mul", "x c")]
    whole("Constant", key, net(nodes, (2, 3), opset=12), (2, 3), affine=True)
for key, value in (("value_ints", [3, -1]), ("value_int", -1)):
    nodes = [node("Constant", "", "c", **{key: value})]
    nodes += [node("Reshape", "c k", "s"), node("Reshape", "x s")]
    size = {"k": np.array([-1])}
    whole("Constant", key, net(nodes, (2, 3), size, opset=13), (2, 3), affine=True)
whole(
    "Constant",
    "alone",
    net([node("Constant", "", "y", value_floats=[1.0, 2.0])], (3,), opset=12),
    (3,),
    affine=True,
)

for opset, given in ((7, {"ratio": 0.3}), (10, {})):
    one("Dropout", f"attribute{given}", (2, 3), opset=opset, affine=True, **given)
one("Dropout", "inputs", (2, 3), np.float32(0.4), np.array(False), opset=13, affine=True)
one("Dropout", "ratio", (2, 3), np.float32(0.4), opset=12, affine=True)
one("Dropout", "no-ratio", (2, 3), None, np.array(False), opset=13, affine=True)
whole(
    "Dropout",
    "unread-mask",
    net([node("Dropout", "x", "y mask")], (2, 3), opset=9),
    (2, 3),
    affine=True,
)

for axis in (0, 1, 2, 4, -1, -3):
    nodes = [node("Flatten", "x", "a", axis=axis), node("Softmax", "a", axis=1)]
    whole("Flatten", f"axis{axis}", net(nodes, (2, 3, 1, 2), opset=11), (2, 3, 1, 2))
one("Flatten", "default", (1, 3, 2), opset=1, affine=True)
one("Flatten", "vector", (5,), opset=13, axis=0, affine=True)

for shape, opset in (((3,), 1), ((2, 1, 4), 16)):
    one("Identity", f"rank{len(shape)}", shape, opset=opset, affine=True)
chain = [
    node("Identity", "c", "d"),
    node("Identity", "x", "a"),
    node("Add", "a d", "b"),
    node("Identity", "b"),
]
whole("Identity", "chain", net(chain, (2, 3), {"c": w(3)}), (2, 3), affine=True)

for target, given, opset in (
    ([0, -1], {}, 5),
    ([-1], {}, 9),
    ([2, 0, -1], {"allowzero": 0}, 14),
    ([4, 3, 2], {"allowzero": 1}, 14),
    ([0, 0, 2, 2], {}, 13),
    ([1, 2, 1, -1], {}, 21),
):
    nodes = [node("Reshape", "x s", "a", **given), node("Softmax", "a", axis=-1)]
    model = net(nodes, (2, 3, 4), {"s": np.array(target, np.int64)}, opset)
    whole("Reshape", f"{target}-{given}", model, (2, 3, 4))

for perm in (
    None,
    [1, 0],
    [2, 0, 1],
    [0, 2, 1],
    [0, 3, 1, 2],
    [3, 2, 0, 1],
    [4, 0, 3, 1, 2],
    [0, 2, 1, 4, 3],
):
    shape = (2, 3, 4, 2, 3)[: len(perm or "abc")]
    given = {} if perm is None else {"perm": perm}
    nodes = [node("Transpose", "x", "a", **given), node("Mul", "a c")]
    model = net(nodes, shape, {"c": w(shape[perm[-1] if perm else 0])}, 9)
    whole("Transpose", f"{perm}", model, shape, affine=True)
