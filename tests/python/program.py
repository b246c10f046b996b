"""Runs the grapeshot program for tests."""

import json
import os
import pathlib
import signal
import subprocess

import pytest
from conftest import ROOT

PROGRAM = (
    pathlib.Path(os.environ.get("GRAPESHOT_BUILD", ROOT / "build/release")).resolve() / "grapeshot"
)
DIGITS = ROOT / "examples" / "digits"
INSTANCES = DIGITS / "instances.csv"
MLP = DIGITS / "mlp.onnx"
BREAKABLE = DIGITS / "vnnlib" / "mlp_top1_0_radius_0.18.vnnlib"
ROBUST = DIGITS / "vnnlib" / "mlp_top1_4_radius_0.08.vnnlib"

needs_program = pytest.mark.skipif(
    not PROGRAM.exists(), reason="the program is not built; GRAPESHOT_BUILD names the build folder"
)


def start(*args, cwd=None):
    """The program in the background, its output as text in pipes; it hears SIGINT also where the tests
    themselves run in the background."""
    return subprocess.Popen(
        [PROGRAM, *map(str, args)],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def grapeshot(*args, status=None, cwd=None, timeout=120):
    """Runs the program to its end; checks its exit status when one is given."""
    done = subprocess.run(
        [PROGRAM, *map(str, args)],
        cwd=cwd,
        timeout=timeout,
        capture_output=True,
        text=True,
    )
    if status is not None:
        assert done.returncode == status, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def grapeshot_json(*args, status=None, **rest):
    """The one object that the program prints with --json."""
    return json.loads(grapeshot(*args, "--json", status=status, **rest).stdout)


def tree(folder):
    """Every file below `folder` with its bytes."""
    folder = pathlib.Path(folder)
    return {
        str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()
    }
