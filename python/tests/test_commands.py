"""falsify, diff, coverage and replay."""

import json

import numpy as np
import pytest
import torch
from conftest import DIGITS, program

import grapeshot
from grapeshot import Specs

MLP = DIGITS / "mlp.onnx"
SPEC = DIGITS / "vnnlib" / "mlp_top1_0_radius_0.18.vnnlib"
ROBUST = DIGITS / "vnnlib" / "mlp_top1_4_radius_0.08.vnnlib"


def test_falsify_answers_sat_with_a_witness(tmp_path):
    answer = grapeshot.falsify(MLP, SPEC, timeout=60, witness=tmp_path / "w.npy")
    assert answer and answer.answer == "sat" and answer.summary["margin32"] <= 0
    np.testing.assert_array_equal(np.load(tmp_path / "w.npy").ravel(), answer.finding.x.flatten())
    assert program("check", MLP, SPEC, tmp_path / "w.npy").returncode == 0


def test_falsify_ends_in_time():
    answer = grapeshot.falsify(MLP, ROBUST, timeout=1)
    assert not answer and answer.answer == "timeout" and answer.finding is None
    assert answer.summary["seconds"] < 5


def test_falsify_takes_functions_and_margins(net):
    specs = Specs.from_margin(torch.zeros(1, 8), torch.ones(1, 8), lambda x, y: y[:, 0] - y[:, 1])
    answer = grapeshot.falsify(net, specs, timeout=30)
    y = net(answer.finding.x[None])[0]
    assert y[0] <= y[1]
    lines = []
    grapeshot.falsify(lambda x: net(x) - 10, specs, timeout=30, progress=lines.append)


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        ([SPEC, ROBUST], "falsify answers for one instance; these are 2"),
        (Specs.from_arrays(torch.rand(1, 64), eps=0.1), "falsify takes a VNN-LIB file"),
    ],
)
def test_falsify_refuses(specs, message):
    with pytest.raises(grapeshot.InvalidArgument, match=message):
        grapeshot.falsify(MLP, specs)


def test_diff_is_the_programs(tmp_path, digits):
    np.save(tmp_path / "x.npy", digits[0])
    budget = {"seed": 3, "candidates": 400, "l2": 0.3}
    flags = [f"--{k}={v}" for k, v in budget.items()]
    done = program("diff", MLP, "--data", tmp_path / "x.npy", *flags, "--out", tmp_path / "a", "--json")
    result = grapeshot.diff(MLP, digits[0], **budget)
    theirs = json.loads(done.stdout)
    assert [f.id for f in result] == theirs["findings"] and len(result) > 0
    assert theirs.keys() == result.summary.keys()
    assert all(r["before"] != r["after"] for r in result.records())
    assert result.replay()["confirmed"] == len(result)


def test_diff_of_two_models_and_of_a_function(net, x):
    torch.manual_seed(1)
    other = torch.nn.Sequential(torch.nn.Linear(8, 3)).eval()
    both = grapeshot.diff(net, x, other, candidates=400, l2=0.5)
    assert both.summary["others"]
    functions = [lambda batch: net(batch), lambda batch: other(batch)]
    apart = grapeshot.diff(functions[0], x, functions[1], candidates=400, l2=0.5)
    assert apart.summary["images"] == len(x)
    function = grapeshot.diff(lambda batch: net(batch), x, candidates=400, l2=0.8)
    assert len(function) > 0
    for finding in function:
        assert net(finding.x[None]).argmax() != net(finding.original[None]).argmax()


def test_coverage_is_the_programs(tmp_path, digits):
    np.save(tmp_path / "x.npy", digits[0])
    done = program("coverage", MLP, "--data", tmp_path / "x.npy", "--criteria", "nc,tknc", "--json")
    ours = grapeshot.coverage(MLP, digits[0], criteria=["nc", "tknc"])
    theirs = json.loads(done.stdout)["criteria"]
    assert {k: v["value"] for k, v in ours["criteria"].items()} == {k: v["value"] for k, v in theirs.items()}


def test_coverage_of_a_function_is_refused(net, x):
    with pytest.raises(grapeshot.InvalidArgument, match="it has no layers to look into"):
        grapeshot.coverage(lambda batch: net(batch), x)


def test_a_criterion_needs_layers(net, x, y):
    with pytest.raises(grapeshot.Error, match="kmnc"):
        grapeshot.fuzz(lambda b: net(b), Specs.from_arrays(x, y, eps=0.1), criterion="kmnc", candidates=10)


def test_replay_names_what_is_not_there():
    with pytest.raises(FileNotFoundError, match="nowhere: no such folder"):
        grapeshot.replay("nowhere")
