#!/usr/bin/env python3
"""Writes the fuzz targets' first inputs: small files made here, those of tests and of examples/.

usage: seeds.py FOLDER          writes FOLDER/<target>/*
"""

import argparse
import gzip
import io
import pathlib
import sys

import numpy as np
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
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

QUERY_HEAD = (
    "(vnnlib-version <2.0>)\n(declare-network f (declare-input X float32 [2])"
    " (declare-output Y float32 [1,2]))\n"
)
QUERY_BOX = "".join(f"(assert (and (<= -1.0 X[{i}]) (<= X[{i}] 0.1)))\n" for i in (0, 1))
QUERY = {
    "plain": QUERY_HEAD + QUERY_BOX + "(assert (<= Y[0,0] Y[0,1]))\n",
    "strict": QUERY_HEAD + QUERY_BOX + "(assert (and (< X[0] 0.0) (!= Y[0,0] 0.5) (== Y[0,1] 1.0)))\n",
    "polynomial": QUERY_HEAD + QUERY_BOX + "(assert (or (<= (* X[0] (+ X[1] Y[0,0] 0.1)) (- Y[0,1])) (> 1.0 2.0)))\n",
    "two": QUERY_HEAD + "(declare-network g (isomorphic-to f) (declare-input U float32 [2])"
    ' (declare-hidden H real [] "h") (declare-output Z float32 [1,2]))\n' + QUERY_BOX
    + "(assert (== X[0] U[0]))(assert (== X[1] U[1])) ; the same\n(assert (>= (- Y[0,0] Z[0,0]) 0.25))(assert (>= H 0.0))\n",
    "exponent": QUERY_HEAD + "(assert (<= Y[0,0] 1e-5))\n",
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

VERDICTS = {
    "expected": "onnx,vnnlib,verdict,best_tool,best_time_s\na.onnx,b.vnnlib,sat,x,1.5\na.onnx,c.vnnlib.gz,unsat,,\n",
    "results": "c,./c/a.onnx,./c/b.vnnlib,0.5,sat,1e1\r\n\r\nc,a.onnx.gz,d,0,holds,x\r\n",
    "columns": "verdict,vnnlib,onnx\nviolated,b,a\n",
    "short": "onnx,vnnlib,verdict\na,b\n",
}

SIX = '"inputs": {"lo": 0, "hi": 1}'
SPECIFICATION = {
    "fairness": '{"property": "fairness", "inputs": {"center": [0, 0, 0, 0, 0, 0], "eps": 0.1},'
    ' "protected": {"0": [0, 1, 2], "3": {"lo": -1, "hi": 1}}, "eps": [0, 0.1, 0, 0, 0, 0]}',
    "sides": '{"property": "fairness", ' + SIX + ', "protected": {"1": [0, 1]}, "threshold": 0.5, "output": 0}',
    "monotonicity": '{"property": "monotonicity", "inputs": {"lo": 0, "hi": 1, "values": {"2": [0, 1]}},'
    ' "increasing": [0, 2], "decreasing": ["x4"], "feature_names": ["x0", "x1", "x2", "x3", "x4", "x5"],'
    ' "class": 1}',
    "monotone_output": '{"property": "monotonicity", ' + SIX + ', "increasing": [5], "output": 0, "tolerance": 1e-3}',
    "sets": '{"property": "set", "classes": [0], "inputs": {"lo": 0, "hi": 1, "one_hot": [[0, 1], ["3", 4]],'
    ' "grid": {"origin": 0.5, "step": 0.25}, "ball": {"norm": "l2", "radius": 0.5, "center": 0.25}}}',
    "bounds": '{"property": "bounds", "inputs": [{"lo": [0, 0, 0, 0, 0, 0], "hi": 2}], "output": 0, "hi": 1}',
    "delta": '{"property": "bounds", "inputs": {"center": [1, 2, 3, 4, 5, 6], "eps": 1, "only": [0]},'
    ' "output": 0, "delta": 1}',
    "temporal": '{"property": "temporal", "inputs": {"center": [0, 0, 0, 0, 0, 0], "eps": 1, "steps": 3,'
    ' "only_steps": [2]}, "steps": 4, "formula": {"always": {"if": {"above": 0.8}, "then": {"eventually":'
    ' {"below": 0.5}, "steps": [0, 1]}}}}',
    "signals": '{"property": "temporal", ' + SIX + ', "steps": 2, "formula": {"and": [{"until": [{"below": 1,'
    ' "signal": 1}, {"not": {"within": [0, 1], "signal": 0}}]}, {"or": [{"change": 1, "signal": 0}]}]}}',
    "classes": '{"property": "set", "inputs": [{"lo": 0, "hi": 1}, {"lo": 2, "hi": 3}], "classes": [0, 3]}',
    "outputs": '{"property": "set", ' + SIX + ', "outputs": [{"0": [0, 1]}, {"0": [2, 3]}]}',
    "permutation": '{"property": "permutation", ' + SIX + ', "elements": 3, "permutations": "any"}',
    "order": '{"property": "permutation", ' + SIX + ', "elements": 3, "permutations": [[2, 0, 1]],'
    ' "tolerance": 0.1}',
    "twice": '{"property": "set", "property": 1}',
}

CSV = {
    "plain": "a,b,c\n1,2.5,-3e-2\n4,5,6\n",
    "quotes": '\ufeff"a, ""x""";"b\nc"\r\n"1";2\r\n\r\n3;4',
    "tabs": "a\tb\n 1\t+2\n",
    "ragged": "a,b\n1,2,3\n",
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


def idx(array):
    """IDX, as MNIST comes: the type's number, the sizes, the numbers, highest byte first."""
    code = {"u1": 8, "i1": 9, "i2": 11, "i4": 12, "f4": 13, "f8": 14}[array.dtype.str[1:]]
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, code, array.ndim]) + sizes + array.astype(array.dtype.newbyteorder(">")).tobytes()


def images():
    """(name, bytes) of small PNG and JPEG files of all kinds."""
    pixels = Image.fromarray((np.arange(7 * 5 * 4) * 37 % 256).astype(np.uint8).reshape(7, 5, 4), "RGBA")
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"):
        yield f"{mode}.png", pixels.convert("L" if mode == "I;16" else mode).convert(mode), {}
    for mode in ("L", "RGB", "CMYK"):
        yield f"{mode}.jpg", pixels.convert(mode), {"quality": 50}
    yield "progressive.jpg", pixels.convert("RGB"), {"progressive": True}


def networks():
    """The small ones that tests have for every operator, and for every way to be malformed."""
    sys.path.insert(0, str(ROOT / "tests" / "python"))
    from bad_models import BAD
    from operator_cases import CASES

    for cases in CASES.values():
        for case in cases:
            yield case.name, case.model
    for name, (write, _) in BAD.items():
        if isinstance(write, bytes):
            yield name, write
    for path in sorted(EXAMPLES.rglob("*.onnx")):
        yield path.stem, path.read_bytes()


def seeds():
    """(target, name, bytes) of every input."""
    for target, texts in (
        ("vnnlib", VNNLIB),
        ("query", QUERY),
        ("witness", WITNESS),
        ("instances", INSTANCES),
        ("verdicts", VERDICTS),
        ("decimal", DECIMAL),
        ("csv", CSV),
        ("specification", SPECIFICATION),
    ):
        for name, text in texts.items():
            yield target, name, text.encode()
    for name, array in arrays():
        out = io.BytesIO()
        np.save(out, array)
        yield "npy", name, out.getvalue()
    for kind, save in (("stored", np.savez), ("packed", np.savez_compressed)):
        out = io.BytesIO()
        save(out, **dict(arrays()))
        yield "npz", kind, out.getvalue()
    for kind in ("u1", "i1", "i2", "i4", "f4", "f8"):
        yield "idx", kind, idx(np.arange(12).reshape(3, 2, 2).astype(kind))
    for name, image, options in images():
        out = io.BytesIO()
        image.save(out, name.split(".")[-1].replace("jpg", "jpeg"), **options)
        yield "image", name.replace(";", ""), out.getvalue()
    record = (np.arange(3072) % 256).astype(np.uint8).tobytes()
    yield "cifar", "ten", b"".join(bytes([label]) + record for label in (0, 9, 3))
    yield "cifar", "hundred", b"".join(bytes([label, 5 * label]) + record for label in (0, 19, 3))
    packed = gzip.compress(b"some text, " * 30, mtime=0)
    yield "gzip", "one", packed
    yield "gzip", "two", packed + gzip.compress(b"and more", mtime=0) + bytes(8)
    yield "gzip", "bomb", gzip.compress(bytes(3 << 20), mtime=0)
    yield "gzip", "plain", b"no gzip"
    for name, model in networks():
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
            (folder / target / name.replace("/", "_")).write_bytes(data)


if __name__ == "__main__":
    main()
