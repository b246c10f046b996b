"""The small tools around the program."""

import json
import subprocess
import sys

import numpy as np
from conftest import ROOT

DIGITS = ROOT / "examples" / "digits"


def test_show_digit_draws_a_finding_and_says_how_to_replay_it(tmp_path):
    pictures = np.load(DIGITS / "data" / "X.npy")
    finding = tmp_path / "findings" / "0001"
    finding.mkdir(parents=True)
    np.save(finding / "original.npy", pictures[0])
    np.save(finding / "input.npy", pictures[1])
    about = {"model": str(DIGITS / "bnn.onnx"), "spec": "some.vnnlib", "margin": -0.25}
    (finding / "finding.json").write_text(json.dumps(about))
    summary = {"instances": 24, "instances_falsified": 1, "seconds": 1.5, "inputs_checked": 10}
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    command = [sys.executable, ROOT / "tools" / "show_digit.py", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "1 of 24 instances broken" in done.stdout
    label = np.load(DIGITS / "data" / "y.npy")
    assert f"original: a {label[0]}" in done.stdout and f"changed: a {label[1]}" in done.stdout
    assert f"replay {finding}" in done.stdout


def test_show_digit_without_findings_says_so(tmp_path):
    command = [sys.executable, ROOT / "tools" / "show_digit.py", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "no findings" in done.stderr


def test_dev_lists_its_commands_and_rejects_others():
    help_text = subprocess.run([ROOT / "dev", "help"], capture_output=True, text=True)
    assert help_text.returncode == 0
    for command in ("demo", "test", "build", "bench", "parity", "format", "lint", "clean"):
        assert f"\n  {command}" in help_text.stdout
    wrong = subprocess.run([ROOT / "dev", "nonsense"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "usage:" in wrong.stderr
