"""Cases of operators that move or repeat numbers without looking at them."""

import itertools

import numpy as np
from case_tools import (
    cast,
    halves,
    ints,
    net,
    node,
    one,
    several,
    w,
    whole,
    within,
)
from onnx import TensorProto, helper

CONSTANTS = {
    "value": helper.make_tensor("v", TensorProto.FLOAT, (2, 1), [1.5, -2.0]),
    "value_float": 2.5,
    "value_floats": [1.0, 2.0, 4.0],
}
for key, value in CONSTANTS.items():
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

# --- types -------------------------------------------------------------------------------------------

BACK = (
    ("int64", TensorProto.INT64, within(-9, 9)),
    ("int32", TensorProto.INT32, halves),
    ("int8", TensorProto.INT8, halves),
    ("uint8", TensorProto.UINT8, within(0, 200)),
    ("bool", TensorProto.BOOL, halves),
    ("float", TensorProto.FLOAT, w),
    ("double", TensorProto.DOUBLE, w),
    ("half", TensorProto.FLOAT16, w),
)
for (name, kind, draw), opset in itertools.product(BACK, (9, 13, 21)):
    nodes = [cast("x", "a", kind), cast("a")]
    # What rounding to half precision does to the gradient is nobody's business here.
    affine = name in ("float", "double")
    several("Cast", name, nodes, (2, 5), opset=opset, affine=affine, draw=draw)
for kind in (np.int64, np.int32, np.uint8, np.bool_, np.float64, np.float16):
    constants = {"c": np.array([0, 1, 3], kind)}
    nodes = [cast("c", "d"), node("Mul", "x d")]
    several("Cast", f"const-{kind.__name__}", nodes, (2, 3), constants, affine=True)
nodes = [cast("x", "a", TensorProto.DOUBLE), node("Exp", "a", "b"), cast("b")]
several("Cast", "computed-in-double", nodes, (2, 3))

for opset in (15, 19, 21):
    nodes = [node("CastLike", "x c", "a"), node("CastLike", "a x")]
    several("CastLike", "integer", nodes, (2, 5), {"c": ints(1)}, opset, draw=halves)
    several("CastLike", "float", nodes, (2, 5), {"c": w(1)}, opset, affine=True)
nodes = [node("CastLike", "c x", "a"), node("Mul", "a x")]
several("CastLike", "of-a-constant", nodes, (2, 3), {"c": ints(1, 2, 3)}, 15, affine=True)

# --- joining and taking apart ------------------------------------------------------------------------

for axis, opset in ((0, 7), (1, 11), (2, 13), (-1, 13), (-3, 13)):
    shape = [2, 3, 4]
    shape[axis] = 2
    one("Concat", f"axis{axis}", (2, 3, 4), w(*shape), opset=opset, affine=True, axis=axis)
    one("Concat", f"axis{axis}-after", (2, 3, 4), w(*shape), at=1, affine=True, axis=axis)
one("Concat", "alone", (2, 3), affine=True, axis=0)
nodes = [node("Mul", "x x", "a"), node("Concat", "x c a x", axis=1)]
several("Concat", "rows", nodes, (2, 3), {"c": w(2, 1)})
one("Concat", "vectors", (3,), w(2), w(4), axis=0, affine=True)

for axis, sizes, shape, opset in (
    (1, [2, 4], (2, 6, 3), 7),
    (-1, [1, 1, 1], (2, 6, 3), 11),
    (0, [3, 1], (4, 2), 2),
    (1, [1, 2, 3], (2, 6), 13),
    (0, [2, 2], (4, 2), 18),
    (-2, [5, 1], (2, 6, 3), 13),
):
    parts = "a b c"[: 2 * len(sizes) - 1]
    given = {"split": sizes} if opset < 13 else {}
    constants = {"s": ints(*sizes)} if opset >= 13 else {}
    nodes = [
        node("Split", "x s" if constants else "x", parts, axis=axis, **given),
        node("Concat", " ".join(reversed(parts.split())), axis=axis),
    ]
    several("Split", f"{sizes}-axis{axis}", nodes, shape, constants, max(opset, 7), affine=True)
for opset, given in ((7, {}), (11, {}), (13, {}), (18, {"num_outputs": 3})):
    nodes = [node("Split", "x", "a b c", axis=1, **given), node("Mul", "a b", "d")]
    nodes.append(node("Add", "d c"))
    several("Split", "equal", nodes, (2, 6), opset=opset)
nodes = [
    node("Split", "x", "a b c", axis=0, num_outputs=3),
    node("Concat", "c a b", axis=0),
]
several("Split", "last-is-smaller", nodes, (7, 2), opset=18, affine=True)
several("Split", "one-is-read", [node("Split", "x", "a y", axis=1)], (2, 4), opset=13, affine=True)

# --- axes of length one ------------------------------------------------------------------------------

for axes, shape in (([0], (1, 3, 4)), ([1, -1], (2, 1, 3, 1)), ([2], (2, 3, 1)), ([-2], (3, 1, 2))):
    after = [node("Softmax", "a", axis=-1)]
    for opset in (7, 11) if min(axes) >= 0 else (11,):
        nodes = [node("Squeeze", "x", "a", axes=axes), node("Mul", "a a")]
        several("Squeeze", f"attribute{axes}", nodes, shape, opset=opset)
    several(
        "Squeeze", f"input{axes}", [node("Squeeze", "x c", "a"), *after], shape, {"c": ints(*axes)}
    )
several("Squeeze", "all", [node("Squeeze", "x", "a"), node("Mul", "a c")], (1, 3, 1), {"c": w(3)})
several(
    "Squeeze",
    "scalar",
    [node("Squeeze", "x c", "a"), node("Mul", "a d")],
    (1, 1),
    {"c": ints(0, 1), "d": w(3)},
    affine=True,
)
for axes in ([0], [1, 3], [-1], [2], [0, -1], [-3]):
    for opset in (7, 11) if min(axes) >= 0 else (11,):
        nodes = [node("Unsqueeze", "x", "a", axes=axes), node("Add", "a a")]
        name = f"attribute{axes}"
        several("Unsqueeze", name, nodes, (2, 3), opset=opset, affine=True)
    for opset in (13, 21, 23):
        nodes = [node("Unsqueeze", "x c", "a"), node("Mul", "a d")]
        constants = {"c": ints(*axes), "d": w(3, 1)}
        several("Unsqueeze", f"input{axes}", nodes, (3, 1), constants, opset, affine=True)

# --- repeating ---------------------------------------------------------------------------------------

for shape, target, opset in (
    ((3, 1), [3, 4], 8),
    ((3, 1), [2, 3, 4], 13),
    ((3, 4), [1], 13),
    ((1, 4), [3, 1], 13),
    ((4,), [2, 1, 4], 13),
    ((2, 1, 3), [1, 4, 1], 13),
):
    nodes = [node("Expand", "x s", "a"), node("Mul", "a c")]
    constants = {"s": ints(*target), "c": w(shape[-1] if shape[-1] > 1 else target[-1])}
    several("Expand", f"{list(shape)}-{target}", nodes, shape, constants, opset, affine=True)
nodes = [node("Shape", "c", "s"), node("Expand", "x s")]
several("Expand", "like-another", nodes, (1, 4), {"c": w(3, 4)}, affine=True)
nodes = [node("Shape", "x", "s"), node("Expand", "c s", "a"), node("Add", "x a")]
several("Expand", "of-a-constant", nodes, (2, 4), {"c": w(2, 1)}, affine=True)

for shape, repeats, opset in (
    ((2, 3), [1, 2], 7),
    ((2, 3), [3, 1], 13),
    ((1, 2, 3), [2, 2, 2], 13),
    ((4,), [3], 13),
    ((2, 3), [1, 1], 13),
):
    constants = {"r": ints(*repeats), "c": w(shape[-1] * repeats[-1])}
    nodes = [node("Tile", "x r", "a"), node("Mul", "a c")]
    several("Tile", f"{repeats}", nodes, shape, constants, opset, affine=True)

for value, kind in (((2.5,), TensorProto.FLOAT), ((3,), TensorProto.INT64), (None, None)):
    given = {} if value is None else {"value": helper.make_tensor("v", kind, (1,), value)}
    nodes = [
        node("Shape", "x", "s"),
        node("ConstantOfShape", "s", "a", **given),
        cast("a", "f"),
        node("Add", "x f"),
    ]
    for opset in (9, 21):
        several("ConstantOfShape", f"{value}", nodes, (2, 3), opset=opset, affine=True)
nodes = [node("ConstantOfShape", "s", "a"), node("Concat", "a x", axis=0)]
several("ConstantOfShape", "given", nodes, (2, 3), {"s": ints(2, 3)}, affine=True)
nodes = [node("ConstantOfShape", "s", "a"), node("Add", "a x")]
several("ConstantOfShape", "scalar", nodes, (2, 3), {"s": ints()}, affine=True)

# --- triangles and blocks ----------------------------------------------------------------------------

for shape, upper in itertools.product(((4, 5), (2, 3, 3), (1, 2, 4, 3)), (0, 1)):
    one("Trilu", f"{list(shape)}-{upper}", shape, opset=14, affine=True, upper=upper)
for k, upper in itertools.product((1, -1, 9, -9), (0, 1)):
    one("Trilu", f"k{k}-{upper}", (4, 5), np.int64(k), opset=14, affine=True, upper=upper)
nodes = [node("Trilu", "c", "a"), node("Mul", "x a")]
several("Trilu", "mask", nodes, (3, 3), {"c": np.ones((3, 3), np.float32)}, 14, affine=True)

for opset, given in ((7, {}), (11, {"mode": "DCR"}), (11, {"mode": "CRD"}), (13, {"mode": "CRD"})):
    one("DepthToSpace", f"{given}", (1, 8, 2, 3), opset=opset, affine=True, blocksize=2, **given)
one("DepthToSpace", "batch", (2, 9, 1, 2), affine=True, blocksize=3)
for opset, shape, size in ((7, (1, 2, 4, 6), 2), (13, (2, 1, 3, 6), 3)):
    one("SpaceToDepth", f"{list(shape)}", shape, opset=opset, affine=True, blocksize=size)

# --- sizes -------------------------------------------------------------------------------------------

for opset, ends in (
    (7, {}),
    (13, {}),
    (15, {"start": 1}),
    (15, {"end": -1}),
    (19, {"start": -2, "end": 9}),
    (23, {"start": 1, "end": 2}),
):
    nodes = [node("Shape", "x", "s", **ends), cast("s", "f"), node("ReduceMax", "f", "m")]
    nodes.append(node("Mul", "x m"))
    if opset >= 18:
        nodes[2] = node("ReduceMax", "f", "m", keepdims=0)
    several("Shape", f"{ends}", nodes, (2, 3, 4), opset=opset, affine=True)
nodes = [
    node("Shape", "x", "s"),
    node("Gather", "s i", "n", axis=0),
    node("Unsqueeze", "n", "u", axes=[0]),
    node("Concat", "u m", "t", axis=0),
    node("Reshape", "x t"),
]
flat = {"i": np.int64(0), "m": ints(-1)}
several("Shape", "flatten-as-exported", nodes, (2, 3, 4), flat, 11, affine=True)
several("Shape", "open-batch", nodes, ("N", 3, 4), flat, 11, affine=True)
for opset in (7, 13, 21):
    nodes = [node("Size", "x", "s"), cast("s", "f"), node("Div", "x f")]
    several("Size", "divide", nodes, (2, 3, 4), opset=opset, affine=True)

for ends, kind in (((0, 6, 2), np.int64), ((5, -1, -2), np.int32), ((0.5, 2.0, 0.5), np.float32)):
    constants = {k: np.array(v, kind) for k, v in zip("lhd", ends, strict=True)}
    nodes = [node("Range", "l h d", "r"), cast("r", "f"), node("Mul", "x f")]
    several("Range", f"{ends}", nodes, (2, 3), constants, 11, affine=True)
nodes = [
    node("Shape", "x", "s"),
    node("Gather", "s i", "n", axis=0),
    node("Range", "z n o", "r"),
    node("Gather", "p r", "e", axis=0),
    node("Add", "x e"),
]
table = {"i": np.int64(0), "z": np.int64(0), "o": np.int64(1), "p": w(9, 4)}
several("Range", "positions", nodes, (5, 4), table, 13, affine=True)
