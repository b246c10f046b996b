"""The onnx package's own test cases of single operators, where one float input remains."""

import collections
import importlib
import pkgutil
import warnings

import numpy as np
import onnx
import onnx.backend.test.case.node as package
from onnx import helper, numpy_helper
from operator_cases import Case

TWO_SIDED = {"Add", "Sub", "Mul", "Div", "MatMul", "Gemm"}  # whose second operand may be the input

REASONS = (
    "of another operator, or of several nodes",
    "several outputs",
    "no input, or one that is no tensor",
    "not float32",
    "empty",
    "training",
)


def all_of(operators):
    """The package's cases; only modules named after an operator are loaded, all take long."""
    names = {op.lower() for op in operators}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in pkgutil.iter_modules(package.__path__):
            if module.name.replace("_", "") in names:
                importlib.import_module(f"{package.__name__}.{module.name}")
    return list(package._NodeTestCases)


def why_not(case, operators):
    """Why a case cannot become a network of one float input and one output, or None."""
    graph, (inputs, outputs) = case.model.graph, case.data_sets[0]
    if len(graph.node) != 1 or graph.node[0].op_type not in operators:
        return "of another operator, or of several nodes"
    if len(outputs) != 1:
        return "several outputs"
    if not inputs or not all(isinstance(a, np.ndarray) for a in [*inputs, *outputs]):
        return "no input, or one that is no tensor"
    if inputs[0].dtype != np.float32 or outputs[0].dtype != np.float32:
        return "not float32"
    if inputs[0].size == 0:
        return "empty"
    node = graph.node[0]
    trains = node.op_type == "Dropout" and len(inputs) > 2 and bool(inputs[2])
    if trains or any(a.name == "training_mode" and a.i for a in node.attribute):
        return "training"
    return None


def network(case, position):
    """The case's model with all inputs but one made constants."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    graph, (inputs, _) = model.graph, case.data_sets[0]
    given = {port.name: a for port, a in zip(graph.input, inputs, strict=True)}
    kept = graph.input[position].name
    for name, a in given.items():
        if name != kept:
            graph.initializer.append(numpy_helper.from_array(np.asarray(a), name))
    for node in graph.node:
        node.name = f"the_{node.op_type}"
    port = helper.make_tensor_value_info("row", onnx.TensorProto.FLOAT, given[kept].shape)
    graph.node[0].input[:] = ["row" if name == kept else name for name in graph.node[0].input]
    del graph.input[:]
    graph.input.append(port)
    return model.SerializeToString(), given[kept]


def fitting(operators):
    """(cases whose first row has the package's outputs, those outputs, reasons of the others)."""
    draw = np.random.default_rng(3)
    cases, expected, reasons = [], {}, collections.Counter()
    for case in all_of(operators):
        why = why_not(case, operators)
        if why:
            reasons[why] += 1
            continue
        op, count = case.model.graph.node[0].op_type, len(case.data_sets[0][0])
        for position in range(2 if op in TWO_SIDED and count > 1 else 1):
            model, x = network(case, position)
            batch = np.stack([x, *(draw.permutation(x.reshape(-1)).reshape(x.shape) for _ in "ab")])
            name = f"{case.name}-{position}"
            cases.append(Case(name, model, batch, False))
            expected[name] = case.data_sets[0][1][0].reshape(-1)
    return cases, expected, reasons
