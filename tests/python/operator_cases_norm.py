"""Cases of transposed convolution and of normalization over places or features."""

import itertools

from case_tools import net, node, one, positive, w, whole


def conv_transpose(name, shape, weight, bias=True, opset=11, group=1, **attributes):
    constants = (weight, w(weight.shape[1] * group)) if bias else (weight,)
    one(
        "ConvTranspose",
        name,
        shape,
        *constants,
        opset=opset,
        affine=True,
        group=group,
        **attributes,
    )


conv_transpose("plain", (1, 2, 4, 5), w(2, 3, 3, 2), bias=False, opset=7)
conv_transpose("1d", (1, 3, 6), w(3, 2, 3), strides=[2], pads=[1, 1], kernel_shape=[3])
conv_transpose("3d", (1, 2, 3, 2, 3), w(2, 2, 2, 3, 2), strides=[1, 2, 1], pads=[0, 1, 0] * 2)
conv_transpose("double", (1, 2, 4, 4), w(2, 3, 2, 2), strides=[2, 2], opset=22)
conv_transpose("uneven", (1, 2, 4, 5), w(2, 3, 3, 4), strides=[2, 1], pads=[0, 1, 2, 1])
conv_transpose("dilated", (1, 2, 4, 5), w(2, 3, 2, 3), dilations=[3, 2], pads=[1, 1, 1, 1])
conv_transpose("groups", (1, 4, 4, 4), w(4, 3, 3, 3), group=2, strides=[2, 2], pads=[1] * 4)
conv_transpose("depthwise", (1, 3, 4, 4), w(3, 1, 2, 2), group=3, strides=[2, 2])
conv_transpose("batch", (2, 2, 3, 3), w(2, 3, 3, 3), pads=[1] * 4)
conv_transpose(
    "output-padding",
    (1, 2, 4, 4),
    w(2, 3, 3, 3),
    strides=[2, 3],
    pads=[1] * 4,
    output_padding=[1, 2],
)
conv_transpose(
    "output-padding-1d", (1, 2, 5), w(2, 3, 4), strides=[3], output_padding=[2], dilations=[2]
)
for side, shape in itertools.product(("NOTSET", "SAME_UPPER", "SAME_LOWER"), ([9, 10], [8, 9])):
    given = {"auto_pad": side, "output_shape": shape, "strides": [2, 2]}
    conv_transpose(f"shape{shape}-{side}", (1, 2, 4, 5), w(2, 3, 3, 3), **given)
conv_transpose("shape-1d", (1, 2, 6), w(2, 2, 3), output_shape=[12], strides=[2], opset=7)
for side, stride in itertools.product(("SAME_UPPER", "SAME_LOWER"), (1, 2)):
    given = {"auto_pad": side, "strides": [stride, 2]}
    conv_transpose(f"{side}-{stride}", (1, 2, 4, 5), w(2, 3, 3, 4), **given)
conv_transpose("valid", (1, 2, 4, 5), w(2, 3, 3, 3), auto_pad="VALID", strides=[2, 1])
upsampled = [
    node("ConvTranspose", "x k", "a", strides=[2, 2]),
    node("Relu", "a", "b"),
    node("Conv", "b l"),
]
whole(
    "ConvTranspose",
    "then-conv",
    net(upsampled, (1, 2, 4, 4), {"k": w(2, 3, 2, 2), "l": w(2, 3, 3, 3)}),
    (1, 2, 4, 4),
)

for shape, opset in (((1, 3, 4, 5), 7), ((2, 3, 7), 13), ((1, 2, 3, 4, 2), 22)):
    one("GlobalMaxPool", f"rank{len(shape)}", shape, opset=opset)

for shape, opset, given in (
    ((1, 3, 4, 5), 7, {}),
    ((2, 3, 7), 13, {"epsilon": 0.1}),
    ((1, 2, 3, 4, 2), 22, {"epsilon": 0.5}),
):
    channels = shape[1]
    scale, bias = w(channels), w(channels)
    one("InstanceNormalization", f"rank{len(shape)}", shape, scale, bias, opset=opset, **given)

for groups, shape in ((1, (1, 4, 3, 3)), (2, (2, 4, 5)), (4, (1, 4, 2, 3, 2))):
    # Version 18 had a scale for each group, 21 has one for each channel.
    for opset, count in ((18, groups), (21, shape[1])):
        given = {"num_groups": groups, "epsilon": 0.01 * groups}
        one("GroupNormalization", f"{groups}", shape, w(count), w(count), opset=opset, **given)

# Odd sizes: of even ones ONNX Runtime wants none, and the onnx package's reference gets them wrong.
for shape, opset, given in (
    ((1, 5, 3, 4), 7, {"size": 3}),
    ((2, 5, 3, 4), 13, {"size": 5, "alpha": 0.2, "beta": 0.5, "bias": 2.0}),
    ((1, 4, 2, 3), 13, {"size": 1, "alpha": 0.1}),
    ((1, 3, 2, 2), 13, {"size": 9, "alpha": 1.5, "beta": 0.75, "bias": 1.0}),
):
    one("LRN", f"{given['size']}", shape, opset=opset, **given)

for shape, axis, size in (
    ((2, 3, 4), -1, (4,)),
    ((2, 3, 4), 2, (4,)),
    ((2, 3, 4), 1, (3, 4)),
    ((2, 3, 4), -2, (3, 4)),
    ((2, 3, 4), 0, (2, 3, 4)),
    ((5,), -1, (5,)),
    ((1, 3, 4, 2), 1, (3, 4, 2)),
    ((1, 16, 8), -1, (8,)),
):
    name = f"{list(shape)}-axis{axis}"
    one("LayerNormalization", name, shape, w(*size), w(*size), opset=17, axis=axis)
    one("RMSNormalization", name, shape, w(*size), opset=23, axis=axis, epsilon=0.01)
one("LayerNormalization", "no-bias", (2, 3, 4), w(4), opset=17, epsilon=0.1)
one("LayerNormalization", "broadcast", (2, 3, 4), w(1, 4), w(4), opset=17, axis=1)
one(
    "LayerNormalization",
    "constant-rows",
    (2, 3),
    w(3),
    w(3),
    opset=17,
    draw=lambda *s: 3 + 0 * w(*s),
)
one("RMSNormalization", "default", (2, 3, 4), w(4), opset=23)

for p, axis, opset in itertools.product((1, 2), (0, 1, -1), (7, 22)):
    given = {"p": p, "axis": axis}
    one("LpNormalization", f"{given}", (2, 3, 4), opset=opset, **given)
one("LpNormalization", "default", (2, 3), opset=13, draw=positive)
