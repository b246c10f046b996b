#!/usr/bin/env python3
"""Writes the fuzz targets' first inputs: small files made here, and those of examples/.

usage: seeds.py FOLDER          writes FOLDER/<target>/*
"""

import argparse
import gzip
import io
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "examples"
LARGEST = 65536  # bytes, as dev gives to libFuzzer, which would cut the others

HEAD = "".join(f"(declare-const {name} Real)\n" for name in ("X_0", "X_1", "Y_0", "Y_1"))
BOX = "(assert (>= X_0 -0.1))\n(assert (<= X_0 0.1))\n(assert (>= X_1 0))(assert (<= X_1 1e0))\n"

VNNLIB = {
    "plain": HEAD + BOX + "(assert (<= Y_0 Y_1))\n",
    "bounds": HEAD + BOX + "(assert (>= Y_0 0.3))\n(assert (<= -2.5e-1 Y_1))\n",
    "cases": HEAD + BOX + "(assert (or (and (<= Y_0 Y_1) (<= Y_0 7)) (and (>= Y_1 3))))\n",
    "regions": HEAD
    + "(assert (or (and (>= X_0 0) (<= X_0 1) (>= X_1 0) (<= X_1 1) (<= Y_0 0))\n"
    + "(and (>= X_0 2) (<= X_0 3) (>= X_1 2) (<= X_1 3) (>= Y_0 1))))\n",
    "product": HEAD + BOX + "(assert (or (<= Y_0 0) (<= Y_1 0)))\n" * 3,
    "nested": HEAD + BOX + "(assert (and (or (and (or (<= Y_0 0) (<= Y_1 1)) (<= X_0 0)) (>= Y_0 2))))\n",
    "point": HEAD + BOX + "(assert (<= X_0 0.05))(assert (>= X_0 0.05)); no float\n(assert (<= Y_0 0))",
    "between": HEAD + BOX + "(assert (<= X_1 0.30000002))(assert (>= X_1 0.30000001))(assert (<= Y_0 0))",
    "crossed": HEAD + BOX + "(assert (or (and (>= X_0 2) (<= Y_0 0)) (<= Y_1 0)))\n",
    "strict": HEAD + BOX + "(assert (< Y_0 Y_1))\n",
}

WITNESS = {
    "vnncomp": "sat\n((X_0 0.5)\n (X_1 -1e-3)\n (Y_0 1.25))\n",
    "bare": "(X_0 .5) (X_1 5.) ; a comment\n(Y_0 nan)(Y_1 -inf)",
    "gap": "((X_1 0.5))",
}

INSTANCES = {
    "plain": ".,.,10\n.,..,1.5e1\n",
    "header": "\ufeffonnx,vnnlib,timeout\r\n./.,./..,116\r\n\r\n",
    "fields": ".,.\n",
}

DECIMAL = {
    "float": "0.1\n0.10000000149011612",
    "same": "1e-1\n0.10",
    "huge": "1e400\n-1e400",
    "denormal": "4.9e-324\n1e-46",
    "tie": "1.00000005960464477539062500000000000000000000000000001\n1.000000059604644775390625",
    "zero": "-0.0\n0e99999999999999999999",
}


def arrays():
    yield "float32", np.arange(6, dtype=np.float32).reshape(2, 3)
    yield "fortran", np.asfortranarray(np.arange(12, dtype=np.float64).reshape(2, 3, 2))
    yield "bytes", np.arange(5, dtype=np.uint8)
    yield "bool", np.array([True, False])
    yield "scalar", np.array(7, dtype=np.int64)
    yield "empty", np.zeros((0, 4), dtype=np.int16)


def network(nodes, constants=(), shape=(1, 4), out=None, **rest):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, out)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants],
        **rest,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]).SerializeToString()


def networks():
    node, f32 = helper.make_node, np.float32
    w = np.linspace(-1, 1, 12).astype(f32).reshape(4, 3)
    yield "dense", network(
        [node("MatMul", ["x", "w"], ["a"]), node("Add", ["a", "b"], ["c"]), node("Relu", ["c"], ["y"])],
        [("w", w), ("b", np.ones(3, f32))],
    )
    yield "gemm", network(
        [node("Gemm", ["x", "w", "b"], ["y"], alpha=0.5, transB=1)], [("w", w.T.copy()), ("b", f32([1, 2, 3]))]
    )
    kernel = np.ones((2, 1, 3, 3), f32)
    yield "conv", network(
        [
            node("Conv", ["x", "k"], ["a"], pads=[1, 1, 1, 1], strides=[2, 2], kernel_shape=[3, 3]),
            node("BatchNormalization", ["a", "s", "s", "s", "s"], ["b"], epsilon=1e-3),
            node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2]),
            node("Flatten", ["c"], ["y"]),
        ],
        [("k", kernel), ("s", np.ones(2, f32))],
        shape=("N", 1, 6, 6),
    )
    yield "shapes", network(
        [
            node("Reshape", ["x", "s"], ["a"]),
            node("Transpose", ["a"], ["b"], perm=[0, 2, 1]),
            node("Concat", ["b", "b"], ["c"], axis=1),
            node("Slice", ["c", "from", "to", "axes"], ["d"]),
            node("Squeeze", ["d", "axes"], ["y"]),
        ],
        [
            ("s", np.int64([0, 2, -1])),
            ("from", np.int64([0])),
            ("to", np.int64([1])),
            ("axes", np.int64([1])),
        ],
    )
    constant = numpy_helper.from_array(np.full((1, 4), 0.5, f32))
    yield "attributes", network(
        [
            node("Constant", [], ["k"], value=constant),
            node("Mul", ["x", "k"], ["a"], name="scale"),
            node("LeakyRelu", ["a"], ["b"], alpha=0.2),
            node("Softmax", ["b"], ["y"], axis=-1),
        ]
    )
    yield "doubles", network([node("Cast", ["x"], ["a"], to=TensorProto.DOUBLE), node("Cast", ["a"], ["y"], to=1)])
    # Numbers in the typed fields in place of raw_data.
    typed = helper.make_tensor("w", TensorProto.FLOAT, [4, 1], [1.0, 2.0, 3.0, 4.0])
    model = onnx.load_from_string(network([node("MatMul", ["x", "w"], ["y"])]))
    model.graph.initializer.append(typed)
    yield "typed", model.SerializeToString()


def seeds():
    """(target, name, bytes) of every input."""
    for target, texts in (
        ("vnnlib", VNNLIB),
        ("witness", WITNESS),
        ("instances", INSTANCES),
        ("decimal", DECIMAL),
    ):
        for name, text in texts.items():
            yield target, name, text.encode()
    for name, array in arrays():
        out = io.BytesIO()
        np.save(out, array)
        yield "npy", name, out.getvalue()
    packed = gzip.compress(b"some text, " * 30, mtime=0)
    yield "gzip", "one", packed
    yield "gzip", "two", packed + gzip.compress(b"and more", mtime=0) + bytes(8)
    yield "gzip", "bomb", gzip.compress(bytes(3 << 20), mtime=0)
    yield "gzip", "plain", b"no gzip"
    models = dict(networks())
    models |= {p.stem: p.read_bytes() for p in sorted(EXAMPLES.rglob("*.onnx"))}
    for name, model in models.items():
        yield "onnx_graph", name, model
        yield "onnx_model", name, model
    for path in sorted(EXAMPLES.rglob("*.vnnlib")):
        yield "vnnlib", path.name, path.read_bytes()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    folder = parser.parse_args().folder
    for target, name, data in seeds():
        (folder / target).mkdir(parents=True, exist_ok=True)
        if len(data) <= LARGEST:
            (folder / target / name).write_bytes(data)


if __name__ == "__main__":
    main()
