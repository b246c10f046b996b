"""The onnx package's own test cases of operators, where an input is float32: it becomes the network's."""

import collections
import importlib
import pkgutil
import warnings

import numpy as np
import onnx
import onnx.backend.test.case.node as package
from case_tools import Case
from onnx import helper, numpy_helper

NEWEST = 23  # what later opsets add to the other operators are types of numbers
SINCE = {"BitCast": 26, "Swish": 24, "TensorScatter": 24}  # operators that came after
NEWER = {"Mod": 28, "SpaceToDepth": 28}  # operator -> the opset that says more
# ONNX Runtime divides by the whole size of the result here, not by the scaled size, it takes places
# among maxima for those of the size that is asked for, and where attention's products are masked it has
# the least float32 for what the case has minus infinity for.
DISPUTED = {
    "test_attention_4d_with_past_and_present_qk_matmul_bias_3d_mask_causal",
    "test_attention_4d_with_past_and_present_qk_matmul_bias_4d_mask_causal",
    "test_maxunpool_export_with_output_shape",
    "test_resize_downsample_scales_linear_align_corners",
    "test_resize_downsample_scales_cubic_align_corners",
}
# The size of the result depends on the row; the batch is refused in one sentence.
SIZED = {"Unique", "NonMaxSuppression"}
SIZED_CASES = {"test_range_float_type_positive_delta_expanded"}
MODULES = {"rangeop"}  # not named after their operator

# Inputs that may be a network's; of other operators only the first.
EVERY = range(16)
FREE = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "MatMul", "Gemm", "Pow", "Mod"), (0, 1)),
    **dict.fromkeys(("Max", "Min", "Mean", "Sum", "Concat", "Where"), EVERY),
    **dict.fromkeys(("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"), (0, 1)),
    **dict.fromkeys(("ScatterElements", "ScatterND"), (0, 2)),
    "PRelu": (0, 1),
    "Range": (),  # the size of the result would depend on the row
}
# A second output of these is not computed, or is one of training.
ONE_OUTPUT = {"Dropout", "BatchNormalization"}

REASONS = (
    "an operator that is not supported",
    "no input, or one that is no tensor",
    "no float32 input that may depend on the row",
    "empty",
    "training",
    "of a newer opset",
    "disputed",
    "a result whose size depends on the row",
)


def all_of(operators):
    """The package's cases; only modules named after an operator are loaded, all take long."""
    names = {op.lower() for op in operators} | MODULES
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in pkgutil.iter_modules(package.__path__):
            if module.name.replace("_", "") in names:
                importlib.import_module(f"{package.__name__}.{module.name}")
    return list(package._NodeTestCases)


def why_not(case, operators):
    """Why a case cannot become a network, or None."""
    graph, (inputs, outputs) = case.model.graph, case.data_sets[0]
    if not {node.op_type for node in graph.node} <= set(operators):
        return "an operator that is not supported"
    if not inputs or not all(isinstance(a, np.ndarray | np.generic) for a in [*inputs, *outputs]):
        return "no input, or one that is no tensor"
    if not positions(case):
        return "no float32 input that may depend on the row"
    if any(np.size(a) == 0 for a in [inputs[positions(case)[0]], *outputs]):
        return "empty"
    if case.name in DISPUTED:
        return "disputed"
    if case.name in SIZED_CASES or graph.node[0].op_type in SIZED:
        return "a result whose size depends on the row"
    opset = case.model.opset_import[0].version
    if any(opset >= NEWER.get(node.op_type, opset + 1) for node in graph.node):
        return "of a newer opset"
    node = graph.node[0]
    trains = node.op_type == "Dropout" and len(inputs) > 2 and bool(inputs[2])
    if trains or any(a.name == "training_mode" and a.i for a in node.attribute):
        return "training"
    return None


def positions(case):
    """The numbers of the inputs of which each may be a network's."""
    graph, (inputs, _) = case.model.graph, case.data_sets[0]
    # Other cases write an operator as several nodes.
    free = FREE.get(graph.node[0].op_type, (0,)) if len(graph.node) == 1 else (0,)
    return [i for i, a in enumerate(inputs) if i in free and a.dtype == np.float32]


def network(case, position):
    """The case's model with all inputs but one made constants, and the row."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    graph, (inputs, outputs) = model.graph, case.data_sets[0]
    given = {port.name: np.asarray(a) for port, a in zip(graph.input, inputs, strict=True)}
    kept = graph.input[position].name
    for name, a in given.items():
        if name != kept:
            graph.initializer.append(numpy_helper.from_array(a, name))
    for i, node in enumerate(graph.node):
        node.name = f"the_{node.op_type}" + (f"_{i}" if i else "")
    port = helper.make_tensor_value_info(kept, onnx.TensorProto.FLOAT, given[kept].shape)
    del graph.input[:]
    graph.input.append(port)
    if len(graph.node) == 1 and graph.node[0].op_type in ONE_OUTPUT:
        del graph.node[0].output[1:]
    ports = [p for p in graph.output if any(p.name in node.output for node in graph.node)]
    del graph.output[:]
    for p, a in zip(ports, outputs, strict=False):
        if np.asarray(a).dtype != np.float32:
            graph.node.append(
                helper.make_node("Cast", [p.name], [f"{p.name}_float"], to=onnx.TensorProto.FLOAT)
            )
            p = helper.make_tensor_value_info(f"{p.name}_float", onnx.TensorProto.FLOAT, None)
        graph.output.append(p)
    for opset in model.opset_import:
        since = max(SINCE.get(node.op_type, NEWEST) for node in graph.node)
        opset.version = min(opset.version, since)
    model.ir_version = min(model.ir_version, 10)
    return model.SerializeToString(), given[kept], len(ports)


def fitting(operators):
    """(cases whose first row has the package's outputs, those outputs, reasons of the others)."""
    draw = np.random.default_rng(3)
    cases, expected, reasons = [], {}, collections.Counter()
    for case in all_of(operators):
        why = why_not(case, operators)
        if why:
            reasons[why] += 1
            continue
        for position in positions(case):
            model, x, count = network(case, position)
            batch = np.stack([x, *(draw.permutation(x.reshape(-1)).reshape(x.shape) for _ in "ab")])
            name = f"{case.name}-{position}"
            cases.append(Case(name, model, batch, False))
            outputs = case.data_sets[0][1][:count]
            expected[name] = np.concatenate([np.reshape(a, -1).astype(np.float32) for a in outputs])
    return cases, expected, reasons
