"""Malformed ONNX files: exit status 2 and one sentence that names the place, soon."""

import os
import re
import resource
import subprocess
import tempfile

import numpy as np
import pytest
from bad_models import BAD
from case_tools import ints, net, node, to_int
from program import PROGRAM, grapeshot, needs_program

pytestmark = needs_program

MOST_SECONDS = 5
MOST_BYTES = 1 << 30
LIMIT = 4 << 30  # what a run may ask for, so that a bad one does not starve the machine


def limit_memory():
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))


def doctor(path):
    """(exit status, what it said, seconds of processor time, most bytes held) of one run."""
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            [PROGRAM, "doctor", str(path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            preexec_fn=limit_memory,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        seconds = usage.ru_utime + usage.ru_stime
        return process.returncode, said.read(), seconds, usage.ru_maxrss * 1024


@pytest.mark.parametrize("name", BAD)
def test_a_malformed_model_is_refused_in_one_sentence(name, tmp_path):
    write, words = BAD[name]
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / f"{name}.onnx"
    write(path) if callable(write) else path.write_bytes(write)
    status, said, seconds, held = doctor(path)
    assert status == 2, f"exit {status}\n{said}"
    assert said.count("\n") == 1, said
    assert f"{name}.onnx" in said
    missing = [word for word in words if not re.search(word, said)]
    assert not missing, f"{missing} not in: {said}"
    assert seconds < MOST_SECONDS and held < MOST_BYTES, f"{seconds} s, {held >> 20} MiB"


def test_rows_whose_outputs_differ_in_size_are_refused(tmp_path):
    nodes = [
        to_int("x", "s"),
        node("Abs", "s", "t"),
        node("Add", "t o", "u"),
        node("Expand", "x u"),
    ]
    (tmp_path / "grows.onnx").write_bytes(net(nodes, (1,), {"o": ints(1)}))
    np.save(tmp_path / "x.npy", np.float32([[1], [3]]))
    args = ["run", "grows.onnx", "--data", "x.npy", "--out", "y.npy"]
    said = grapeshot(*args, cwd=tmp_path, status=2).stderr
    assert "grows.onnx" in said and "depends on the input" in said and said.count("\n") == 1
    assert not (tmp_path / "y.npy").exists()
