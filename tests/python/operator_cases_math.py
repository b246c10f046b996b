"""Cases of operators that work element by element."""

import itertools

import numpy as np
from case_tools import (
    cast,
    halves,
    net,
    node,
    one,
    positive,
    several,
    to_int,
    w,
    whole,
    whole_numbers,
    within,
)
from onnx import TensorProto

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

# --- functions of one number -------------------------------------------------------------------------

FUNCTIONS = {  # operator -> its opset versions, what is drawn
    "Abs": ((6, 13), halves),
    "Acos": ((7, 22), within(-1, 1)),
    "Acosh": ((9, 22), within(1, 5)),
    "Asin": ((7, 22), within(-1, 1)),
    "Asinh": ((9, 22), w),
    "Atan": ((7, 22), w),
    "Atanh": ((9, 22), within(-0.99, 0.99)),
    "Ceil": ((6, 13), halves),
    "Cos": ((7, 22), within(-7, 7)),
    "Cosh": ((9, 22), w),
    "Erf": ((9, 13), w),
    "Exp": ((6, 13), w),
    "HardSwish": ((14, 22), within(-5, 5)),
    "Log": ((6, 13), positive),
    "Mish": ((18, 22), within(-5, 5)),
    "Neg": ((6, 13), w),
    "Reciprocal": ((6, 13), positive),
    "Sin": ((7, 22), within(-7, 7)),
    "Sinh": ((9, 22), w),
    "Softplus": ((1, 22), within(-30, 30)),
    "Softsign": ((1, 22), halves),
    "Sqrt": ((6, 13), positive),
    "Tan": ((7, 22), within(-1.3, 1.3)),
}
for op, (opsets, draw) in FUNCTIONS.items():
    for shape, opset in zip(((1, 2, 3, 4), (6,)), opsets, strict=True):
        # Where a version is much older than ONNX files in use, the oldest opset that those have.
        one(op, f"rank{len(shape)}", shape, opset=max(opset, 7), affine=op == "Neg", draw=draw)
# Outside the domain and at its ends: NaN and infinities.
one("Log", "ends", (7,), draw=halves)
one("Sqrt", "ends", (7,), draw=halves)
one("Atanh", "ends", (7,), draw=whole_numbers)
one("Acosh", "ends", (7,), draw=whole_numbers)
one("Acos", "ends", (7,), draw=halves)
one("Asin", "ends", (7,), draw=halves)
one("Reciprocal", "ends", (7,), draw=halves)
one("Exp", "large", (2, 3), draw=within(-120, 120))
for op in ("Neg", "Abs"):
    nodes = [to_int("x", "a"), node(op, "a", "b"), cast("b")]
    several(op, "integers", nodes, (2, 5), draw=halves)
several("Ceil", "step", [node("Mul", "x c", "a"), node("Ceil", "a")], (4,), {"c": w(4)})

for op, opsets, settings in (
    ("Celu", (12,), ({}, {"alpha": 0.5}, {"alpha": 3.0})),
    ("Elu", (7, 22), ({}, {"alpha": 0.5}, {"alpha": -0.5})),
    ("Selu", (7, 22), ({}, {"alpha": 2.0, "gamma": 0.5})),
    ("HardSigmoid", (7, 22), ({}, {"alpha": 0.4, "beta": 0.3})),
    ("ThresholdedRelu", (10, 22), ({}, {"alpha": 0.5}, {"alpha": -0.5})),
    ("Gelu", (20,), ({}, {"approximate": "none"}, {"approximate": "tanh"})),
):
    for opset, given in itertools.product(opsets, settings):
        one(op, f"{given}", (2, 5), opset=opset, draw=within(-4, 4), **given)

# --- bounds ------------------------------------------------------------------------------------------

for given in ({"min": -0.5, "max": 0.25}, {"min": 0.1}, {"max": -0.1}, {}):
    one("Clip", f"{given}", (2, 4), opset=7, affine=not given, **given)
for lo, hi in ((-0.5, 0.25), (None, 0.3), (-0.2, None), (0.5, -0.5)):
    ends = [None if end is None else np.float32(end) for end in (lo, hi)]
    for opset in (11, 12, 13):
        one("Clip", f"{lo}-{hi}", (3, 4), *ends, opset=opset)
one("Clip", "no-bounds", (3, 4), opset=13, affine=True)
several(
    "Clip",
    "bounds-of-a-row",
    [
        node("ReduceMean", "x", "lo", keepdims=0),
        node("Add", "lo c", "hi"),
        node("Clip", "x lo hi"),
    ],
    (3, 4),
    {"c": np.float32(0.5)},
)
several(
    "Clip",
    "integers",
    [to_int("x", "a"), node("Clip", "a lo hi", "b"), cast("b")],
    (3, 4),
    {"lo": np.int64(-2), "hi": np.int64(1)},
    draw=halves,
)

for op in ("Max", "Min", "Mean", "Sum"):
    affine = op in ("Mean", "Sum")
    one(op, "alone", (2, 3), opset=8, affine=True)
    for constant in ((), (4,), (3, 1), (2, 1, 4)):
        one(op, f"const{list(constant)}", (3, 4), w(*constant), opset=8, affine=affine)
    one(op, "three", (3, 4), w(3, 4), w(4), affine=affine)
    one(op, "second", (1, 4), w(3, 1), w(1), at=1, affine=affine)
    nodes = [node("Mul", "x c", "a"), node(op, "a x d")]
    several(op, "rows", nodes, (3, 4), {"c": w(4), "d": w(2, 3, 1)}, affine=affine)
for op in ("Max", "Min"):
    one(op, "equal", (2, 5), whole_numbers(5), draw=whole_numbers)
    nodes = [to_int("x", "a"), node(op, "a c", "b"), cast("b")]
    several(op, "integers", nodes, (2, 5), {"c": np.int64(1)}, draw=halves)

for slope in ((), (1,), (3, 1, 1), (2, 3, 1, 4)):
    if len(slope) < 4:
        one("PRelu", f"slope{list(slope)}", (1, 3, 2, 4), w(*slope), opset=9)
    one("PRelu", f"slope{list(slope)}", (2, 3, 2, 4), w(*slope), opset=16)
one("PRelu", "vector", (5,), w(5), opset=7)
several("PRelu", "slope-of-a-row", [node("Mul", "x x", "a"), node("PRelu", "x a")], (2, 3))

# --- arithmetic --------------------------------------------------------------------------------------

for exponent, opset, draw in (
    (2.0, 7, w),
    (3.0, 12, halves),
    (0.5, 13, positive),
    (-1.5, 15, positive),
    (0.0, 13, halves),
    (1.0, 13, w),
    (-2.0, 13, positive),
):
    one("Pow", f"to{exponent}", (2, 3), np.float32(exponent), opset=opset, draw=draw)
one("Pow", "exponents", (2, 4), w(2, 4), opset=13, draw=positive)
one("Pow", "integer-exponents", (2, 4), np.array([0, 1, 2, 3]), opset=12, draw=halves)
one("Pow", "int32-exponent", (4,), np.array(2, np.int32), opset=15, draw=halves)
one("Pow", "base", (2, 4), positive(3, 1, 4), at=1, opset=13)
several("Pow", "rows", [node("Abs", "x", "a"), node("Pow", "a x")], (2, 3), opset=15, draw=positive)

for opset in (10, 13):
    one("Mod", "float", (2, 6), np.float32([0.7, -0.7, 2, -2, 1.5, 3]), opset=opset, fmod=1)
    for fmod in (0, 1):
        nodes = [to_int("x", "a"), node("Mod", "a b", "c", fmod=fmod), cast("c")]
        constants = {"b": np.array([3, -3, 2, -2, 5, 1])}
        several("Mod", f"integers{fmod}", nodes, (2, 6), constants, opset, draw=within(-9, 9))
one("Mod", "first", (2, 3), w(3), at=1, fmod=1, draw=positive)
several(
    "Mod",
    "sizes",
    [node("Shape", "x", "s"), node("Mod", "s c", "m"), cast("m", "f"), node("Add", "x f")],
    (5, 2),
    {"c": np.array([3, 3])},
    affine=True,
)

# --- comparisons and logic ---------------------------------------------------------------------------

COMPARISONS = {
    "Equal": (11, 13, 19),
    "Greater": (7, 9, 13),
    "GreaterOrEqual": (12, 16),
    "Less": (7, 9, 13),
    "LessOrEqual": (12, 16),
}
for op, opsets in COMPARISONS.items():
    for opset in opsets:
        one(op, "const", (3, 4), whole_numbers(4), opset=opset, floats=False, draw=whole_numbers)
    one(op, "first", (3, 1), whole_numbers(2, 1, 4), at=1, floats=False, draw=whole_numbers)
    nodes = [node("Mul", "x c", "a"), node(op, "a x", "b"), cast("b")]
    several(op, "rows", nodes, (3, 4), {"c": whole_numbers(3, 4)}, draw=whole_numbers)
    nodes = [to_int("x", "a"), node(op, "a c", "b"), cast("b")]
    several(op, "integers", nodes, (3, 4), {"c": np.int64(1)}, draw=whole_numbers)
nodes = [
    cast("x", "a", TensorProto.BOOL),
    node("Equal", "a c", "b"),
    cast("b"),
]
several("Equal", "truth", nodes, (5,), {"c": np.array(True)}, 7, draw=whole_numbers)

for op in ("And", "Or", "Xor"):
    for constant in ((), (4,), (2, 3, 1)):
        mixed = np.arange(np.prod(constant, dtype=int)).reshape(constant) % 2 > 0
        truth = {"c": mixed if constant else np.array(op != "Or"), "z": np.float32(0)}
        nodes = [node("Greater", "x z", "a"), node(op, "a c", "b"), cast("b")]
        several(op, f"const{list(constant)}", nodes, (3, 4), truth, 9)
    nodes = [
        node("Greater", "x z", "a"),
        node("Less", "x c", "b"),
        node(op, "a b", "d"),
        cast("d"),
    ]
    several(op, "rows", nodes, (3, 4), {"z": np.float32(0), "c": w(4)}, 13)
for opset in (9, 13):
    nodes = [node("Less", "x c", "a"), node("Not", "a", "b"), cast("b")]
    several("Not", "rows", nodes, (3, 4), {"c": w(3, 1)}, opset)
nodes = [node("Not", "c", "a"), node("Where", "a x d")]
several("Not", "const", nodes, (2, 3), {"c": w(3) > 0, "d": w(2, 3)}, affine=True)

# x / 0 is an infinity, 0 / 0 is NaN.
ZEROS = {"c": np.float32([0, 1, 0, -0.0, 2])}
for opset in (10, 20):
    for ends in ({}, {"detect_negative": 0}, {"detect_positive": 0}):
        nodes = [node("Div", "x c", "a"), node("IsInf", "a", "b", **ends), cast("b")]
        several("IsInf", f"{ends}", nodes, (2, 5), ZEROS, opset, draw=whole_numbers)
for opset in (9, 13, 20):
    nodes = [node("Div", "x c", "a"), node("IsNaN", "a", "b"), cast("b")]
    several("IsNaN", "division", nodes, (2, 5), ZEROS, opset, draw=whole_numbers)

for opset in (9, 16):
    nodes = [node("Greater", "x c", "a"), node("Where", "a x d")]
    several("Where", "rows", nodes, (3, 4), {"c": w(4), "d": w(2, 3, 1)}, opset)
one("Where", "const-condition", (3, 4), w(3, 4) > 0, w(3, 4), at=1, affine=True)
one("Where", "wider-condition", (3, 1), w(2, 3, 4) > 0, w(4), at=2, affine=True)
nodes = [node("Greater", "x z", "a"), node("Where", "a c d")]
several("Where", "const-branches", nodes, (3, 4), {"z": w(), "c": w(4), "d": w(3, 1)})
nodes = [
    node("Less", "x z", "a"),
    node("Mul", "x c", "b"),
    node("Where", "a b x"),
]
several("Where", "three-rows", nodes, (2, 4), {"z": w(4), "c": w(2, 1)})
nodes = [
    node("Equal", "s m", "a"),
    node("Where", "a o s", "t"),
    node("Expand", "x t"),
]
sizes = {"s": np.array([2, -1, 4]), "m": np.int64(-1), "o": np.array([1, 1, 1])}
several("Where", "sizes", nodes, (3, 4), {**sizes, "o": np.array([1, 3, 1])}, affine=True)

for axis, opset in itertools.product((0, 1, 2, -1, None), (11, 12, 13)):
    given = {} if axis is None else {"axis": axis}
    one("LogSoftmax", f"axis{axis}", (2, 3, 4), opset=opset, **given)
one("LogSoftmax", "large", (2, 4), draw=lambda *s: 300 * w(*s))
