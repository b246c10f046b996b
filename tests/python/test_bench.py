"""The measurements run, on the shipped networks and for a moment only."""

import subprocess
import sys

import pytest
from conftest import ROOT
from program import needs_program

sys.path.insert(0, str(ROOT / "bench"))
import common
import instances
import throughput

EXAMPLES = ["mlp", "cnn_bn", "bnn", "resnet", "attention"]
NOWHERE = ROOT / "build" / "no-such-folder"


@pytest.fixture(autouse=True)
def runs_elsewhere(monkeypatch, tmp_path):
    monkeypatch.setattr(common, "RUNS", tmp_path)


def test_an_unknown_measurement_is_an_error_that_names_the_known_ones():
    command = [sys.executable, ROOT / "bench" / "run.py", "nonsense"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "nonsense" in done.stderr and "throughput" in done.stderr


def test_a_table_is_markdown():
    made = common.table(["network", "ratio"], [["30x30", 1.5]])
    assert made.splitlines() == ["| network | ratio |", "| --- | ---: |", "| 30x30 | 1.5 |"]


@needs_program
def test_throughput_without_the_peer_measures_the_shipped_networks(monkeypatch):
    monkeypatch.setattr(throughput, "FAMILY", NOWHERE)
    results = throughput.run(0.2, 1)
    assert [row["network"] for row in results["medians"]] == EXAMPLES
    assert all(float(row["grapeshot"]) > 0 for row in results["medians"])
    commands = [run["command"] for run in results["runs"]]
    assert all("--steps 10 --batch 15 --threads 1" in command for command in commands)


@needs_program
def test_campaigns_without_the_benchmarks_run_on_the_shipped_networks(monkeypatch):
    monkeypatch.setattr(common, "SHARED", NOWHERE)
    results = instances.run(1.0, 1)
    assert [run["mode"] for run in results["runs"]] == ["default", "batch-ani"]
    assert all(0 < run["instances_falsified"] <= 30 for run in results["runs"])
    assert results["wrong"] == 0
