"""Cases of padding and of resizing."""

import itertools

import numpy as np
from case_tools import ints, node, one, several

# --- Pad ---------------------------------------------------------------------------------------------

PADS = [0, 1, 2, 0, 2, 1]
for mode in ("constant", "reflect", "edge"):
    given = {"mode": mode}
    one("Pad", f"attribute-{mode}", (2, 4, 4), opset=7, affine=True, pads=PADS, **given)
    for opset in (11, 13, 18):
        one("Pad", f"{mode}", (2, 4, 4), ints(*PADS), opset=opset, affine=True, **given)
one("Pad", "value", (2, 3), opset=10, affine=True, pads=[1, 0, 0, 1], value=1.5)
one("Pad", "value", (2, 3), ints(1, 0, 0, 1), np.float32(-2.5), opset=13, affine=True)
one("Pad", "axes", (2, 3, 4), ints(1, 2), None, ints(-1), opset=18, affine=True)
axes = ints(2, 0)
one("Pad", "two-axes", (2, 3, 4), ints(1, 1, 0, 2), np.float32(3), axes, opset=18, affine=True)
one("Pad", "reflect-axes", (2, 4), ints(2, 3), None, ints(1), opset=18, mode="reflect", affine=True)
for opset, pads in (
    (19, [1, 2, 2, 1]),
    (19, [0, 3, 0, 0]),
    (23, [5, 0, 4, 0]),
    (21, [1, -1, 1, 0]),
):
    one("Pad", f"wrap{pads}", (3, 4), ints(*pads), opset=opset, affine=True, mode="wrap")
for pads, opset in (([0, -1, 0, -1], 11), ([-1, 1, 0, -2], 13), ([2, -3, -1, 0], 18)):
    one("Pad", f"cut{pads}", (3, 4), ints(*pads), opset=opset, affine=True)
one("Pad", "cut-attribute", (3, 4), opset=7, affine=True, pads=[-1, 1, -1, -2])
one("Pad", "image", (1, 2, 4, 5), opset=9, affine=True, pads=[0, 0, 1, 2, 0, 0, 2, 1])
one("Pad", "edge-image", (1, 2, 3, 3), ints(0, 0, 2, 2, 0, 0, 2, 2), mode="edge", affine=True)
nodes = [node("ReduceMean", "x", "m", keepdims=0), node("Pad", "x p m")]
several("Pad", "value-of-a-row", nodes, (2, 3), {"p": ints(0, 1, 1, 0)}, 13, affine=True)
nodes = [
    node("Shape", "x", "s"),
    node("Sub", "t s", "d"),
    node("Concat", "z d", "p", axis=0),
    node("Pad", "x p"),
]
several("Pad", "to-a-size", nodes, (2, 3), {"t": ints(4, 5), "z": ints(0, 0)}, 13, affine=True)

# --- Resize ------------------------------------------------------------------------------------------

EMPTY = np.zeros(0, np.float32)
COORDINATES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
ROUNDING = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def resize(name, shape, opset, scales=None, sizes=None, **attributes):
    if opset == 10:
        constants = (np.float32(scales),)
    elif sizes is None:
        constants = (EMPTY if opset == 11 else None, np.float32(scales))
    else:
        constants = (EMPTY if opset == 11 else None, EMPTY if opset == 11 else None, ints(*sizes))
    one("Resize", name, shape, *constants, opset=opset, affine=True, **attributes)


for mode in ("nearest", "linear"):
    for scales in ([1, 1, 2, 2], [1, 1, 0.5, 0.5], [1, 1, 1.5, 0.7]):
        resize(f"old-{mode}-{scales}", (1, 2, 4, 5), 10, scales, mode=mode)
IMAGE = (1, 2, 4, 5)
for where, rounding in itertools.product((*COORDINATES, "half_pixel_symmetric"), ROUNDING):
    given = {
        "mode": "nearest",
        "coordinate_transformation_mode": where,
        "nearest_mode": rounding,
    }
    opset = 19 if where == "half_pixel_symmetric" else 13
    name = f"nearest-{where}-{rounding}"
    resize(f"{name}-up", IMAGE, opset, [1, 1, 2, 3], **given)
    if (where, rounding) == ("half_pixel_symmetric", "floor"):
        continue  # the middle of 5 is 2 in exact numbers only
    resize(f"{name}-down", IMAGE, opset, [1, 1, 0.5, 0.6], **given)
    resize(f"{name}-sizes", IMAGE, opset, sizes=[1, 2, 7, 3], **given)
for mode, where in itertools.product(("linear", "cubic"), (*COORDINATES, "half_pixel_symmetric")):
    given = {"mode": mode, "coordinate_transformation_mode": where}
    opset = 19 if where == "half_pixel_symmetric" else 13
    name = f"{mode}-{where}"
    resize(f"{name}-up", IMAGE, opset, [1, 1, 2, 3], **given)
    resize(f"{name}-down", IMAGE, opset, [1, 1, 0.5, 0.6], **given)
    resize(f"{name}-sizes", IMAGE, opset, sizes=[1, 2, 7, 3], **given)
    resize(f"{name}-one", IMAGE, opset, sizes=[1, 2, 1, 1], **given)
for opset in (11, 13, 18, 19):
    for mode in ("nearest", "linear", "cubic"):
        resize(f"default-{mode}", IMAGE, opset, [1, 1, 1.5, 2], mode=mode)
    resize("default", IMAGE, opset, sizes=[1, 2, 8, 10])
for extra in ({"cubic_coeff_a": -0.5}, {"exclude_outside": 1}):
    resize(f"cubic-{extra}", IMAGE, 13, [1, 1, 1.7, 0.8], mode="cubic", **extra)
resize("1d", (1, 2, 5), 13, [1, 1, 2], mode="linear")
resize("3d", (1, 1, 2, 3, 2), 13, [1, 1, 2, 2, 1.5], mode="nearest")
resize("3d-linear", (1, 1, 2, 3, 2), 13, [1, 1, 2, 2, 1.5], mode="linear")
resize("plain-image", (4, 5), 13, [2, 1.5], mode="linear")
for given in ({"axes": [2, 3]}, {"axes": [3, 2]}, {"axes": [-1]}):
    count = len(given["axes"])
    resize(f"{given}", IMAGE, 18, [2, 1.5][:count], mode="linear", **given)
    resize(f"{given}-sizes", IMAGE, 18, sizes=[6, 3][:count], mode="nearest", **given)
for policy in ("stretch", "not_larger", "not_smaller"):
    given = {"axes": [2, 3], "keep_aspect_ratio_policy": policy}
    resize(f"{policy}", IMAGE, 18, sizes=[7, 6], mode="nearest", **given)
    resize(f"{policy}-linear", IMAGE, 19, sizes=[7, 6], mode="linear", **given)
region = (np.float32([0, 0, 0.2, 0.4, 1, 1, 0.8, 1.2]), None, ints(1, 2, 3, 3))
for mode in ("nearest", "linear"):
    given = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 0.5}
    one("Resize", f"crop-{mode}", IMAGE, *region, opset=13, affine=True, mode=mode, **given)
nodes = [
    node("Shape", "x", "s"),
    node("Slice", "s a b", "h"),
    node("Slice", "s b e", "t"),
    node("Mul", "t two", "u"),
    node("Concat", "h u", "n", axis=0),
    node("Resize", "x _ _ n", mode="nearest", nearest_mode="floor"),
]
constants = {"a": ints(0), "b": ints(2), "e": ints(4), "two": ints(2)}
several("Resize", "doubled-as-exported", nodes, IMAGE, constants, 13, affine=True)

# --- Upsample ----------------------------------------------------------------------------------------

for mode in ("nearest", "linear"):
    for scales in ([1, 1, 2, 2], [1, 1, 1.5, 3]):
        given = {"mode": mode, "scales": [float(s) for s in scales]}
        one("Upsample", f"{mode}-{scales}", IMAGE, opset=7, affine=True, **given)
        one(
            "Upsample",
            f"{mode}-{scales}",
            IMAGE,
            np.float32(scales),
            opset=9,
            affine=True,
            mode=mode,
        )
