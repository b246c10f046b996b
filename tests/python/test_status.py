"""`grapeshot status`: how runs stand, from their folders."""

import json
import shutil
import signal
import time

import pytest
from program import BREAKABLE, INSTANCES, MLP, ROBUST, grapeshot, grapeshot_json, needs_program, start

pytestmark = needs_program


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """A run that has ended, with a finding."""
    out = tmp_path_factory.mktemp("runs") / "ended"
    grapeshot("fuzz", MLP, BREAKABLE, "--seconds", 20, "--out", out, status=1)
    return out


def running(out, *args):
    process = start("fuzz", *args, "--out", out, "--quiet")
    while not (out / "stats.jsonl").exists() or not (out / "stats.jsonl").read_text():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    return process


def test_it_says_what_the_summary_says(ended):
    summary = json.loads((ended / "summary.json").read_text())
    said = grapeshot_json("status", ended, status=1)
    assert said["state"] == "ended" and said["command"] == "fuzz"
    for key in ("instances", "instances_falsified", "candidates", "inputs_checked", "coverage", "mutations",
                "margins", "ttfv_s", "last_finding_s", "seconds"):
        assert said[key] == summary[key], key
    text = grapeshot("status", ended, status=1).stdout
    assert "(ended)" in text and "1 broken, 0 left" in text and "\x1b" not in text


def test_mutations_and_margins_add_up(tmp_path):
    summary = grapeshot_json("fuzz", "--instances", INSTANCES, "--candidates", 30000, "--keep-going",
                             "--out", tmp_path / "run", status=1)
    mutations = summary["mutations"].values()
    assert sum(m["candidates"] for m in mutations) == summary["candidates"]
    assert sum(m["findings"] for m in mutations) == len(summary["findings"])
    assert sum(m["share"] for m in mutations) == pytest.approx(1.0)
    assert all(m["findings"] <= m["hits"] <= summary["inputs_checked"] for m in mutations)
    assert sum(m["gains"] for m in mutations) > 0
    left = summary["instances"] - summary["instances_falsified"]
    assert sum(summary["margins"].values()) + summary["untried"] == left
    assert summary["ttfv_s"] <= summary["last_finding_s"] <= summary["seconds"]
    last = json.loads((tmp_path / "run" / "stats.jsonl").read_text().splitlines()[-1])
    assert last["mutations"].keys() == summary["mutations"].keys()
    # The same mutations count for findings in their own files.
    of = {name: m["findings"] for name, m in summary["mutations"].items() if m["findings"]}
    found = {}
    for place in (tmp_path / "run" / "findings").iterdir():
        name = json.loads((place / "finding.json").read_text())["mutation"]
        found[name] = found.get(name, 0) + 1
    assert of == found


def test_attacks_of_a_portfolio_count_too(tmp_path):
    summary = grapeshot_json("fuzz", MLP, BREAKABLE, "--mutations", "portfolio", "--seconds", 20,
                             "--out", tmp_path / "run", status=1)
    assert sum(m["candidates"] for m in summary["mutations"].values()) == summary["candidates"]
    assert sum(m["findings"] for m in summary["mutations"].values()) == 1


def test_running_interrupted_killed_and_resumed(tmp_path):
    out = tmp_path / "run"
    process = running(out, MLP, ROBUST, "--seconds", 60)
    said = grapeshot_json("status", out, status=0)
    assert said["state"] == "running" and said["instances"] == 1
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert grapeshot_json("status", out, status=0)["state"] == "interrupted"
    before = json.loads((out / "summary.json").read_text())["seconds"]
    process = start("resume", out, "--quiet")
    while json.loads((out / "stats.jsonl").read_text().splitlines()[-1])["seconds"] <= before:
        time.sleep(0.1)
    assert grapeshot_json("status", out, status=0)["state"] == "running"
    process.kill()
    process.communicate()
    said = grapeshot_json("status", out, status=0)
    assert said["state"] == "killed" and said["seconds"] > before


def test_looking_does_not_keep_others_from_resuming(tmp_path):
    out = tmp_path / "run"
    grapeshot("fuzz", MLP, ROBUST, "--candidates", 2000, "--out", out, status=0)
    watchers = [start("status", out) for _ in range(10)]
    grapeshot("resume", out, "--candidates", 4000, status=0)
    for each in watchers:
        each.communicate()


def test_several_runs_are_a_table(ended, tmp_path):
    killed = tmp_path / "killed"
    process = running(killed, MLP, ROBUST, "--seconds", 60)
    process.kill()
    process.communicate()
    text = grapeshot("status", ended, killed, status=1).stdout.splitlines()
    assert len(text) == 4 and text[0].startswith("run ")
    assert text[1].startswith("ended") and text[2].startswith("killed") and text[3].startswith("all 2")
    said = grapeshot_json("status", ended, killed, status=1)
    assert [run["state"] for run in said["runs"]] == ["ended", "killed"]
    assert said["totals"]["instances"] == 2 and said["totals"]["instances_falsified"] == 1
    # A folder of runs is all of them.
    assert len(grapeshot("status", ended.parent, tmp_path, status=1).stdout.splitlines()) == 4


def test_a_watch_without_a_terminal_is_lines(tmp_path):
    out = tmp_path / "run"
    process = running(out, MLP, ROBUST, "--seconds", 12)
    text = grapeshot("status", out, "--watch", status=0).stdout
    assert "run:  " in text and "1 left" in text and "(ended)" in text and "\x1b" not in text
    process.communicate()


def test_bad_input(ended, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(ended, broken)

    def refused(*args):
        said = grapeshot("status", *args, status=2).stderr
        assert len(said.splitlines()) == 1, said
        return said

    assert "no run folder" in refused(tmp_path / "nowhere")
    assert "no run folder" in refused(tmp_path / "broken" / "findings")
    assert "RUN" in refused()
    assert "--watch" in refused(ended, "--json", "--watch")
    for text in ("7", "{", '{"seconds": "x"}', '{"candidates": -1}', '{"coverage": 3}', "\0"):
        (broken / "stats.jsonl").write_text('{"seconds": 1}\n' + text + "\n")
        assert "stats.jsonl:2: " in refused(broken)
    (broken / "stats.jsonl").unlink()
    (broken / "summary.json").write_text("[]")
    assert "summary.json" in refused(broken)
    (broken / "summary.json").unlink()
    assert grapeshot_json("status", broken, status=0)["state"] == "killed"
    (broken / "run.json").write_text('{"command": "bench"}')
    assert "run.json: command: is not `fuzz` or `diff`" in refused(broken)
    (broken / "run.json").write_text("{")
    assert "run.json:1:2: not JSON" in refused(broken)
