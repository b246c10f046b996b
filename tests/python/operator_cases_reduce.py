"""Cases of operators that join numbers along axes, and of those that find their places."""

import itertools

import numpy as np
from case_tools import cast, ints, node, one, positive, several, to_int, w, whole_numbers, within

REDUCTIONS = {
    "ReduceL1": 18,
    "ReduceL2": 18,
    "ReduceLogSum": 18,
    "ReduceLogSumExp": 18,
    "ReduceMax": 18,
    "ReduceMean": 18,
    "ReduceMin": 18,
    "ReduceProd": 18,
    "ReduceSum": 13,
    "ReduceSumSquare": 18,
}  # the opset since which the axes are an input
AXES = ([0], [1], [-1], [0, 2], [2, 1], [-3, -1], [0, 1, 2])
for op, since in REDUCTIONS.items():
    affine = op in ("ReduceSum", "ReduceMean")
    draw = positive if op == "ReduceLogSum" else w
    like = {"affine": affine, "draw": draw}
    for axes, keep in zip(AXES, itertools.cycle((1, 0)), strict=False):
        name = f"axes{axes}-keep{keep}"
        one(op, name, (2, 3, 4), opset=11, axes=axes, keepdims=keep, **like)
        one(op, name, (2, 3, 4), ints(*axes), opset=since, keepdims=1 - keep, **like)
    one(op, "all", (2, 3, 4), opset=7, **like)
    one(op, "all-flat", (2, 3, 4), opset=since, keepdims=0, **like)
    one(op, "default", (3, 2), ints(1), opset=since, **like)
    one(op, "vector", (5,), ints(0), opset=since, keepdims=0, **like)
    one(op, "empty-axes", (2, 3), ints(), opset=since, keepdims=0, **like)
    noop = {"noop_with_empty_axes": 1, "keepdims": 0}
    one(op, "noop-empty", (2, 3), ints(), opset=since, **noop, **like)
    one(op, "noop-left-out", (2, 3), opset=since, **noop, **like)
    # Between other layers, so that the rank that is left matters.
    nodes = [node(op, "x", "a", axes=[1], keepdims=0), node("Mul", "a c")]
    several(op, "then-mul", nodes, (2, 3, 4), {"c": w(4)}, 11, **like)
nodes = [node("ReduceMax", "x", "m", axes=[-1]), node("Sub", "x m")]
several("ReduceMax", "softmax-shift", nodes, (2, 5), opset=13)
for op in ("ReduceMax", "ReduceMin", "ReduceSum", "ReduceProd"):
    axes = {"s": ints(1)} if op == "ReduceSum" else {}
    given = {} if axes else {"axes": [1]}
    nodes = [to_int("x", "a"), node(op, "a s" if axes else "a", "b", **given), cast("b")]
    several(op, "integers", nodes, (3, 4), axes, 13, draw=within(-5, 5))
one("ReduceMax", "ties", (2, 6), opset=13, axes=[1], draw=whole_numbers)
one("ReduceLogSumExp", "large", (2, 4), opset=13, axes=[1], draw=within(-200, 200))
nodes = [node("Shape", "x", "s"), node("ReduceProd", "s", "n"), cast("n", "f"), node("Div", "x f")]
several("ReduceProd", "of-a-shape", nodes, (2, 3, 4), opset=13, affine=True)
nodes = [
    node("ReduceMean", "x", "m", axes=[-1]),
    node("Sub", "x m", "d"),
    node("Mul", "d d", "q"),
    node("ReduceMean", "q", "v", axes=[-1]),
    node("Add", "v e", "f"),
    node("Sqrt", "f", "g"),
    node("Div", "d g"),
]
several("ReduceMean", "layer-normalization", nodes, (2, 3, 8), {"e": np.float32(1e-5)})

for op in ("ArgMax", "ArgMin"):
    for axis, opset, keep in (
        (0, 7, 1),
        (1, 11, 0),
        (2, 12, 1),
        (-1, 13, 0),
        (-3, 13, 1),
        (1, 13, 1),
    ):
        given = {"axis": axis, "keepdims": keep}
        one(op, f"{given}", (2, 5, 4), opset=opset, floats=False, **given)
    one(op, "default", (4, 3), opset=13, floats=False)
    one(op, "vector", (7,), opset=13, floats=False, keepdims=0)
    for last in (0, 1):
        given = {"axis": 1, "select_last_index": last}
        one(op, f"ties-last{last}", (4, 6), floats=False, draw=whole_numbers, **given)

for axis, opset in itertools.product((0, 1, -1), (11, 14)):
    for given in ({}, {"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1}):
        name = f"axis{axis}-{given}"
        one("CumSum", name, (2, 3, 4), np.int64(axis), opset=opset, affine=True, **given)
one("CumSum", "int32", (2, 3), np.array([1], np.int32), opset=14, affine=True)
nodes = [to_int("x", "a"), node("CumSum", "a c", "b"), cast("b")]
several("CumSum", "integers", nodes, (5,), {"c": np.int64(0)}, draw=within(-5, 5))


def top_k(name, shape, k, opset=11, draw=None, **attributes):
    """The values and their places, one network for each, then both in one."""
    given = {"k": k} if opset < 10 else {}
    constants = {} if opset < 10 else {"k": ints(k)}
    inputs = "x" if opset < 10 else "x k"
    values = node("TopK", inputs, "y i", **given, **attributes)
    several("TopK", f"values-{name}", [values], shape, constants, opset, draw=draw)
    places = [node("TopK", inputs, "v i", **given, **attributes), cast("i")]
    several("TopK", f"places-{name}", places, shape, constants, opset, draw=draw)
    both = [node("TopK", inputs, "v i", **given, **attributes), cast("i", "f"), node("Add", "v f")]
    several("TopK", f"both-{name}", both, shape, constants, opset, draw=draw)


top_k("old", (2, 6), 2, opset=7, axis=1)
top_k("old-axis", (4, 2, 3), 3, opset=7, axis=0)
top_k("input", (2, 6), 2, opset=10)
top_k("default", (2, 3, 6), 3)
top_k("axis", (2, 5, 3), 4, axis=1)
top_k("first", (4, 3), 1, axis=0)
top_k("smallest", (2, 6), 3, largest=0)
top_k("all", (2, 6), 6, axis=-1)
top_k("version-24", (2, 5, 3), 2, axis=-2, opset=13)
top_k("ties", (3, 8), 5, draw=whole_numbers)
top_k("ties-smallest", (3, 8), 5, draw=whole_numbers, largest=0)
top_k("vector", (9,), 4)
