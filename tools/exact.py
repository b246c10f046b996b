"""Float64 as the judge: whether a difference between two float32 evaluations is rounding.

A row that differs is excused, with its reason, only when the program in float64 agrees with an
evaluation by the onnx package in float64, which shares no code with it, and
  step       an argument of a step function (Sign, ArgMax, a comparison, a cast to integers, ...)
             lies so close to the step that rounding decides; how much rounding is, ONNX Runtime's
             float32 arguments beside the float64 ones say; or
  amplified  ONNX Runtime's own float32 error is as large: ours is at most FACTOR times that, each
             on its worst component.
"""

import dataclasses

import nets
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

FACTOR = 4.0
SAME = 1e-6  # of 1 + |y|: how close the two float64 evaluations have to be
CAP = 1e-4  # of 1 + the largest |argument|: more is not rounding

INTEGERS = {
    TensorProto.INT8,
    TensorProto.INT16,
    TensorProto.INT32,
    TensorProto.INT64,
    TensorProto.UINT8,
    TensorProto.UINT16,
    TensorProto.UINT32,
    TensorProto.UINT64,
}
VALUES = {
    "Sign": np.sign,
    "Round": np.round,
    "Floor": np.floor,
    "Ceil": np.ceil,
    "integer": np.trunc,
    "bool": np.sign,
}
ROUNDING = {"Sign", "Round", "Floor", "Ceil"}
COMPARISONS = {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"}


def attribute(node, name, otherwise):
    values = (helper.get_attribute_value(a) for a in node.attribute if a.name == name)
    return next(values, otherwise)


def step_kind(node):
    """The node's kind of step: a name of ROUNDING, "arg", "compare", "integer", "bool"; or None."""
    if node.op_type in ROUNDING:
        return node.op_type
    if node.op_type in COMPARISONS:
        return "compare"
    if node.op_type in ("ArgMax", "ArgMin"):
        return "arg"
    if node.op_type == "Cast":
        to = attribute(node, "to", 0)
        return "integer" if to in INTEGERS else "bool" if to == TensorProto.BOOL else None
    return None


def distance(kind, axis, z):
    """Of the arguments to the nearest step, in the arguments' own unit; the smallest of all."""
    a = z[0]
    if kind in ("Sign", "bool"):
        gap = a
    elif kind in ("Floor", "Ceil"):
        gap = a - np.round(a)
    elif kind == "Round":
        gap = a - np.floor(a) - 0.5
    elif kind == "integer":  # towards zero, so that there is no step at 0
        gap = np.where(np.abs(a) < 0.5, 1 - np.abs(a), a - np.round(a))
    elif kind == "compare":
        gap = a - z[1]
    elif a.shape[axis] > 1:
        gaps = np.diff(np.sort(a, axis=axis), axis=axis)
        gap = np.take(gaps, [0, -1], axis=axis)  # between the two smallest, the two largest
    else:
        return np.inf
    return float(np.abs(gap).min(initial=np.inf))


def reached(graph):
    """Names of what depends on the graph's input."""
    weights = {t.name for t in graph.initializer}
    names = {port.name for port in graph.input} - weights
    for node in graph.node:
        if names.intersection(node.input) and node.op_type not in ("Shape", "Size"):
            names.update(node.output)
    return names


class BatchNormalization(OpRun):
    """The onnx package mixes the batch's own mean in, as in training, up to opset 13."""

    op_domain = ""

    def _run(self, x, scale, bias, mean, var, epsilon=1e-5, **_):
        ones = (1,) * (x.ndim - 2)
        scale, bias, mean, var = (t.reshape(-1, *ones) for t in (scale, bias, mean, var))
        return (scale * (x - mean) / np.sqrt(var + epsilon) + bias,)


class OneHot(OpRun):
    """The onnx package takes the depth as a scalar only."""

    op_domain = ""

    def _run(self, indices, depth, values, axis=-1):
        depth = int(np.reshape(depth, -1)[0])
        at = np.where(indices < 0, indices + depth, indices)[..., None] == np.arange(depth)
        return (np.moveaxis(np.where(at, values[1], values[0]), -1, axis),)


def widen(graph):
    """Turns all float32 of a graph, and of the graphs inside its nodes, into float64."""
    for tensor in graph.initializer:
        widen_tensor(tensor)
    for node in graph.node:
        if node.op_type == "ConstantOfShape" and not node.attribute:
            zero = numpy_helper.from_array(np.zeros(1))
            node.attribute.append(helper.make_attribute("value", zero))
        for a in node.attribute:
            if a.type == onnx.AttributeProto.TENSOR:
                widen_tensor(a.t)
            elif a.type == onnx.AttributeProto.GRAPH:
                widen(a.g)
            elif node.op_type == "Cast" and a.name == "to" and a.i == TensorProto.FLOAT:
                a.i = TensorProto.DOUBLE
            elif node.op_type == "Constant" and a.name in ("value_float", "value_floats"):
                values = np.array(helper.get_attribute_value(a), np.float64)
                a.CopyFrom(helper.make_attribute("value", numpy_helper.from_array(values)))
    for port in [*graph.input, *graph.output]:
        if port.type.tensor_type.elem_type == TensorProto.FLOAT:
            port.type.tensor_type.elem_type = TensorProto.DOUBLE
    del graph.value_info[:]


def widen_tensor(tensor):
    if tensor.data_type == TensorProto.FLOAT:
        values = numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))


@dataclasses.dataclass
class Step:
    kind: str
    axis: int
    names: list  # of the arguments

    def look(self, wide, narrow):
        """(distance to the step in units of rounding, whether rounding crossed it).

        wide, narrow: the arguments in float64 and by ONNX Runtime in float32.
        """
        if not all(np.issubdtype(z.dtype, np.floating) for z in wide):
            return np.inf, False
        rounding = sum(np.abs(a - b).max(initial=0) for a, b in zip(wide, narrow, strict=True))
        largest = max(np.abs(z).max(initial=0) for z in wide)
        rounding = min(FACTOR * float(rounding), CAP * (1 + float(largest)))
        gap = distance(self.kind, self.axis, wide)
        near = gap / rounding if rounding > 0 else np.inf
        return near, bool((self.value(wide) != self.value(narrow)).any())

    def value(self, z):
        if self.kind == "compare":
            return np.sign(z[0].astype(np.float64) - z[1])
        if self.kind == "arg":
            return np.stack([z[0].argmax(self.axis), z[0].argmin(self.axis)])
        return VALUES[self.kind](z[0])


@dataclasses.dataclass
class Excuses:
    steps: list = dataclasses.field(default_factory=list)  # rows
    amplified: list = dataclasses.field(default_factory=list)  # rows
    ratio: float = 0.0  # the largest of our error to ONNX Runtime's, of amplified rows
    error: float = 0.0  # our largest float32 error in them, of 1 + |y|
    float64: float = 0.0  # the largest difference between the float64 evaluations
    refused: dict = dataclasses.field(default_factory=dict)  # row -> the numbers
    unproven: str = ""  # why float64 could not be asked


class Exact:
    """A model in float64 by the onnx package, and the arguments of its steps in both precisions."""

    def __init__(self, model):
        graph = model.graph
        self.outputs = len(graph.output)
        self.steps, depends = [], reached(graph)
        for node in graph.node:
            kind = step_kind(node)
            if kind and depends.intersection(node.input):
                names = list(node.input[: 2 if kind == "compare" else 1])
                self.steps.append(Step(kind, attribute(node, "axis", 0), names))
        arguments = sorted({name for step in self.steps for name in step.names})
        inputs = {port.name for port in graph.input} - {t.name for t in graph.initializer}
        ports = inputs | {port.name for port in graph.output}
        wide = copy_with_outputs(model, [n for n in arguments if n not in ports])
        widen(wide.graph)
        self.evaluator = ReferenceEvaluator(wide, new_ops=[BatchNormalization, OneHot])
        # ONNX Runtime's arguments; those that do not depend on the input have no rounding.
        self.varying = [n for n in arguments if n in depends - inputs]
        narrow = copy_with_outputs(model, [n for n in self.varying if n not in ports])
        self.session = nets.session(narrow.SerializeToString()) if self.steps else None

    def __call__(self, reference, row):
        """(outputs, distance to the nearest step in units of rounding, whether one was flipped)."""
        feed = reference.feed(row)
        wide = {name: v.astype(np.float64) for name, v in feed.items()}
        wide |= zip(self.evaluator.output_names, self.evaluator.run(None, wide), strict=True)
        results = [wide[name] for name in self.evaluator.output_names[: self.outputs]]
        y = np.concatenate([np.reshape(v, -1) for v in results]).astype(np.float64)
        nearest, flipped = np.inf, False
        if self.session:
            narrow = dict(zip(self.varying, self.session.run(self.varying, feed), strict=True))
            for step in self.steps:
                both = [[values[n] for n in step.names] for values in (wide, wide | narrow)]
                near, flip = step.look(*both)
                nearest, flipped = min(nearest, near), flipped or flip
        return y, nearest, flipped


def copy_with_outputs(model, names):
    out = onnx.ModelProto()
    out.CopyFrom(model)
    out.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return out


def excuse(path, model, reference, x, results, expected):
    """Excuses for rows in which one of `results` (lists of rows) differs from `expected`."""
    found = Excuses()
    wrong = [i for i in range(len(x)) if any(nets.worst(y[i], expected[i]) > 1 for y in results)]
    if not wrong:
        return found
    try:
        exact = Exact(model)
        truth = [exact(reference, x[i]) for i in wrong]
    except Exception as e:  # an operator that the onnx package lacks, or has wrong
        found.unproven = f"{type(e).__name__}: {e}"
        return found
    ours = nets.run(path, x[wrong], "--float64").y
    for i, mine, (y, near, flipped) in zip(wrong, ours, truth, strict=True):
        agree = relative(mine, y)
        error = max(relative(y32[i], y) for y32 in results)
        ratio = error / max(relative(expected[i], y), 1e-300)
        amplified = agree <= SAME and ratio <= FACTOR and not flipped
        if amplified:
            found.amplified.append(i)
            found.ratio = max(found.ratio, ratio)
            found.error = max(found.error, error)
        elif near <= 1 and nets.worst(mine, y) <= 1:
            found.steps.append(i)
        if amplified or i in found.steps:
            found.float64 = max(found.float64, agree)
        else:
            found.refused[i] = {"ratio": ratio, "float64": agree, "nearest_step": near}
    return found


def relative(y, expected):
    """The largest |y - expected| / (1 + |expected|)."""
    return float((np.abs(y - expected) / (1 + np.abs(expected))).max(initial=0))
