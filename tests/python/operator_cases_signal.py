"""Cases of operators that read between pixels, and of signals."""

import itertools

import numpy as np
from case_tools import ints, node, one, several, w, within
from onnx import TensorProto

# --- GridSample, AffineGrid --------------------------------------------------------------------------

GRID, SPACE = w(2, 3, 2, 2), w(1, 2, 2, 3, 3)
for mode, padding, align in itertools.product(
    ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (0, 1)
):
    given = {"padding_mode": padding, "align_corners": align}
    name = f"{mode}-{padding}-{align}"
    one("GridSample", name, (2, 2, 4, 5), GRID, opset=16, affine=True, mode=mode, **given)
    if mode == "bilinear":
        one("GridSample", f"grid-{name}", (2, 3, 2, 2), w(2, 2, 4, 5), at=1, opset=16, mode=mode, **given)
for mode in ("linear", "nearest"):
    one("GridSample", f"3d-{mode}", (1, 2, 3, 4, 3), SPACE, opset=20, affine=True, mode=mode)
one("GridSample", "cubic", (2, 2, 4, 5), GRID, opset=20, affine=True, mode="cubic")
for align in (0, 1):
    name = {"opset": 20, "affine": True, "align_corners": align}
    one("AffineGrid", f"2d-{align}", (2, 2, 3), ints(2, 3, 4, 5), **name)
    one("AffineGrid", f"3d-{align}", (1, 3, 4), ints(1, 2, 3, 4, 2), **name)
nodes = [node("AffineGrid", "x s", "g"), node("GridSample", "p g", "y")]
several("AffineGrid", "then-sample", nodes, (1, 2, 3), {"s": ints(1, 1, 3, 3), "p": w(1, 1, 4, 4)}, 20)

# --- DeformConv, RoiAlign, MaxRoiPool ----------------------------------------------------------------

KERNEL, SHIFT = w(2, 2, 2, 2), w(1, 8, 3, 3)
one("DeformConv", "input", (1, 2, 4, 4), KERNEL, SHIFT, opset=19, affine=True)
one("DeformConv", "shifts", (1, 8, 3, 3), w(1, 2, 4, 4), KERNEL, at=2, opset=19)
one("DeformConv", "bias-mask", (1, 2, 4, 4), KERNEL, SHIFT, w(2), np.abs(w(1, 4, 3, 3)), opset=19,
    affine=True)  # fmt: skip
settings = {"strides": [2, 1], "pads": [1, 0, 1, 2], "dilations": [1, 2]}
one("DeformConv", "windows", (2, 2, 5, 5), KERNEL, w(2, 8, 3, 5), opset=19, affine=True, **settings)
one("DeformConv", "groups", (1, 4, 4, 4), w(2, 2, 2, 2), w(1, 16, 3, 3), opset=22, affine=True, group=2,
    offset_group=2)  # fmt: skip

BOXES = np.float32([[0, 0, 3, 3], [1, 0.5, 4.5, 3], [-2, -2, 1, 1]])
for mode, sampling, opset in itertools.product(("avg", "max"), (0, 2), (10, 16)):
    given = {"mode": mode, "sampling_ratio": sampling, "output_height": 2, "output_width": 3}
    name = f"{mode}-{sampling}-{opset}"
    one("RoiAlign", name, (2, 3, 6, 7), BOXES, ints(0, 1, 1), opset=opset, affine=mode == "avg",
        spatial_scale=0.9, **given)  # fmt: skip
given = {"coordinate_transformation_mode": "output_half_pixel"}
one("RoiAlign", "output-half-pixel", (2, 1, 5, 5), BOXES, ints(0, 1, 1), opset=16, affine=True, **given)
REGIONS = np.float32([[0, 0, 0, 3, 3], [1, 1, 2, 5, 4], [1, 0, 0, 9, 9]])
one("MaxRoiPool", "scale-1", (2, 3, 6, 7), REGIONS, opset=7, pooled_shape=[2, 2])
one("MaxRoiPool", "scale", (2, 1, 6, 7), REGIONS, opset=13, pooled_shape=[3, 1], spatial_scale=0.6)

# --- signals -----------------------------------------------------------------------------------------

for inverse, onesided, last in ((0, 0, 1), (0, 0, 2), (0, 1, 1), (1, 0, 2)):
    given = {"inverse": inverse, "onesided": onesided}
    name = f"{inverse}{onesided}{last}"
    one("DFT", f"{name}-17", (2, 6, last), opset=17, affine=True, **given)
    one("DFT", f"{name}-axis", (5, 2, last), opset=17, affine=True, axis=0, **given)
    one("DFT", f"{name}-20", (2, 3, 5, last), None, np.int64(1), opset=20, affine=True, **given)
    one("DFT", f"{name}-length", (2, 6, last), np.int64(4), opset=20, affine=True, **given)
    one("DFT", f"{name}-padded", (2, 6, last), np.int64(9), opset=20, affine=True, **given)
window = within(0.2, 1)(6)
one("STFT", "window", (2, 16, 1), np.int64(4), window, np.int64(6), opset=17, affine=True)
one("STFT", "no-window", (1, 16, 1), np.int64(3), None, np.int64(8), opset=17, affine=True)
one("STFT", "both-sides", (1, 12, 2), np.int64(3), window, opset=17, affine=True, onesided=0)
for op, periodic in itertools.product(("BlackmanWindow", "HammingWindow", "HannWindow"), (0, 1)):
    nodes = [node(op, "n", "v", periodic=periodic), node("Mul", "x v")]
    several(op, f"{periodic}", nodes, (2, 9), {"n": np.int64(9)}, 17, affine=True)
    nodes = [node(op, "n", "v", output_datatype=TensorProto.DOUBLE, periodic=periodic)]
    nodes += [node("Cast", "v", "f", to=TensorProto.FLOAT), node("Mul", "x f")]
    several(op, f"{periodic}-double", nodes, (2, 8), {"n": np.int32(8)}, 17, affine=True)
for bands, length in ((8, 16), (5, 64)):
    sizes = {"b": np.int64(bands), "l": np.int64(length), "r": np.int64(8192)}
    edges = {"lo": np.float32(0), "hi": np.float32(4096)}
    nodes = [node("MelWeightMatrix", "b l r lo hi", "m"), node("MatMul", "x m")]
    several("MelWeightMatrix", f"{bands}", nodes, (2, length // 2 + 1), {**sizes, **edges}, 17, affine=True)

# --- Resize, smoothed --------------------------------------------------------------------------------

for mode, outside, size in itertools.product(("linear", "cubic"), (0, 1), ((3, 5), (4, 8), (9, 2))):
    given = {"antialias": 1, "mode": mode, "exclude_outside": outside}
    sizes = ints(1, 2, *size)
    one("Resize", f"smoothed-{mode}-{outside}-{size}", (1, 2, 7, 8), None, None, sizes, opset=18,
        affine=True, **given)  # fmt: skip
