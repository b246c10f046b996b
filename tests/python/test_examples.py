"""The example networks that the project ships: sound, as described, and reproducible."""

import csv
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from conftest import ROOT

import exact_vnnlib

DIGITS = ROOT / "examples" / "digits"
MODELS = sorted(p.name for p in DIGITS.glob("*.onnx"))
INSTANCES = [tuple(row) for row in csv.reader((DIGITS / "instances.csv").read_text().splitlines())]


def outputs(model, x):
    """[N, 10] for flat inputs [N, 64], one row at a time."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        str(DIGITS / model), options, providers=["CPUExecutionProvider"]
    )
    given = session.get_inputs()[0]
    shape = [1, *given.shape[1:]]
    return np.concatenate([session.run(None, {given.name: row.reshape(shape)})[0] for row in x])


def test_there_are_five_networks():
    assert MODELS == ["attention.onnx", "bnn.onnx", "cnn_bn.onnx", "mlp.onnx", "resnet.onnx"]


@pytest.mark.parametrize("model", MODELS)
def test_a_network_is_valid_and_recognises_digits(model):
    onnx.checker.check_model(onnx.load(DIGITS / model), full_check=True)
    x, y = np.load(DIGITS / "data" / "X.npy"), np.load(DIGITS / "data" / "y.npy")
    assert x.dtype == np.float32 and x.shape == (64, 64) and 0 <= x.min() and x.max() <= 1
    assert y.dtype == np.int64 and y.shape == (64,)
    assert (outputs(model, x).argmax(1) == y).mean() > 0.9


def test_the_networks_cover_what_files_in_the_wild_look_like():
    graphs = {m: onnx.load(DIGITS / m) for m in MODELS}
    opsets = {m: g.opset_import[0].version for m, g in graphs.items()}
    assert min(opsets.values()) == 9 and max(opsets.values()) == 17
    resnet = graphs["resnet.onnx"].graph
    assert {w.name for w in resnet.initializer} <= {i.name for i in resnet.input}
    operators = {m: {n.op_type for n in g.graph.node} for m, g in graphs.items()}
    assert "BatchNormalization" in operators["cnn_bn.onnx"]
    assert {"Sign", "Transpose", "Softmax", "BatchNormalization"} <= operators["bnn.onnx"]
    assert {"Add", "AveragePool", "Conv"} <= operators["resnet.onnx"]
    assert {"LayerNormalization", "Softmax", "Erf", "Gather", "Shape"} <= operators[
        "attention.onnx"
    ]
    batches = [g.graph.input[0].type.tensor_type.shape.dim[0] for g in graphs.values()]
    assert {b.WhichOneof("value") for b in batches} == {"dim_value", "dim_param"}


def test_instances_name_files_that_exist_and_leave_none_out():
    assert len(INSTANCES) >= 20
    assert all(len(row) == 3 and float(row[2]) > 0 for row in INSTANCES)
    assert {m for m, _, _ in INSTANCES} == set(MODELS)
    assert {s for _, s, _ in INSTANCES} == {
        f"vnnlib/{p.name}" for p in (DIGITS / "vnnlib").iterdir()
    }


@pytest.mark.parametrize(("model", "spec"), [row[:2] for row in INSTANCES])
def test_a_specification_has_proper_boxes_and_is_not_violated_in_their_middle(model, spec):
    inputs, count, asserted = exact_vnnlib.parse((DIGITS / spec).read_text())
    assert (inputs, count) == (64, 10)
    for lo, hi in exact_vnnlib.boxes(asserted):
        assert len(lo) == len(hi) == 64
        assert all(0 <= a <= b <= 1 for a, b in zip(lo, hi, strict=True))
        assert len({b - a for a, b in zip(lo, hi, strict=True)}) > 10, "widths are unequal"
        middle = np.array([(a + b) / 2 for a, b in zip(lo, hi, strict=True)], dtype=np.float32)
        y = outputs(model, middle[None])[0]
        assert not all(exact_vnnlib.holds(e, middle, y) for e in asserted)


def test_all_shapes_of_specification_appear():
    kinds = {"top-1": 0, "conjunction": 0, "constant": 0, "several atoms": 0, "several boxes": 0}
    for _, spec, _ in INSTANCES:
        _, _, asserted = exact_vnnlib.parse((DIGITS / spec).read_text())
        disjunctions = [e for e in asserted if e[0] == "or"]
        on_outputs = [e for e in asserted if e[0] in ("<=", ">=") and "Y_" in e[1] + e[2]]
        kinds["conjunction"] += len(on_outputs) > 1
        kinds["constant"] += any(e[2][:2] != "Y_" for e in on_outputs)
        kinds["several boxes"] += len(exact_vnnlib.boxes(asserted)) > 1
        kinds["top-1"] += any(all(len(d) == 2 for d in e[1:]) for e in disjunctions)
        kinds["several atoms"] += any(len(d) == 3 for e in disjunctions for d in e[1:])
    assert all(kinds.values()), kinds


def test_the_script_makes_what_is_committed():
    script = ROOT / "tools" / "make_example_models.py"
    done = subprocess.run(
        [sys.executable, script, "--check"], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
