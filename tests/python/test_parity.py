"""Outputs and input gradients of whole networks against ONNX Runtime: tools/parity.py on each."""

import os
import sys

import pytest
from conftest import ROOT
from program import needs_program

sys.path.insert(0, str(ROOT / "tools"))
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
    chosen = [item.callspec.params["model"] for item in ours if hasattr(item, "callspec")]
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
    assert len(SHIPPED) == 4
    if SHARED:
        assert len(SHARED) >= 55
