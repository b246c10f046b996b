"""Campaigns from Python: the program's findings, without copies, and nothing left behind."""

import json
import pathlib
import tempfile
import threading

import numpy as np
import pytest
import torch
from conftest import DIGITS, program, small_net

import grapeshot
from grapeshot import Specs

MLP = DIGITS / "mlp.onnx"
SPEC = DIGITS / "vnnlib" / "mlp_top1_0_radius_0.18.vnnlib"
ROBUST = DIGITS / "vnnlib" / "mlp_top1_4_radius_0.08.vnnlib"
BUDGET = {"seed": 7, "candidates": 3000, "threads": 1}


def files_of(run):
    """input.npy of every finding by its id."""
    return {p.parent.name: p.read_bytes() for p in pathlib.Path(run).glob("findings/*/input.npy")}


def test_findings_are_those_of_the_program_byte_for_byte(tmp_path, digits):
    np.save(tmp_path / "x.npy", digits[0])
    np.save(tmp_path / "y.npy", digits[1])
    data = ("--data", tmp_path / "x.npy", "--labels", tmp_path / "y.npy", "--eps", 0.15)
    flags = [f"--{k}={v}" for k, v in BUDGET.items()]
    done = program("fuzz", MLP, *data, *flags, "--out", tmp_path / "a", "--json")
    result = grapeshot.fuzz(MLP, Specs.from_arrays(*digits, eps=0.15), out=tmp_path / "b", **BUDGET)
    theirs = json.loads(done.stdout)
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b") and len(result) > 0
    same = ("instances", "instances_falsified", "candidates", "inputs_checked", "violations", "findings")
    assert {k: theirs[k] for k in same} == {k: result.summary[k] for k in same}
    assert theirs.keys() == result.summary.keys()
    assert json.loads((tmp_path / "b" / "summary.json").read_text()).keys() == theirs.keys()


def test_vnnlib_files_and_no_folder(tmp_path):
    before = set(pathlib.Path(tempfile.gettempdir()).glob("grapeshot-*"))
    result = grapeshot.fuzz(MLP, [SPEC, ROBUST], **BUDGET)
    assert result.summary["instances"] == 2 and result.summary["findings"] == [f.id for f in result]
    assert result.folder is None and result.summary["out"] is None
    assert result.replay()["confirmed"] == len(result) > 0
    del result
    assert set(pathlib.Path(tempfile.gettempdir()).glob("grapeshot-*")) == before


def test_findings_share_memory_and_violate(net, x, y):
    model = grapeshot.Model(net, shape=8)
    result = grapeshot.fuzz(model, Specs.from_arrays(x, y, eps=0.4), **BUDGET)
    assert len(result) > 0
    for finding in result:
        array = finding.x.numpy()
        assert array.ctypes.data == finding.x.data_ptr() == finding.x.numpy().ctypes.data
        assert finding.x.shape == (8,) and finding.x.dtype == torch.float32
        assert net(finding.x[None]).argmax().item() != y[finding.row]
        assert (finding.x - x[finding.row]).abs().max() <= 0.4 + 1e-6
    assert result.x.shape == (len(result), 8)
    assert (model(result.x).argmax(1) == net(result.x).argmax(1)).all()


def test_records_are_flat(net, x, y):
    result = grapeshot.fuzz(net, Specs.from_arrays(x, y, eps=0.4), **BUDGET)
    records = result.records()
    assert len(records) == len(result)
    for record, finding in zip(records, result, strict=True):
        assert record["id"] == finding.id and record["instance_name"] == f"x.npy[{finding.row}]"
        assert record["predicted"] != y[finding.row] and 0 < record["linf"] <= 0.4 + 1e-6
        assert all(v is None or isinstance(v, (str, int, float)) for v in record.values())


def test_a_modules_findings_are_replayed_by_the_program(net, x, y, tmp_path):
    result = grapeshot.fuzz(net, Specs.from_arrays(x, y, eps=0.4), out=tmp_path / "run", **BUDGET)
    assert result.folder == tmp_path / "run" and (tmp_path / "run/inputs/model.onnx").exists()
    done = program("replay", tmp_path / "run")
    assert done.stdout.endswith(f"{len(result)} of {len(result)} findings confirmed\n")
    assert program("resume", tmp_path / "run", "--candidates", 4000).returncode == 1


def test_an_earlier_run_is_kept(net, x, y, tmp_path):
    grapeshot.fuzz(net, Specs.from_arrays(x, y, eps=0.4), out=tmp_path / "run", **BUDGET)
    before = (tmp_path / "run/inputs/model.onnx").read_bytes()
    with pytest.raises(grapeshot.InvalidArgument, match="holds an earlier run"):
        grapeshot.fuzz(small_net(1), Specs.from_arrays(x, y, eps=0.4), out=tmp_path / "run")
    assert (tmp_path / "run/inputs/model.onnx").read_bytes() == before


def test_a_function_is_broken_as_its_module_is(net, x, y):
    specs = Specs.from_arrays(x, y, eps=0.4)
    module = grapeshot.fuzz(net, specs, **BUDGET)
    function = grapeshot.fuzz(lambda batch: net(batch), specs, seed=7, candidates=20_000)
    broken = {f.instance for f in module}
    assert broken <= {f.instance for f in function}
    for finding in function:
        assert net(finding.x[None]).argmax().item() != y[finding.row]


def test_a_functions_findings_are_replayed_from_python(net, x, y, tmp_path):
    model = grapeshot.Model(lambda batch: net(batch), shape=8, name="f")
    result = grapeshot.fuzz(model, Specs.from_arrays(x, y, eps=0.4), out=tmp_path / "run", candidates=5000)
    again = grapeshot.replay(tmp_path / "run", model)
    assert again["confirmed"] == again["findings"] == len(result) > 0
    other = grapeshot.Model(lambda batch: -net(batch), shape=8, name="g")
    assert grapeshot.replay(tmp_path / "run", other)["confirmed"] < len(result)


def test_a_function_without_gradient_is_said_once_and_broken(net, x, y):
    def by_numpy(batch):
        with torch.no_grad():
            return net(batch).numpy()

    model = grapeshot.Model(by_numpy, shape=8)
    specs = Specs.from_arrays(x, y, eps=0.8)
    with pytest.warns(grapeshot.GrapeshotWarning, match="no gradient passes through it") as caught:
        result = grapeshot.fuzz(model, specs, candidates=4000)
        grapeshot.fuzz(model, specs, candidates=100)
    assert len([c for c in caught if "no gradient" in str(c.message)]) == 1
    assert {f.mutation for f in result} <= {"boundary", "random", "flip"} and len(result) > 0


def test_what_a_function_does_in_a_campaign_is_said(net, x, y):
    calls = []

    def breaks_later(batch):
        calls.append(len(batch))
        if len(calls) > 6:
            raise OSError("the camera is off")
        return net(batch)

    model = grapeshot.Model(breaks_later, shape=8, name="camera")
    with pytest.raises(grapeshot.ModelError, match="'camera': raised OSError: the camera is off") as error:
        grapeshot.fuzz(model, Specs.from_arrays(x, y, eps=0.01), candidates=5000)
    assert isinstance(error.value.__cause__, OSError)


def test_a_batch_that_comes_back_shorter_is_said(net, x, y):
    model = grapeshot.Model(lambda batch: net(batch)[:40], shape=8)
    with pytest.raises(grapeshot.ModelError, match="the first axis has to be the rows"):
        grapeshot.fuzz(model, Specs.from_arrays(x, y, eps=0.01), candidates=5000, batch=64)


def test_constraints_and_margins(net):
    lo, hi = torch.zeros(2, 8), torch.ones(2, 8)
    A, b = torch.tensor([[1.0, -1.0, 0.0], [0.5, 0.0, -2.0]]), torch.tensor([0.0, 3.0])
    result = grapeshot.fuzz(net, Specs.from_constraints(lo, hi, A, b), candidates=20_000)
    assert {f.instance for f in result} == {0, 1}
    for finding in result:
        y = net(finding.x[None]).detach()[0]
        assert (A @ y <= b + 1e-5).all() and (finding.x >= 0).all() and (finding.x <= 1).all()

    def smoothness(x, y):
        return 0.2 - (y[:, 0] - y[:, 1]).abs() + 0 * x.sum(1)

    result = grapeshot.fuzz(net, Specs.from_margin(lo, hi, smoothness), candidates=20_000)
    assert len(result) == 2


def test_labels_out_of_range_are_said_in_the_callers_words(net, x):
    with pytest.raises(grapeshot.InvalidArgument, match="^y: 3 is not a label from 0 to 2, nor -1"):
        grapeshot.fuzz(net, Specs.from_arrays(x, [0, 1, 2, 3, 0, 0], eps=0.1))
    with pytest.raises(grapeshot.InvalidArgument, match="^x: 48 values in 6 rows; .* 64 inputs a row"):
        grapeshot.fuzz(MLP, Specs.from_arrays(x, eps=0.1))


@pytest.mark.parametrize("specs", [3, None, [1], {"x": 1}])
def test_what_are_no_specifications_is_said(specs):
    with pytest.raises(grapeshot.InvalidArgument, match="is neither Specs nor the path of a file"):
        grapeshot.fuzz(MLP, specs)


def test_progress_is_told_and_may_end_it(net, x, y):
    lines = []
    specs = Specs.from_arrays(x, y, eps=0.001)
    grapeshot.fuzz(net, specs, seconds=1.0, progress=lines.append)
    assert len(lines) >= 2 and lines[-1]["candidates"] > 0 and "best_margin" in lines[-1]

    def stop(line):
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        grapeshot.fuzz(net, specs, seconds=60, progress=stop)


def test_progress_takes_a_bar(net, x, y):
    class Bar:  # what is used of tqdm
        n, told = 0, None

        def update(self, by):
            self.n += by

        def set_postfix(self, **told):
            self.told = told

    bar = Bar()
    result = grapeshot.fuzz(net, Specs.from_arrays(x, y, eps=0.4), seconds=1, keep_going=True, progress=bar)
    assert bar.n == result.summary["instances_falsified"] and bar.told["candidates"] > 0
    with pytest.raises(grapeshot.InvalidArgument, match="progress: a int is neither a function nor"):
        grapeshot.fuzz(net, Specs.from_arrays(x, y, eps=0.4), progress=3)


def test_threads_of_torch_stay_as_they_were(net, x, y):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        grapeshot.fuzz(net, Specs.from_arrays(x, y, eps=0.4), **BUDGET)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_campaigns_side_by_side_find_what_they_find_alone(net, x, y):
    model = grapeshot.Model(net, shape=8)
    specs = Specs.from_arrays(x, y, eps=0.4)
    alone = grapeshot.fuzz(model, specs, **BUDGET)
    found = [None] * 3

    def run(i):
        found[i] = grapeshot.fuzz(model, specs, **BUDGET)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all([f.id for f in each] == [f.id for f in alone] for each in found)


def test_python_goes_on_meanwhile(net, x, y):
    turns, done = 0, threading.Event()

    def run():
        grapeshot.fuzz(net, Specs.from_arrays(x, y, eps=0.001), seconds=1.0)
        done.set()

    thread = threading.Thread(target=run)
    thread.start()
    while not done.wait(0.001):
        turns += 1
    thread.join()
    assert turns > 50
