"""Small networks for queries of VNN-LIB 2.0, and what ONNX Runtime makes of an assignment."""

import re

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper


def layers(widths, seed, opset=13, inputs=("x",), outputs=("y",), noise=0.0):
    """A network of ReLU layers over the inputs together; its last widths are the outputs' together.
    `noise` is added to the weights. The first layer's outputs are called hidden."""
    rng, other = np.random.default_rng(seed), np.random.default_rng(seed + 1000)
    nodes, weights = [], []
    size = widths[0] // len(inputs)
    at = inputs[0]
    if len(inputs) > 1:
        nodes.append(helper.make_node("Concat", list(inputs), ["all"], axis=1))
        at = "all"
    for i, (a, b) in enumerate(zip(widths, widths[1:])):
        last = i == len(widths) - 2
        w = rng.normal(size=(a, b)) / np.sqrt(a) + noise * other.normal(size=(a, b))
        weights += [(f"w{i}", w), (f"b{i}", rng.normal(size=b) * 0.1)]
        out = ("out" if len(outputs) > 1 else outputs[0]) if last else f"pre{i}"
        nodes.append(helper.make_node("Gemm", [at, f"w{i}", f"b{i}"], [out]))
        at = out
        if not last:
            at = "hidden" if i == 0 else f"relu{i}"
            nodes.append(helper.make_node("Relu", [out], [at]))
    part = widths[-1] // len(outputs)
    if len(outputs) > 1:
        nodes.append(helper.make_node("Split", [at], list(outputs), axis=1))
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [value(name, onnx.TensorProto.FLOAT, [1, size]) for name in inputs],
        [value(name, onnx.TensorProto.FLOAT, [1, part]) for name in outputs],
        [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights],
    )
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", opset)])


def declare(name, inputs, outputs, link="", hidden=()):
    """(declare-network ...); inputs and outputs are names with sizes."""
    text = f"(declare-network {name} {link}\n"
    text += "".join(f"  (declare-input {n} float32 [1,{k}])\n" for n, k in inputs)
    text += "".join(f'  (declare-hidden {n} float32 [1,{k}] "{t}")\n' for n, k, t in hidden)
    return text + "".join(f"  (declare-output {n} float32 [1,{k}])\n" for n, k in outputs) + ")\n"


def box(name, size, low=-1.0, high=1.0):
    return "".join(
        f"(assert (and (>= {name}[0,{i}] {low}) (<= {name}[0,{i}] {high})))\n" for i in range(size)
    )


def query(networks, *asserts):
    return (
        "(vnnlib-version <2.0>)\n" + networks + "".join(f"(assert {text})\n" for text in asserts)
    )


def assignment(text):
    """The variables of a counterexample in the standard's form: name -> array."""
    out = {}
    lines = text.strip().splitlines()
    assert lines.pop(0) == "sat"
    while lines:
        name, type_, shape = re.fullmatch(r"(\w+) (\w+) \[([\d,]*)\]", lines.pop(0)).groups()
        assert type_ in ("float32", "real")
        shape = [int(size) for size in shape.split(",") if size]
        count = int(np.prod(shape, dtype=int))
        values, lines = lines[:count], lines[count:]
        out[name] = np.array([float(v) for v in values], np.float32).reshape(shape)
        assert [float(v) for v in values] == out[name].astype(float).ravel().tolist()
    return out


def outputs_of(model, inputs, names=None):
    """ONNX Runtime's outputs of a model, or of the tensors `names` in it."""
    if names:
        model = onnx.ModelProto.FromString(model.SerializeToString())
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    feed = {port.name: x for port, x in zip(session.get_inputs(), inputs)}
    return session.run(names, feed)
