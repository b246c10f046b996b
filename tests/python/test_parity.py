"""Outputs and input gradients of whole networks against ONNX Runtime: tools/parity.py on each."""

import json
import os
import subprocess
import sys

import onnx
import pytest
from conftest import ROOT
from program import needs_program

sys.path.insert(0, str(ROOT / "tools"))
import nets
import parity

pytestmark = needs_program

SHIPPED = parity.find_models([ROOT / "examples"])
SHARED = [m for m in parity.find_models(parity.shared_folders()) if m not in SHIPPED]


def name(path):
    return os.path.relpath(path, ROOT.parent)


@pytest.fixture(scope="session")
def results(request):
    """Of the selected models, computed side by side."""
    ours = (item for item in request.session.items if item.module is sys.modules[__name__])
    models = (item.callspec.params.get("model") for item in ours if hasattr(item, "callspec"))
    # Without ../shared its test has one unset parameter and is skipped.
    chosen = [model for model in models if isinstance(model, (str, os.PathLike))]
    return {result.model: result for result in parity.check_all(chosen)}


def assert_parity(result):
    print(parity.line(result))
    assert result.failures == []
    assert result.difference <= 1 and result.lowering <= 1 and result.rows >= 16
    # The gradient of a step function is a surrogate, that of all others is checked.
    binarized = "bnn" in result.model or "QConv" in result.model
    assert (result.gradient is None) == binarized


@pytest.mark.parametrize("model", SHIPPED, ids=name)
def test_shipped_network(model, results):
    assert_parity(results[str(model)])


@pytest.mark.shared
@pytest.mark.parametrize("model", SHARED, ids=name)
def test_benchmark_network(model, results):
    assert_parity(results[str(model)])


def test_networks_are_found():
    assert len(SHIPPED) == 5
    if SHARED:
        assert len(SHARED) >= 55


def run_script(*arguments):
    command = [sys.executable, ROOT / "tools" / "parity.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_script_prints_a_table_and_writes_json(tmp_path):
    done = run_script(SHIPPED[0].parent / "mlp.onnx", "--json", tmp_path / "parity.json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "digits/mlp" in done.stdout and "1 of 1 models agree" in done.stdout
    (result,) = json.loads((tmp_path / "parity.json").read_text())
    assert result["failures"] == [] and result["usable"] > 0


def test_the_script_fails_on_a_network_that_cannot_be_run(tmp_path):
    model = onnx.load(SHIPPED[0].parent / "mlp.onnx")
    next(n for n in model.graph.node if n.op_type == "Relu").op_type = "Hardmax"
    onnx.save(model, tmp_path / "other.onnx")
    done = run_script(tmp_path)
    assert done.returncode == 1 and "Hardmax" in done.stdout, done.stdout + done.stderr


def test_a_difference_is_a_failure(monkeypatch):
    run = nets.run

    def off(*arguments, **more):
        done = run(*arguments, **more)
        done.y = done.y + 3e-4 * (1 + abs(done.y))
        if done.gradient is not None:
            done.gradient = done.gradient * 1.01
        return done

    monkeypatch.setattr(nets, "run", off)
    result = parity.check(SHIPPED[0].parent / "mlp.onnx", 16)
    assert set(result.failures) == {"outputs", "lowering", "gradient"}
