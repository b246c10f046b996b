"""Cases of operators that take numbers by their places: constant places, and those of each row."""

import itertools

import numpy as np
from case_tools import (
    cast,
    ints,
    node,
    one,
    several,
    to_int,
    w,
    whole_numbers,
    within,
)
from onnx import TensorProto, helper

# --- Gather and its relatives ------------------------------------------------------------------------

for places, axis, opset in (
    (np.int64(1), 0, 7),
    (ints(1), 0, 11),
    (ints(2, 0, 2), 1, 11),
    (ints(-1, 0), 2, 13),
    (np.int64(-2), -1, 13),
    (ints([0, 1], [2, 1]), 1, 13),
    (np.array([[0], [2]], np.int32), -1, 13),
):
    name = f"{places.tolist()}-axis{axis}"
    one("Gather", name, (3, 3, 4), places, opset=opset, affine=True, axis=axis)
one("Gather", "default", (3, 2), ints(2, 2, 0), affine=True)
one("Gather", "of-a-vector", (5,), np.int64(3), affine=True)
nodes = [node("Gather", "x i", "a", axis=0), node("Gather", "a j", axis=0)]
several("Gather", "twice", nodes, (4, 3), {"i": np.int64(-1), "j": np.int64(0)}, affine=True)
# Places that depend on the row: into a constant, and into the row.
for shape, axis in itertools.product(((), (3,), (2, 2)), (0, 1)):
    nodes = [to_int("x", "i"), node("Gather", "c i", axis=axis)]
    name = f"table-{list(shape)}-axis{axis}"
    several("Gather", name, nodes, shape, {"c": w(4, 4, 2)}, draw=within(-3.9, 3.9))
for keep in (0, 1):
    nodes = [
        node("ReduceMean", "x", "m", axes=[1], keepdims=0),
        node("ArgMax", "m", "i", axis=0, keepdims=keep),
        node("Gather", "x i", axis=0),
    ]
    several("Gather", f"best-keep{keep}", nodes, (4, 3), opset=13)
nodes = [
    node("Gather", "x f", "i", axis=0),
    to_int("i", "j"),
    node("Slice", "x b e", "d"),
    node("Gather", "d j", axis=0),
]
sizes = {"f": np.int64(0), "b": ints(1), "e": ints(9)}
several("Gather", "a-row-points-into-itself", nodes, (5,), sizes, draw=within(0, 3.9))
nodes = [
    to_int("x", "i"),
    node("Gather", "c i", "e", axis=0),
    node("ReduceMean", "e", "m", axes=[0], keepdims=0),
    node("Gemm", "n k b", "y"),
]
nodes.insert(3, node("Unsqueeze", "m a", "n"))
words = {"c": w(9, 4), "k": w(4, 3), "b": w(3), "a": ints(0)}
several("Gather", "embedding", nodes, (6,), words, draw=within(0, 8.9))

for axis, opset in ((0, 11), (1, 13), (-1, 13)):
    places = ints([0, 1, 2, -1], [2, 0, 0, 1])
    if axis:
        places = places[:, :3]
    one("GatherElements", f"axis{axis}", (3, 4), places, opset=opset, affine=True, axis=axis)
one("GatherElements", "rank3", (2, 3, 4), ints([[0, 2]], [[1, 1]]), axis=1, affine=True)
nodes = [node("ArgMax", "x", "i", axis=1), node("GatherElements", "x i", axis=1)]
several("GatherElements", "best", nodes, (3, 5))
nodes = [to_int("x", "i"), node("GatherElements", "c i", axis=0)]
several("GatherElements", "table", nodes, (2, 3), {"c": w(4, 3)}, draw=within(-3.9, 3.9))
nodes = [node("TopK", "x k", "v i", axis=1), node("GatherElements", "z i", axis=1)]
several("GatherElements", "sorted", nodes, (2, 4), {"k": ints(2), "z": w(2, 4)})

for places, depth, opset in (
    (ints([0, 1], [1, 0]), 0, 11),
    (ints([[1]], [[0]]), 0, 12),
    (ints([0, -1, 2]), 0, 13),
    (ints([1], [0]), 1, 13),
    (ints([[2], [0]], [[1], [1]]), 1, 12),
    (ints(1, 2), 0, 13),
):
    given = {"batch_dims": depth} if depth else {}
    name = f"{places.tolist()}-{depth}"
    one("GatherND", name, (2, 3, 4), places, opset=opset, affine=True, **given)
nodes = [to_int("x", "i"), node("GatherND", "c i")]
several("GatherND", "table", nodes, (3, 2), {"c": w(3, 3, 2)}, draw=within(-2.9, 2.9))
nodes = [
    node("ArgMax", "x", "a", axis=0, keepdims=1),
    node("Unsqueeze", "a z", "i"),
    node("GatherND", "x i"),
]
several("GatherND", "best", nodes, (3, 2), {"z": ints(2)})

for axis, opset, shape in ((-1, 9, (3,)), (0, 11, (3,)), (1, 11, (2, 3)), (-2, 11, (2, 3))):
    nodes = [to_int("x", "i"), node("OneHot", "i d v", axis=axis)]
    values = {"d": np.int64(4), "v": np.float32([0.5, 2])}
    several("OneHot", f"axis{axis}", nodes, shape, values, opset, draw=within(-4.9, 4.9))
nodes = [node("OneHot", "i d v", "a"), node("Mul", "x a")]
constants = {"i": ints(0, 2, -1), "d": ints(4), "v": np.float32([0, 1])}
several("OneHot", "const", nodes, (3, 4), constants, 11, affine=True)
one("OneHot", "float", (2, 3), np.float32(4), w(2), opset=11, draw=whole_numbers)
nodes = [node("ArgMax", "x", "i", axis=1, keepdims=0), node("OneHot", "i d v", "a")]
nodes.append(node("Mul", "a x"))
several("OneHot", "best", nodes, (3, 4), {"d": np.int64(4), "v": np.float32([0, 1])}, 13)

# --- Scatter -----------------------------------------------------------------------------------------

for axis, opset, added in ((0, 11, {}), (1, 13, {}), (-1, 16, {"reduction": "add"})):
    places = ints([0, 2, 1], [1, 0, 0]) if axis == 0 else ints([0, 2], [1, -1])
    given = {"axis": axis, **added}
    constants = (places, w(*places.shape))
    one("ScatterElements", f"{given}", (3, 4), *constants, opset=opset, affine=True, **given)
    one("ScatterElements", f"into-const-{given}", places.shape, w(3, 4), places, at=2, opset=opset,
        affine=True, **given)  # fmt: skip
for kind, opset in (("mul", 16), ("max", 18), ("min", 18)):
    places = ints([0, 0, 2], [1, 2, 2])  # twice the same place
    one("ScatterElements", kind, (3, 3), places, w(2, 3), opset=opset, axis=0, reduction=kind)
nodes = [node("ArgMax", "x", "i", axis=1), node("ScatterElements", "x i u", axis=1)]
several("ScatterElements", "best", nodes, (3, 4), {"u": w(3, 1)})
nodes = [to_int("x", "i"), node("ScatterElements", "c i x", axis=1)]
several("ScatterElements", "of-a-row", nodes, (2, 1), {"c": w(2, 4)}, draw=within(-3.9, 3.9))
nodes = [to_int("x", "i"), node("ScatterElements", "c i x", axis=0, reduction="add")]
several("ScatterElements", "counts", nodes, (6,), {"c": w(4)}, 16, draw=within(0, 3.9))

for places, opset in (
    (ints([1]), 11),
    (ints([0, 2], [1, -1]), 13),
    (ints([[0, 0, 0]], [[1, 2, 3]]), 13),
    (ints([1, 1, 1]), 16),
):
    updates = (*places.shape[:-1], *(2, 3, 4)[places.shape[-1] :])
    name = f"{places.tolist()}"
    constants = (places, w(*updates))
    one("ScatterND", name, (2, 3, 4), *constants, opset=opset, affine=True)
    constants = (w(2, 3, 4), places)
    one("ScatterND", f"into-const-{name}", updates, *constants, at=2, opset=opset, affine=True)
for kind, opset in (("add", 16), ("mul", 16), ("max", 18), ("min", 18)):
    places = ints([0], [1], [1])
    affine = kind == "add"
    given = {"opset": opset, "affine": affine, "reduction": kind}
    one("ScatterND", kind, (3, 4), places, w(3, 4), **given)
nodes = [
    node("Slice", "x b e", "h"),
    to_int("h", "i"),
    node("Unsqueeze", "i a", "p"),
    node("Slice", "x e f", "u"),
    node("ScatterND", "c p u"),
]
sizes = {"b": ints(0), "e": ints(2), "f": ints(4), "a": ints(1), "c": w(5)}
several("ScatterND", "places-of-a-row", nodes, (4,), sizes, 13, draw=within(0, 4.9))

# --- Slice -------------------------------------------------------------------------------------------

for starts, ends, axes in (
    ([1], [3], [1]),
    ([0, 1], [1, 3], None),
    ([-2], [9], [2]),
    ([-99, 0], [-1, -1], [0, 2]),
):
    given = {"starts": starts, "ends": ends} | ({} if axes is None else {"axes": axes})
    one("Slice", f"attributes{starts}{ends}", (2, 3, 4), opset=7, affine=True, **given)
LAST = np.iinfo(np.int64).max
for opset, (starts, ends, axes, steps) in itertools.product(
    (10, 13),
    (
        ([1], [3], [1], None),
        ([0, 1], [1, 3], None, None),
        ([-2], [LAST], [-1], None),
        ([-1], [-LAST - 1], [2], [-1]),
        ([3, -1], [0, -9], [2, 1], [-2, -1]),
        ([0], [9], [2], [3]),
        ([-9, 1], [9, 9], [1, -1], [1, 2]),
    ),
):
    given = [None if g is None else ints(*g) for g in (starts, ends, axes, steps)]
    while given[-1] is None:
        given.pop()
    name = f"{starts}{ends}{axes}{steps}".replace(str(LAST), "last")
    one("Slice", name, (2, 3, 4), *given, opset=opset, affine=True)
one("Slice", "int32", (5,), *(np.array([v], np.int32) for v in (1, -1, 0, 2)), affine=True)
one("Slice", "steps-without-axes", (4, 3), ints(3, 0), ints(-9, 3), None, ints(-1, 2), affine=True)
nodes = [
    node("Slice", "x z o", "h"),
    to_int("h", "s"),
    node("Add", "s n", "e"),
    node("Slice", "x s e z"),
]
window = {"z": ints(0), "o": ints(1), "n": ints(3)}
several("Slice", "start-of-a-row", nodes, (7,), window, 13, draw=within(0, 3.9))
nodes = [
    node("ReduceMean", "x", "m", keepdims=0),
    to_int("m", "i"),
    node("Unsqueeze", "i z", "s"),
    node("Add", "s n", "e"),
    node("Slice", "x s e o"),
]
window = {"z": ints(0), "o": ints(1), "n": ints(2)}
several("Slice", "start-of-a-row-2", nodes, (3, 6), window, 13, draw=within(1, 3.9))
nodes = [node("Shape", "x", "s"), node("Slice", "s b e", "n"), node("Reshape", "x n")]
nodes[1:2] = [node("Slice", "s b e", "t"), node("Concat", "m t", "n", axis=0)]
constants = {"b": ints(2), "e": ints(3), "m": ints(-1)}
several("Slice", "of-a-shape", nodes, (2, 3, 4), constants, 13, affine=True)

# --- a patch put into a picture, where the row says --------------------------------------------------


def patched(opset):
    """x: a picture [1, 1, 4, 4] and the place of the patch, as detectors with a sticker do it."""
    nodes = [
        node("Slice", "x zero sixteen zero", "flat"),
        node("Reshape", "flat picture", "p"),
        node("Gather", "x row_at", "r", axis=0),
        to_int("r", "row"),
        node("Gather", "x column_at", "c", axis=0),
        to_int("c", "column"),
    ]
    for axis, place in (("2", "row"), ("3", "column")):
        nodes += [
            node("Range", "none four one", f"all{axis}"),
            node("Add", f"{place} one", f"{place}_end"),
            unsqueeze(place, f"{place}_from", opset),
            unsqueeze(f"{place}_end", f"{place}_to", opset),
            node("Slice", f"all{axis} {place}_from {place}_to zero", f"at{axis}"),
        ]
    nodes += [
        node("Reshape", "at2 tall", "i"),
        node("Reshape", "at3 wide", "j"),
        node("Add", "i none", "i0"),
        node("Expand", "i0 spread", "i1"),
        node("Expand", "j spread", "j1"),
        node("Expand", "none spread", "n1"),
    ]
    nodes += [unsqueeze(name, f"{name}_u", opset, 4) for name in ("n1", "i1", "j1")]
    nodes += [
        node("Concat", "n1_u n1_u i1_u j1_u", "places", axis=-1),
        node("ScatterND", "p places sticker", "q"),
        node("Conv", "q k", "v"),
        node("Relu", "v"),
    ]
    constants = {
        "zero": ints(0), "sixteen": ints(16), "picture": ints(1, 1, 4, 4),
        "row_at": np.int64(16), "column_at": np.int64(17),
        "none": np.int64(0), "four": np.int64(4), "one": np.int64(1),
        "tall": ints(-1, 1), "wide": ints(-1), "spread": ints(1, 1, 1, 1),
        "sticker": np.full((1, 1, 1, 1), 5, np.float32), "k": w(2, 1, 2, 2),
    }  # fmt: skip
    if opset >= 13:
        constants |= {"axes0": ints(0), "axes4": ints(4)}
    return nodes, constants


def unsqueeze(given, result, opset, axis=0):
    if opset >= 13:
        return node("Unsqueeze", f"{given} axes{axis}", result)
    return node("Unsqueeze", given, result, axes=[axis])


for opset in (11, 13):
    nodes, constants = patched(opset)
    several("ScatterND", "patch", nodes, (18,), constants, opset, draw=within(0, 3.9))

# --- Reshape and Where with numbers that were computed -----------------------------------------------

nodes = [
    node("Constant", "", "c", value=helper.make_tensor("v", TensorProto.INT64, (2,), [-1, 3])),
    cast("c", "f"),
    to_int("f", "s"),
    node("Reshape", "x s"),
]
several("Reshape", "through-floats", nodes, (2, 6), affine=True)
