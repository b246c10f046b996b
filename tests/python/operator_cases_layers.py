"""Cases of convolution, pooling, matrix products and batch normalization."""

import itertools

import numpy as np
from case_tools import net, node, one, positive, w, whole


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

computed = [node("Reshape", "x s", "k"), node("Relu", "x", "a"), node("Conv", "a k")]
sizes = {"s": np.array([1, 2, 2, 2])}
whole("Conv", "weights-of-a-row", net(computed, (1, 2, 2, 2), sizes), (1, 2, 2, 2))

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
