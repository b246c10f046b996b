"""Input gradients against central differences in float64, where the graph has a derivative."""

import nets
import numpy as np
from exact import ROUNDING, attribute, step_kind
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

DIRECTIONS = 2
STEP = 1e-4  # of the box's widths, for differences
AGREE = 1e-3  # of a typical directional derivative: what no kink means
TOLERANCE = 3e-3
# Operators that only move numbers: through them it is known which input goes where.
MOVING = {"Flatten", "Gather", "Identity", "Reshape", "Slice", "Split"}
MOVING |= {"Squeeze", "Transpose", "Unsqueeze"}
# Operators whose outputs have no slope, besides those that step_kind() knows.
FLAT = {"Shape", "Size", "NonZero", "And", "Or", "Not", "Xor", "IsNaN", "IsInf", "OneHot"}


def paths(model, reference, free):
    """How the inputs marked in `free` reach the outputs.

    A subset of {"smooth", "surrogate"}; the second leads through a step function that has a
    gradient by agreement. Paths through integers and truth values have none.
    """
    graph = model.graph
    constants = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    # The numbers of the inputs that a tensor holds, of those that hold nothing else.
    moved, kinds = reference.feed(np.arange(free.size)), {}
    moved = {name: numbers.astype(np.int64) for name, numbers in moved.items()}

    def of(tensor):
        if tensor in moved:
            return {"smooth"} if free[moved[tensor].reshape(-1)].any() else set()
        return kinds.get(tensor, set())

    for node in graph.node:
        if node.op_type == "Constant":
            value = attribute(node, "value", None)
            if value is not None:
                constants[node.output[0]] = numpy_helper.to_array(value)
            continue
        others = [n for n in node.input[1:] if n]
        if node.op_type in MOVING and node.input[0] in moved and constants.keys() >= set(others):
            moved.update(move(node, moved[node.input[0]], constants, model.opset_import))
            continue
        found = set().union(*map(of, node.input))
        if node.op_type in FLAT or (step_kind(node) and node.op_type not in ROUNDING):
            found = set()
        elif node.op_type in ROUNDING and found:
            found = {"surrogate"}
        kinds.update(dict.fromkeys(node.output, found))
    return set().union(*(of(port.name) for port in graph.output))


def move(node, numbers, constants, opsets):
    """The outputs of a node that moves the numbers of inputs."""
    feed = {node.input[0]: numbers} | {n: constants[n] for n in node.input[1:] if n}
    ports = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), None)
        for n, v in feed.items()
    ]
    outputs = [helper.make_tensor_value_info(n, TensorProto.INT64, None) for n in node.output]
    graph = helper.make_graph([node], "move", ports, outputs)
    model = helper.make_model(graph, opset_imports=opsets)
    return dict(zip(node.output, ReferenceEvaluator(model).run(None, feed), strict=True))


def check_gradient(path, model, reference, x, gradient, output, widths):
    """(kind, worst difference, rows without a kink, failures).

    kind: "compared"; "surrogate" where step functions make it one on purpose; "none" where no path
    of the graph carries a gradient. At most 1 is fine for the difference.
    """
    free = widths > 0 if widths.any() else np.ones(len(widths), bool)
    found = paths(model, reference, free)
    if "surrogate" in found:
        return "surrogate", 0.0, 0, []
    if not found:
        return "none", 0.0, 0, ["gradient where no path leads"] if gradient[:, free].any() else []
    n, worst, smooth = len(x), np.zeros(len(x)), np.ones(len(x), bool)
    for predicted, slopes, central in differences(path, x, gradient, output, free, widths):
        typical = np.linalg.norm(predicted, axis=1) + 1e-300
        smooth &= np.ptp(slopes, axis=0) <= AGREE * typical
        off = np.abs(predicted.sum(1) - central)
        worst = np.maximum(worst, off / (TOLERANCE * typical))
    failures = ["gradient"] if worst[smooth].max(initial=0) > 1 else []
    if smooth.sum() < max(1, n // 4):
        failures.append(f"only {smooth.sum()} rows without a kink")
    return "compared", float(worst[smooth].max(initial=0)), int(smooth.sum()), failures


def differences(path, x, gradient, output, free, widths):
    """For each direction: the gradient's share of each input, one-sided slopes, the central one."""
    draw = np.random.default_rng(6)
    scale = np.where(free, widths if widths.any() else 1e-3, 0) * STEP
    n, points = len(x), [x.astype(np.float64)]
    directions = [draw.standard_normal(x.shape) * scale for _ in range(DIRECTIONS)]
    sizes = (1.0, -1.0, 0.25, -0.25)
    for d in directions:
        points += [points[0] + s * d for s in sizes]
    values = nets.run(path, np.concatenate(points), "--float64").y[:, output].reshape(-1, n)
    for k, d in enumerate(directions):
        at = values[1 + 4 * k : 5 + 4 * k]
        slopes = [(v - values[0]) / s for v, s in zip(at, sizes, strict=True)]
        yield gradient.astype(np.float64) * d, slopes, (at[2] - at[3]) / 0.5
