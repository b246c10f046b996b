"""The screen of a running campaign, in a terminal of tmux."""

import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import time

import pytest
from program import DIGITS, INSTANCES, MLP, PROGRAM, ROBUST, grapeshot, needs_program, start

pytestmark = [
    needs_program,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]

CAMPAIGN = ("fuzz", "--instances", INSTANCES, "--seconds", 60, "--keep-going", "--threads", 1)


class Terminal:
    """A shell in a window of a tmux server of its own."""

    def __init__(self, folder, columns, rows):
        self.socket = folder / "tmux"
        environment = {k: v for k, v in os.environ.items() if k not in ("TMUX", "NO_COLOR", "LC_ALL", "LC_CTYPE")}
        environment |= {"LANG": "C.UTF-8", "SHELL": "/bin/sh", "PS1": "$ "}
        self("-f", "/dev/null", "new-session", "-d", "-x", columns, "-y", rows, "sh", env=environment)

    def __call__(self, *args, env=None):
        command = ["tmux", "-u", "-S", self.socket, *map(str, args)]
        return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout

    def type(self, *keys):
        self("send-keys", *keys)

    def run(self, *args, before=""):
        self.type(f"{before} {shlex.join(map(str, [PROGRAM, *args]))}; echo status=$?", "Enter")

    def text(self, *options):
        return self("capture-pane", "-p", *options)

    def wait(self, *wanted, seconds=60, then=None):
        """The text once it has all that is wanted, regular expressions."""
        end = time.monotonic() + seconds
        while True:
            text = self.text()
            if all(re.search(each, text) for each in wanted) and (then is None or then()):
                return text
            assert time.monotonic() < end, f"{wanted} did not come:\n{text}"
            time.sleep(0.1)

    def mode(self):
        """Whether the alternate screen is on, the cursor is shown and lines wrap."""
        flags = self("display-message", "-p", "#{alternate_on} #{cursor_flag} #{wrap_flag}")
        return tuple(flag == "1" for flag in flags.split())


def process_of(out):
    """The process id of the program that writes the run folder."""
    for place in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes().split(b"\0")
        except OSError:  # it has just ended
            continue
        if words[0] == os.fsencode(PROGRAM) and os.fsencode(out) in words:
            return int(place.parent.name)
    raise AssertionError("the program does not run")


SANE, TAKEN = (False, True, True), (True, False, False)


@pytest.fixture
def terminal(tmp_path):
    opened = []

    def open_one(columns=80, rows=24):
        opened.append(Terminal(tmp_path, columns, rows))
        return opened[-1]

    yield open_one
    for each in opened:
        each("kill-server")


def test_every_block_is_on_the_screen_and_it_goes_with_ctrl_c(terminal, tmp_path):
    screen, out = terminal(), tmp_path / "run"
    screen.run(*CAMPAIGN, "--out", out)
    text = screen.wait(r"checked : [1-9]", r"\d+ broken", r"last found : \d", "mutations")
    for block in ("process timing", "overall results", "speed", "corpus and memory", "mutations",
                  "margins of those left", "coverage"):
        assert block in text
    assert screen.mode() == TAKEN
    lines = [line for line in text.splitlines() if line.startswith("│")]
    assert len(lines) >= 12 and all(len(line) == 80 and line.endswith("│") for line in lines)
    assert "\x1b[3" in screen.text("-e"), "no colours"
    screen.type("C-c")
    text = screen.wait(r"instances broken in", r"status=1")
    assert screen.mode() == SANE
    assert "process timing" not in text, "the screen is still there"
    summary = json.loads((out / "summary.json").read_text())
    assert summary["interrupted"] is True
    assert (out / "instances.csv").exists() and (out / "checkpoint" / "state.pt").exists()
    assert grapeshot("replay", out, "--quiet", status=0)


def test_it_follows_the_size_of_the_terminal(terminal, tmp_path):
    screen = terminal(80, 24)
    screen.run(*CAMPAIGN, "--out", tmp_path / "run")
    screen.wait("process timing", r"\d+ broken")
    screen("resize-window", "-x", 40, "-y", 12)
    text = screen.wait(r"run time  ", r"\d+ broken, \d+ left", r"checked  ")
    assert "process timing" not in text
    assert all(len(line) <= 40 for line in text.splitlines())
    screen("resize-window", "-x", 120, "-y", 40)
    screen.wait("process timing", "margins of those left")
    screen.type("C-c")
    screen.wait("status=1")
    assert screen.mode() == SANE


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGHUP", "SIGQUIT"])
def test_a_crash_gives_the_terminal_back(name, terminal, tmp_path):
    screen = terminal()
    screen.run(*CAMPAIGN, "--out", tmp_path / "run", before="ulimit -c 0;")
    screen.wait("process timing")
    os.kill(process_of(tmp_path / "run"), signal.Signals[name])
    screen.wait(r"status=1\d\d", then=lambda: screen.mode() == SANE)


def test_a_stopped_campaign_gives_the_terminal_back_for_the_time(terminal, tmp_path):
    screen = terminal()
    screen.run(*CAMPAIGN, "--out", tmp_path / "run")
    screen.wait("process timing")
    screen.type("C-z")
    screen.wait("[Ss]topped", then=lambda: screen.mode() == SANE)
    screen.type("fg", "Enter")
    screen.wait("process timing", then=lambda: screen.mode() == TAKEN)
    screen.type("C-c")
    screen.wait("instances broken in", then=lambda: screen.mode() == SANE)


def test_no_colours_no_screen_no_words(terminal, tmp_path):
    screen = terminal()
    screen.run(*CAMPAIGN, "--out", tmp_path / "a", before="NO_COLOR=1")
    screen.wait("process timing")
    assert "\x1b" not in screen.text("-e")
    screen.type("C-c")
    screen.wait("status=1")
    for name, before, *flags in (("b", "TERM=dumb"), ("c", "", "--no-screen")):
        screen.type("clear", "Enter")
        screen.run(*CAMPAIGN, "--out", tmp_path / name, *flags, before=before)
        text = screen.wait(r"\d+ broken, \d+ left")
        assert "process timing" not in text and screen.mode() == SANE
        screen.type("C-c")
        screen.wait("status=1")
    screen.type("clear", "Enter")
    screen.run(*CAMPAIGN[:3], "--seconds", 2, "--quiet", "--out", tmp_path / "d")
    text = screen.wait("status=1")
    assert " left " not in text


def test_where_there_is_no_terminal_it_is_lines(tmp_path):
    args = ("fuzz", MLP, ROBUST, "--seconds", 2)
    done = grapeshot(*args, "--out", tmp_path / "a", status=0)
    assert re.search(r"^ +1\.\d s  0 broken, 1 left  \d+ inputs/s  coverage [\d.]+ %  best margin",
                     done.stderr, re.MULTILINE)
    assert "\x1b" not in done.stderr and "\r" not in done.stderr
    refused = grapeshot(*args, "--out", tmp_path / "b", "--screen", status=2)
    assert "--screen: needs a terminal" in refused.stderr
    assert not (tmp_path / "b").exists()


def test_diff_has_it_too(terminal, tmp_path):
    screen = terminal()
    screen.run("diff", MLP, "--data", DIGITS / "data" / "X.npy", "--seconds", 60, "--keep-going", "--out", tmp_path / "run")
    screen.wait("grapeshot diff", r"images : \d+ broken", r"differences : [1-9]")
    screen.type("C-c")
    screen.wait("status=1", then=lambda: screen.mode() == SANE)


def test_status_watches_until_the_run_ends(terminal, tmp_path):
    screen, out = terminal(), tmp_path / "run"
    campaign = start("fuzz", MLP, ROBUST, "--seconds", 8, "--out", out, "--quiet")
    while not (out / "run.json").exists():
        time.sleep(0.05)
    screen.run("status", out, "--watch")
    text = screen.wait("process timing", r"\(running\)", then=lambda: screen.mode() == TAKEN)
    assert "mlp.onnx" in text
    screen.wait(r"\(ended\)", "status=0", then=lambda: screen.mode() == SANE)
    campaign.communicate()


def test_status_of_a_watched_run_ends_with_ctrl_c(terminal, tmp_path):
    screen, out = terminal(40, 12), tmp_path / "run"
    campaign = start("fuzz", MLP, ROBUST, "--seconds", 60, "--out", out, "--quiet")
    while not (out / "run.json").exists():
        time.sleep(0.05)
    screen.run("status", out, "--watch")
    screen.wait("run time", then=lambda: screen.mode() == TAKEN)
    screen.type("C-c")
    screen.wait("status=0", then=lambda: screen.mode() == SANE)
    assert campaign.poll() is None, "the campaign ended with it"
    campaign.kill()
    campaign.communicate()
