"""Campaigns that end before their time and go on, from the outside."""

import json
import random
import signal
import time

import pytest
from program import DIGITS, INSTANCES, MLP, BREAKABLE, ROBUST, grapeshot, grapeshot_json, needs_program, start, tree

pytestmark = needs_program

BUDGET = ("--candidates", 60000, "--threads", 1, "--seed", 5)


def fuzz(out, *rest):
    return ("fuzz", "--instances", INSTANCES, "--out", out, *rest)


def kill_after(seconds, *args):
    """Starts it and ends it the hard way; whether it was still at work."""
    process = start(*args, "--quiet")
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return process.returncode == -signal.SIGKILL


def test_killed_at_twenty_random_moments_it_ends_as_if_never_killed(tmp_path):
    grapeshot(*fuzz(tmp_path / "whole", *BUDGET), status=1)
    whole = grapeshot_json("replay", tmp_path / "whole", status=0)
    generator = random.Random(3)
    out = tmp_path / "cut"
    args, kills, seen = fuzz(out, *BUDGET, "--checkpoint", 0.05), 0, set()
    while kills < 20:
        # Once it has begun; the last ones may come after its end.
        kills += kill_after(0.35 + 0.25 * generator.random(), *args)
        if not (out / "run.json").exists():
            continue
        args = ("resume", out)
        now = {p.name for p in (out / "findings").iterdir() if not p.name.startswith(".")}
        assert seen <= now, "a finding was lost"
        seen = now
        if (out / "summary.json").exists():
            break
    said = grapeshot_json("resume", out, status=1)
    assert kills >= 5
    assert tree(tmp_path / "whole" / "findings") == tree(out / "findings")
    before = json.loads((tmp_path / "whole" / "summary.json").read_text())
    for key in ("candidates", "inputs_checked", "violations", "distinct_violations", "findings",
                "instances_falsified", "coverage", "corpus_size"):
        assert said[key] == before[key], key
    again = grapeshot_json("replay", out, status=0)
    assert again["confirmed"] == whole["confirmed"]


def test_an_interrupted_run_goes_on_and_counts_its_time(tmp_path):
    out = tmp_path / "run"
    process = start("fuzz", MLP, ROBUST, "--out", out, "--seconds", 4, "--quiet")
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    first = json.loads((out / "summary.json").read_text())
    assert first["interrupted"] is True
    said = grapeshot_json("resume", out, status=0)
    assert said["candidates"] > first["candidates"]
    assert 3.9 < said["seconds"] < 5
    # Once it is over there is nothing left to do, unless it gets more.
    over = grapeshot_json("resume", out, status=0)
    assert over["candidates"] == said["candidates"]
    more = grapeshot_json("resume", out, "--seconds", 6, status=0)
    assert more["candidates"] > said["candidates"]


def test_two_processes_do_not_work_on_one_run(tmp_path):
    out = tmp_path / "run"
    process = start("fuzz", MLP, ROBUST, "--out", out, "--seconds", 20, "--quiet")
    while not (out / "run.json").exists():
        time.sleep(0.05)
    for args in (("resume", out), ("fuzz", MLP, ROBUST, "--out", out)):
        done = grapeshot(*args, status=2)
        assert "another process works on this run" in done.stderr
    process.send_signal(signal.SIGKILL)
    process.communicate()
    grapeshot("resume", out, "--seconds", 1, status=0)


def test_a_run_of_the_portfolio_goes_on(tmp_path):
    out = tmp_path / "run"
    args = ("fuzz", MLP, ROBUST, BREAKABLE, "--mutations", "portfolio", "--criterion", "none")
    first = grapeshot_json(*args, "--out", out, "--seconds", 1, status=1)
    said = grapeshot_json("resume", out, "--seconds", 2, status=1)
    assert said["inputs_checked"] > first["inputs_checked"]
    assert said["findings"] == first["findings"]


def test_a_run_on_data_goes_on(tmp_path):
    np = pytest.importorskip("numpy")
    x = tmp_path / "x.npy"
    np.save(x, np.full((3, 64), 0.5, np.float32))
    out = tmp_path / "run"
    grapeshot("fuzz", MLP, "--data", x, "--eps", 0.001, "--out", out, "--seconds", 0.5)
    grapeshot("resume", out, "--seconds", 1)
    np.save(x, np.full((3, 64), 0.4, np.float32))
    done = grapeshot("resume", out, "--seconds", 2, status=2)
    assert f"{x}: changed since the run began" in done.stderr


def test_what_cannot_go_on_says_why(tmp_path):
    done = grapeshot("resume", tmp_path / "none", status=2)
    assert "no run folder (no run.json in it)" in done.stderr
    model = tmp_path / "net.onnx"
    model.write_bytes(MLP.read_bytes())
    out = tmp_path / "run"
    grapeshot("fuzz", model, ROBUST, "--out", out, "--seconds", 0.5, status=0)
    state = out / "checkpoint" / "state.pt"
    whole = state.read_bytes()
    state.write_bytes(whole[: len(whole) // 2])
    done = grapeshot("resume", out, "--seconds", 1, status=2)
    assert f"{state}: it is damaged, or no checkpoint at all" in done.stderr
    state.unlink()
    done = grapeshot("resume", out, "--seconds", 1, status=0)
    assert "no checkpoint yet, beginning again" in done.stderr
    model.write_bytes((DIGITS / "resnet.onnx").read_bytes())
    done = grapeshot("resume", out, "--seconds", 2, status=2)
    assert f"{model}: changed since the run began" in done.stderr
