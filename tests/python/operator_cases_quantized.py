"""Cases of numbers on grids, and of operators on whole numbers."""

import numpy as np
from case_tools import DRAW, cast, node, several, w, within
from onnx import TensorProto


def grid(kind, *shape):
    limits = np.iinfo(kind)
    return DRAW.integers(limits.min, limits.max + 1, shape).astype(kind)


def back(given, scale="s", zero="z", result="y", **attributes):
    return node("DequantizeLinear", f"{given} {scale} {zero}", result, **attributes)


def quantize(given, result, scale="s", zero="z", **attributes):
    return node("QuantizeLinear", f"{given} {scale} {zero}", result, **attributes)


ONE, PER_CHANNEL = np.float32(0.13), np.float32([0.1, 0.02, 0.3])
for kind in (np.uint8, np.int8):
    for opset in (10, 13, 19, 21):
        zero = {"z": kind(3), "s": ONE}
        nodes = [quantize("x", "q"), back("q")]
        for op in ("QuantizeLinear", "DequantizeLinear"):
            several(op, f"{kind.__name__}", nodes, (2, 3, 2), zero, opset)
    for axis in (1, -2):
        given = {"z": grid(kind, 3) // 8, "s": PER_CHANNEL}
        nodes = [quantize("x", "q", axis=axis), back("q", axis=axis)]
        for op in ("QuantizeLinear", "DequantizeLinear"):
            several(op, f"{kind.__name__}-axis{axis}", nodes, (2, 3, 2), given, 13)
for kind, opset in ((np.uint16, 21), (np.int16, 21)):
    nodes = [quantize("x", "q"), back("q")]
    several("QuantizeLinear", kind.__name__, nodes, (2, 3), {"z": kind(5), "s": np.float32(1e-3)}, opset)
# Blocks of two along an axis, the last one cut off.
given = {"z": grid(np.uint8, 2, 2) // 8, "s": np.float32([[0.1, 0.2], [0.3, 0.05]])}
nodes = [quantize("x", "q", axis=1, block_size=2), back("q", axis=1, block_size=2)]
for op in ("QuantizeLinear", "DequantizeLinear"):
    several(op, "blocks", nodes, (2, 4), given, 21)
nodes = [node("QuantizeLinear", "x s", "q"), node("DequantizeLinear", "q s", "y")]
several("QuantizeLinear", "no-zero-point", nodes, (2, 3), {"s": ONE}, 13)
# Between the two, operators that only move numbers.
nodes = [
    quantize("x", "q"),
    node("Transpose", "q", "t", perm=[1, 0]),
    node("Concat", "t c", "u", axis=1),
    back("u"),
]
given = {"z": np.uint8(100), "s": ONE, "c": grid(np.uint8, 3, 1)}
several("QuantizeLinear", "moved", nodes, (2, 3), given, 13)

DYNAMIC = [node("DynamicQuantizeLinear", "x", "q s z")]
for opset in (11, 13):
    several("DynamicQuantizeLinear", "back", [*DYNAMIC, back("q")], (3, 4), {}, opset)
    # As dynamically quantised layers are written.
    nodes = [
        *DYNAMIC,
        node("MatMulInteger", "q k z kz", "m"),
        cast("m", "f"),
        node("Mul", "s ks", "j"),
        node("Mul", "f j"),
    ]
    given = {"k": grid(np.int8, 4, 5), "kz": np.int8(2), "ks": np.float32(0.02)}
    for op in ("DynamicQuantizeLinear", "MatMulInteger"):
        several(op, "dense", nodes, (3, 4), given, opset)
nodes = [
    *DYNAMIC,
    node("ConvInteger", "q k z kz", "m", pads=[1, 1, 1, 1]),
    cast("m", "f"),
    node("Mul", "f s"),
]
for zero in (np.uint8(3), np.uint8(0)):
    given = {"k": grid(np.uint8, 3, 2, 3, 3), "kz": zero}
    several("ConvInteger", f"zero{zero}", nodes, (1, 2, 5, 5), given, 11 if zero else 13)
# More terms than float32 adds exactly.
nodes = [quantize("x", "q"), node("MatMulInteger", "q k z", "m"), cast("m")]
given = {"z": np.uint8(0), "s": np.float32(0.004), "k": grid(np.uint8, 600, 2)}
several("MatMulInteger", "long", nodes, (2, 600), given, 13, draw=within(0, 1))
nodes = [quantize("x", "q"), node("MatMulInteger", "q k z kz", "m"), cast("m")]
given = {"z": np.uint8(7), "s": ONE, "k": grid(np.int8, 4, 3), "kz": grid(np.int8, 3)}
several("MatMulInteger", "zero-a-column", nodes, (2, 4), given, 13)

Q = {"s": ONE, "z": np.uint8(120), "ys": np.float32(0.4), "yz": np.uint8(100)}
for kind in (np.uint8, np.int8):
    for per in ("one", "channel"):
        many = per == "channel"
        scale = np.float32([0.02, 0.01, 0.03]) if many else np.float32(0.02)
        zero = np.zeros(3, kind) if many else kind(0)
        nodes = [
            quantize("x", "q"),
            node("QLinearConv", "q s z k ks kz ys yz b", "c", strides=[2, 1]),
            back("c", "ys", "yz"),
        ]
        given = {"k": grid(kind, 3, 2, 2, 2), "ks": scale, "kz": zero, "b": np.int32([400, -90, 7])}
        several("QLinearConv", f"{kind.__name__}-{per}", nodes, (1, 2, 4, 4), {**Q, **given}, 10)
    nodes = [
        quantize("x", "q"),
        node("QLinearMatMul", "q s z k ks kz ys yz", "m"),
        back("m", "ys", "yz"),
    ]
    given = {"k": grid(kind, 4, 3), "ks": np.float32(0.02), "kz": kind(1)}
    for opset in (10, 21):
        several("QLinearMatMul", f"{kind.__name__}", nodes, (2, 4), {**Q, **given}, opset)

# --- whole numbers ------------------------------------------------------------------------------------

KINDS = {
    np.uint8: TensorProto.UINT8,
    np.uint16: TensorProto.UINT16,
    np.uint32: TensorProto.UINT32,
    np.uint64: TensorProto.UINT64,
    np.int8: TensorProto.INT8,
    np.int16: TensorProto.INT16,
    np.int32: TensorProto.INT32,
    np.int64: TensorProto.INT64,
}
SOME = within(1, 100)
for kind, code in KINDS.items():
    numbers = (grid(np.uint8, 3) % 100 + 1).astype(kind)
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        nodes = [cast("x", "a", code), node(op, "a c", "b"), cast("b")]
        several(op, kind.__name__, nodes, (2, 3), {"c": numbers}, 18, draw=SOME)
    nodes = [cast("x", "a", code), node("BitwiseNot", "a", "b"), node("BitwiseAnd", "b c", "d"), cast("d")]
    several("BitwiseNot", kind.__name__, nodes, (2, 3), {"c": numbers}, 18, draw=SOME)
    if np.iinfo(kind).min == 0:
        for direction in ("LEFT", "RIGHT"):
            nodes = [cast("x", "a", code), node("BitShift", "a c", "b", direction=direction), cast("b")]
            shift = np.array([1, 3, 0], kind)
            name = f"{kind.__name__}-{direction}"
            several("BitShift", name, nodes, (2, 3), {"c": shift}, 11, draw=SOME)
    for op in ("Div", "Mod"):
        nodes = [cast("x", "a", code), node(op, "a c", "b"), cast("b")]
        several(op, kind.__name__, nodes, (2, 3), {"c": numbers}, 14, draw=SOME)
several(
    "BitCast", "there-and-back",
    [node("BitCast", "x", "a", to=TensorProto.INT32), node("BitCast", "a", "y", to=TensorProto.FLOAT)],
    (2, 3), {}, 26,
)  # fmt: skip
nodes = [cast("x", "a", TensorProto.INT16), node("BitCast", "a", "b", to=TensorProto.UINT16), cast("b")]
several("BitCast", "unsigned", nodes, (2, 3), {}, 26, draw=within(-50, 50))
