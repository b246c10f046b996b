"""What the cases of operators are written with: random tensors, nodes, networks of a few nodes."""

import dataclasses

import numpy as np
from onnx import TensorProto, helper, numpy_helper

DRAW = np.random.default_rng(20)
CASES = {}  # operator -> its cases


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    model: bytes
    x: np.ndarray  # rows; flat where the network has several inputs
    affine: bool  # the outputs are affine in the inputs, so that gradients are known exactly
    files: dict = dataclasses.field(default_factory=dict)  # beside the model: name -> bytes


def w(*shape):
    """Weights."""
    return DRAW.standard_normal(shape).astype(np.float32)


def positive(*shape):
    return 0.5 + np.abs(w(*shape))


def halves(*shape):
    """Whole and half numbers, both zeros among them, and some in between."""
    x = DRAW.integers(-7, 8, shape).astype(np.float32) / 2
    x.flat[:2] = 0.0, -0.0
    return np.where(DRAW.random(shape) < 0.3, x + w(*shape), x).astype(np.float32)


def whole_numbers(*shape):
    """Small whole numbers, so that some are equal."""
    return DRAW.integers(-3, 4, shape).astype(np.float32)


def within(lo, hi):
    """A draw of numbers between two bounds."""
    return lambda *shape: DRAW.uniform(lo, hi, shape).astype(np.float32)


def ints(*values):
    return np.array(values, np.int64)


def node(op, inputs, outputs="y", **attributes):
    made = helper.make_node(op, inputs.split(), outputs.split(), **attributes)
    # `_` stands for an optional input that is left out.
    made.input[:] = ["" if i == "_" else i for i in made.input]
    return made


def cast(given, outputs="y", to=TensorProto.FLOAT):
    return node("Cast", given, outputs, to=to)


def to_int(given, outputs):
    return cast(given, outputs, TensorProto.INT64)


def net(nodes, shape, constants=None, opset=13, output="y", listed=False, floats=False):
    """The serialised network from x (float32, `shape`) to `output`.

    listed: initializers are listed among the inputs, as before IR version 4.
    floats: they are kept as repeated fields instead of raw bytes.
    """
    tensors = [
        helper.make_tensor(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape, v.flatten())
        if floats
        else numpy_helper.from_array(v, k)
        for k, v in ((k, np.asarray(v)) for k, v in (constants or {}).items())
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    if listed:
        inputs += [helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in tensors]
    outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)]
    return model(nodes, inputs, outputs, tensors, opset, ir=3 if listed else ir_version(opset))


def ir_version(opset):
    return 8 if opset < 20 else 10


def model(nodes, inputs, outputs, tensors, opset, ir):
    for i, each in enumerate(nodes):
        each.name = f"the_{each.op_type}" + (f"_{i}" if i else "")
    graph = helper.make_graph(nodes, "case", inputs, outputs, tensors)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    made.ir_version = ir
    return made.SerializeToString()


def rows(shape, draw=None, n=3):
    return (draw or w)(n, *[s if isinstance(s, int) else 1 for s in shape])


def whole(op, name, model, shape, affine=False, draw=None):
    CASES.setdefault(op, []).append(Case(f"{op}-{name}", model, rows(shape, draw), affine))


def several(op, name, nodes, shape, constants=None, opset=13, affine=False, draw=None):
    """A network of several nodes, one of which is the operator."""
    whole(op, f"{name}-{opset}", net(nodes, shape, constants, opset), shape, affine, draw)


def one(
    op, name, shape, *constants, at=0, opset=13, affine=False, draw=None, floats=True, **attributes
):
    """A network of one node that reads x as input number `at` and constants (None: left out).

    floats: the result is float32; otherwise a Cast follows.
    """
    names = [f"c{i}" if c is not None else "_" for i, c in enumerate(constants)]
    names.insert(at, "x")
    given = {f"c{i}": c for i, c in enumerate(constants) if c is not None}
    nodes = [node(op, " ".join(names), "y" if floats else "a", **attributes)]
    if not floats:
        nodes.append(cast("a"))
    several(op, name, nodes, shape, given, opset, affine, draw)
