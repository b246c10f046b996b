"""Ctrl-C: the first ends a campaign in order, whatever is left goes on."""

import signal
import subprocess
import sys
import threading
import time

import pytest
import torch
from conftest import BUILD, small_net

import grapeshot
from grapeshot import Specs


def later(seconds):
    """Ctrl-C after a while."""
    timer = threading.Timer(seconds, signal.raise_signal, [signal.SIGINT])
    timer.start()
    return timer


@pytest.mark.parametrize("kind", ["module", "function"])
def test_ctrl_c_ends_a_campaign_with_what_there_is(kind):
    net = small_net()
    model = net if kind == "module" else lambda x: net(x)
    x = torch.rand(2, 8)
    timer = later(1.0)
    began = time.monotonic()
    result = grapeshot.fuzz(model, Specs.from_arrays(x, eps=1e-6), seconds=60)
    timer.join()
    assert time.monotonic() - began < 20
    assert result.interrupted and result.summary["candidates"] > 0


def test_another_handlers_exception_reaches_the_caller():
    class Alarm(Exception):
        pass

    def ring(*_):
        raise Alarm

    before = signal.signal(signal.SIGINT, ring)
    try:
        timer = later(0.5)
        with pytest.raises(Alarm):
            grapeshot.fuzz(small_net(), Specs.from_arrays(torch.rand(2, 8), eps=1e-6), seconds=60)
        timer.join()
    finally:
        signal.signal(signal.SIGINT, before)


SCRIPT = """
import sys, torch
import grapeshot
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 3)).eval()
print("ready", flush=True)
def told(line):
    print("line", flush=True)
result = grapeshot.fuzz(net, grapeshot.Specs.from_arrays(torch.rand(2, 8), eps=1e-6), seconds=60,
                        out=sys.argv[1], progress=told)
print("interrupted", result.interrupted, flush=True)
"""


def test_a_script_ends_in_order_and_its_run_can_be_resumed(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, tmp_path / "run"],
        stdout=subprocess.PIPE,
        text=True,
        env={**__import__("os").environ, "PYTHONPATH": str(BUILD / "python")},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    for line in process.stdout:
        if line == "line\n":
            process.send_signal(signal.SIGINT)
            break
    rest = process.stdout.read()
    assert process.wait(60) == 0 and rest.endswith("interrupted True\n")
    assert (tmp_path / "run" / "summary.json").exists()
    assert (tmp_path / "run" / "checkpoint" / "state.pt").exists()
