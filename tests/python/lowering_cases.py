"""Small networks that lowering changes, and some that it must leave alone; see test_operators.py."""

import numpy as np
from operator_cases import Case, net, node, positive, rows, statistics, w

LOWERED = []


def lowered(name, shape, nodes, constants=None, opset=13):
    LOWERED.append(Case(name, net(nodes, shape, constants, opset), rows(shape), False))


def with_statistics(channels, **more):
    return {**dict(zip(("s", "b", "m", "v"), statistics(channels), strict=True)), **more}


def normalize(inputs, outputs="y"):
    return node("BatchNormalization", f"{inputs} s b m v", outputs, epsilon=0.01)


lowered(
    "conv with a bias, normalized",
    (1, 2, 5, 5),
    [node("Conv", "x k c", "a"), normalize("a")],
    with_statistics(3, k=w(3, 2, 3, 3), c=w(3)),
)
lowered(
    "conv normalized, read twice",
    (1, 2, 5, 5),
    [node("Conv", "x k", "a"), normalize("a", "n"), node("Add", "a n")],
    with_statistics(3, k=w(3, 2, 3, 3)),
)
lowered(
    "grouped conv, normalized after max pooling",
    (1, 4, 6, 6),
    [
        node("Conv", "x k", "a", group=2),
        node("MaxPool", "a", "p", kernel_shape=[2, 2]),
        normalize("p"),
    ],
    with_statistics(4, k=w(4, 2, 3, 3)),
)
lowered(
    "the output is a convolution that another node reads",
    (1, 2, 5, 5),
    [node("Conv", "x k", "y"), normalize("y", "z")],
    with_statistics(3, k=w(3, 2, 3, 3)),
)
lowered(
    "matmul, mul, add, normalized",
    (1, 4),
    [node("MatMul", "x k", "a"), node("Mul", "a f", "d"), node("Add", "g d", "e"), normalize("e")],
    with_statistics(3, k=w(4, 3), f=w(3), g=w(1, 3)),
)
lowered(
    "gemm with transposed weights, normalized",
    (2, 4),
    [node("Gemm", "x k c", "a", transB=1), normalize("a")],
    with_statistics(3, k=w(3, 4), c=w(1, 3)),
)
lowered(
    "gemm with a bias a row, normalized",
    (3, 4),
    [node("Gemm", "x k c", "a"), normalize("a")],
    with_statistics(3, k=w(4, 3), c=w(3, 1)),
)
lowered(
    "gemm with a bias a row, times a vector",
    (3, 4),
    [node("Gemm", "x k c", "a"), node("Mul", "a f")],
    {"k": w(4, 3), "c": w(3, 1), "f": w(3)},
)
lowered(
    "gemm with factors, normalized",
    (1, 4),
    [node("Gemm", "x k c", "a", alpha=0.5, beta=2.0), normalize("a")],
    with_statistics(3, k=w(4, 3), c=w(3)),
)
lowered(
    "matmul from the left, times a vector",
    (3, 3),
    [
        node("MatMul", "k x", "a"),
        node("Mul", "a f"),
        node("Add", "y f", "z"),
        node("Identity", "z", "o"),
    ][:2],
    {"k": w(3, 3), "f": w(3)},
)
lowered(
    "matmul plus a column",
    (3, 4),
    [node("MatMul", "x k", "a"), node("Add", "a f")],
    {"k": w(4, 3), "f": w(3, 1)},
)
lowered(
    "matmul plus a constant of higher rank",
    (2, 4),
    [
        node("MatMul", "x k", "a"),
        node("Add", "a f"),
    ],
    {"k": w(4, 3), "f": w(2, 1, 3)},
)
lowered(
    "weights shared by a scaled and a plain layer",
    (1, 3),
    [node("MatMul", "x k", "a"), node("Mul", "a f", "d"), node("MatMul", "d k")],
    {"k": w(3, 3), "f": w(3)},
)
lowered(
    "normalized twice",
    (1, 2, 4, 4),
    [normalize("x", "a"), normalize("a")],
    with_statistics(2),
)
lowered(
    "sign without zero",
    (2, 3),
    [node("Sign", "x", "a"), node("Add", "a c", "d"), node("Sign", "d", "e"), node("Mul", "e f")],
    {"c": np.float32(0.1), "f": w(3)},
)
lowered(
    "sign without zero, the constant of higher rank",
    (3,),
    [
        node("Sign", "x", "a"),
        node("Add", "c a", "d"),
        node("Sign", "d", "e"),
        node("Softmax", "e", axis=1),
    ],
    {"c": np.array([[0.1]], np.float32)},
)
lowered(
    "sign plus a negative constant, and one read twice",
    (2, 3),
    [
        node("Sign", "x", "a"),
        node("Add", "a c", "d"),
        node("Sign", "d", "e"),
        node("Add", "e a", "f"),
        node("Add", "f h", "g"),
        node("Sign", "g"),
    ],
    {"c": np.float32(-0.1), "h": np.float32(0.5)},
)
lowered(
    "zero added, also with a higher rank",
    (3,),
    [
        node("Add", "x z", "a"),
        node("Sub", "a z", "b"),
        node("Sub", "z b", "c"),
        node("Add", "c q", "d"),
        node("Softmax", "d", axis=1),
    ],
    {"z": np.zeros(3, np.float32), "q": np.zeros((1, 3), np.float32)},
)
lowered("only an identity", (2, 3), [node("Identity", "x")])
lowered(
    "dropout before the last softmax",
    (1, 3),
    [
        node("Gemm", "x k", "a"),
        node("Dropout", "a", "b"),
        node("Softmax", "b", "c"),
        node("Identity", "c"),
    ],
    {"k": w(3, 4)},
    11,
)
lowered(
    "softmax of several rows",
    (2, 3),
    [node("Mul", "x x", "a"), node("Softmax", "a", axis=0)],
)
lowered(
    "a residual block in NHWC",
    (1, 6, 6, 3),
    [
        node("Transpose", "x", "t", perm=[0, 3, 1, 2]),
        node("Conv", "t k", "a", pads=[1] * 4),
        normalize("a", "n"),
        node("Relu", "n", "r"),
        node("Add", "r t", "q"),
        node("AveragePool", "q", "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("Transpose", "p", "u", perm=[0, 2, 3, 1]),
        node("Reshape", "u h", "f"),
        node("MatMul", "f l", "g"),
        node("Add", "g c"),
    ],
    with_statistics(3, k=w(3, 3, 3, 3), h=np.array([1, -1]), l=w(27, 4), c=w(4)),
)
lowered(
    "the input read by several layers",
    (1, 4),
    [
        node("MatMul", "x k", "a"),
        node("MatMul", "x l", "b"),
        node("Mul", "a b", "c"),
        node("Div", "c p"),
    ],
    {"k": w(4, 3), "l": w(4, 3), "p": positive(3)},
)
