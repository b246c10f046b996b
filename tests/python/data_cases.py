"""Networks and files of data sets for tests, written by other programs than Grapeshot."""

import csv
import gzip
import struct

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def network(shape, weights=None, bias=None):
    """Flattens one input of `shape`; with weights [D, K] a linear layer behind it."""
    d = int(np.prod(shape))
    nodes = [helper.make_node("Reshape", ["x", "flat"], ["f" if weights is not None else "y"])]
    constants = [numpy_helper.from_array(np.array([1, d], np.int64), "flat")]
    k = d
    if weights is not None:
        weights = np.asarray(weights, np.float32)
        k = weights.shape[1]
        bias = np.zeros(k, np.float32) if bias is None else np.asarray(bias, np.float32)
        constants += [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(bias, "b")]
        nodes.append(helper.make_node("Gemm", ["f", "w", "b"], ["y"]))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, k])],
        constants,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    onnx.checker.check_model(made)
    return made.SerializeToString()


IDX_CODES = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}


def idx(array):
    """The bytes of an IDX file, by its description on MNIST's page."""
    code = IDX_CODES[array.dtype.str[1:]]
    head = struct.pack(">BBBB", 0, 0, code, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.astype(array.dtype.newbyteorder(">")).tobytes()


def cifar10(labels, images):
    return b"".join(bytes([y]) + x.tobytes() for y, x in zip(labels, images, strict=True))


def cifar100(coarse, fine, images):
    return b"".join(bytes([c, f]) + x.tobytes() for c, f, x in zip(coarse, fine, images, strict=True))


def write_csv(path, names, rows, **options):
    with open(path, "w", newline="") as out:
        writer = csv.writer(out, **options)
        writer.writerow(names)
        writer.writerows(rows)


def bytes_of(seed, *shape):
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


def packed(data):
    return gzip.compress(data, mtime=0)
