"""`fuzz` while it runs and after: interruption, findings on disk, repeatability, options."""

import json
import signal
import time

import pytest
from program import (
    BREAKABLE,
    DIGITS,
    INSTANCES,
    MLP,
    ROBUST,
    grapeshot,
    grapeshot_json,
    needs_program,
    start,
    tree,
)

np = pytest.importorskip("numpy")

pytestmark = needs_program

SUMMARY_KEYS = set(
    "command model instances instances_falsified candidates candidates_per_s inputs_checked "
    "inputs_checked_per_s violations distinct_violations ttfv_s ttfv_s_per_instance coverage "
    "corpus_size seconds start_up_s mfu peak_rss_mib seed findings".split()
)


def summary_of(out):
    return json.loads((out / "summary.json").read_text())


def options_of(out):
    return json.loads((out / "run.json").read_text())["options"]


def finding_folders(out):
    folder = out / "findings"
    return (
        sorted(p for p in folder.glob("*") if not p.name.startswith(".")) if folder.exists() else []
    )


def wait_for(condition, process, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)


# --- interruption ---------------------------------------------------------------------------------


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("found", [True, False])
def test_a_signal_ends_a_run_cleanly(which, found, tmp_path):
    out = tmp_path / "run"
    files = ["--instances", INSTANCES] if found else [MLP, ROBUST]
    process = start("fuzz", *files, "--seconds", 300, "--out", out)
    if found:
        wait_for(lambda: len(finding_folders(out)) > 0, process)
    else:
        wait_for(lambda: (out / "run.json").exists(), process)
        time.sleep(0.5)
    sent = time.monotonic()
    process.send_signal(which)
    stdout, stderr = process.communicate(timeout=30)
    assert time.monotonic() - sent < 2
    assert process.returncode == (1 if found else 0), stderr
    summary = summary_of(out)
    assert summary.keys() >= SUMMARY_KEYS
    assert summary["interrupted"] and summary["seconds"] < 60
    assert (summary["instances_falsified"] > 0) == found
    assert sorted(summary["findings"]) == [p.name for p in finding_folders(out)]
    assert len((out / "instances.csv").read_text().splitlines()) == summary["instances"] + 1
    assert f"{summary['instances_falsified']} of {summary['instances']} instances broken" in stdout
    grapeshot("replay", out, status=0)


def test_a_signal_before_the_first_step(tmp_path):
    """However early it comes: either no run folder, or a complete one."""
    for delay in (0.05, 0.2, 0.3, 0.4, 0.5, 0.7):
        out = tmp_path / f"run-{delay}"
        process = start("fuzz", MLP, ROBUST, "--seconds", 300, "--out", out)
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        if out.exists():
            assert process.returncode == 0, delay
            assert summary_of(out)["interrupted"], delay
        else:
            assert process.returncode == -signal.SIGINT


# --- findings on disk -----------------------------------------------------------------------------


def test_a_finding_is_on_disk_within_a_second(tmp_path):
    out = tmp_path / "run"
    process = start("fuzz", "--instances", INSTANCES, "--seconds", 6, "--out", out, "--quiet")
    wait_for(lambda: len(finding_folders(out)) > 0, process)
    early = {p.name: tree(p) for p in finding_folders(out)}
    assert all(
        {"finding.json", "input.npy", "original.npy"} <= set(files) for files in early.values()
    )
    process.communicate(timeout=60)
    assert process.returncode == 1
    summary = summary_of(out)
    assert 0 < len(early) < len(summary["findings"]), (
        "all findings came at once; nothing was tested"
    )
    assert all(tree(out / "findings" / name) == files for name, files in early.items())
    # instances.csv is written as soon as the campaign is over.
    began = (out / "instances.csv").stat().st_mtime - summary["seconds"]
    found = {int(i): began + s for i, s in summary["ttfv_s_per_instance"].items()}
    for folder in finding_folders(out):
        written = (folder / "finding.json").stat().st_mtime
        instance = json.loads((folder / "finding.json").read_text())["instance"]
        assert -0.5 < written - found[instance] < 1


def test_progress_is_written_while_a_run_goes_on(tmp_path):
    out = tmp_path / "run"
    process = start("fuzz", MLP, ROBUST, "--seconds", 4, "--out", out)
    wait_for(
        lambda: (out / "stats.jsonl").exists() and (out / "stats.jsonl").stat().st_size, process
    )
    _, stderr = process.communicate(timeout=60)
    lines = [json.loads(line) for line in (out / "stats.jsonl").read_text().splitlines()]
    assert len(lines) >= 3
    assert all(a["candidates"] <= b["candidates"] for a, b in zip(lines, lines[1:]))
    assert "0 broken, 1 left" in stderr and "inputs/s" in stderr and "best margin" in stderr
    near = np.load(out / "near" / "0.npy")
    assert near.size == 64 and np.isfinite(near).all()


# --- same seed, same findings ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("candidates", "extra"),
    [(20000, []), (4000, ["--mode", "batch-ani"])],
    ids=["default", "batch-ani"],
)
def test_the_same_seed_finds_the_same_bytes(candidates, extra, tmp_path):
    found = []
    for i in range(2):
        out = tmp_path / f"run{i}"
        args = ["--candidates", candidates, "--threads", 1, "--seed", 7, "--out", out, "--quiet"]
        grapeshot("fuzz", "--instances", INSTANCES, *args, *extra, status=1)
        found.append(tree(out / "findings"))
    assert found[0] == found[1] and len(found[0]) >= 3
    summaries = [summary_of(tmp_path / f"run{i}") for i in range(2)]
    for key in ("candidates", "inputs_checked", "violations", "distinct_violations", "coverage"):
        assert summaries[0][key] == summaries[1][key], key


def test_another_seed_finds_other_bytes(tmp_path):
    found = []
    for seed in (1, 2):
        out = tmp_path / f"run{seed}"
        args = ["--candidates", 5000, "--threads", 1, "--seed", seed, "--out", out, "--quiet"]
        grapeshot("fuzz", DIGITS / "bnn.onnx", *specs("bnn"), *args)
        found.append(tree(out / "findings"))
    assert found[0] != found[1]


def specs(model):
    return sorted((DIGITS / "vnnlib").glob(f"{model}_*.vnnlib"))


# --- options --------------------------------------------------------------------------------------

FEW = ["--candidates", 500, "--threads", 1, "--quiet"]


def options(tmp_path, *args):
    """The options that a short run with `args` ends up with."""
    out = tmp_path / f"run-{len(list(tmp_path.iterdir()))}"
    grapeshot("fuzz", MLP, ROBUST, *FEW, "--out", out, *args, status=0)
    return options_of(out)


def test_a_run_can_be_repeated_from_its_run_json(tmp_path):
    flags = ["--seed", 11, "--candidates", 3000, "--threads", 1, "--steps", 5, "--keep-going"]
    flags += ["--weights", "descent=.5,flip=.5", "--batch", 64, "--tau", ".25"]
    files = ["fuzz", "--instances", INSTANCES, "--quiet"]
    first = grapeshot_json(*files, *flags, "--out", tmp_path / "first")
    second = grapeshot_json(
        *files, "--config", tmp_path / "first" / "run.json", "--out", tmp_path / "second"
    )
    assert options_of(tmp_path / "first") == options_of(tmp_path / "second")
    assert options_of(tmp_path / "second")["steps"] == 5
    assert tree(tmp_path / "first" / "findings") == tree(tmp_path / "second" / "findings")
    assert first["candidates"] == second["candidates"]


def test_a_mode_is_a_preset_that_flags_override(tmp_path):
    iso = options(tmp_path, "--mode", "batch-iso")
    assert (iso["schedule"], iso["mutations"], iso["scale"]) == ("paper", "paper", "iso")
    ani = options(tmp_path, "--mode", "batch-ani", "--schedule", "fair", "--steps", 3)
    assert (ani["schedule"], ani["mutations"], ani["scale"]) == ("fair", "paper", "ani")
    assert ani["steps"] == 3
    before = options(tmp_path, "--scale", "fixed", "--mode", "batch-ani")
    assert before["scale"] == "fixed", "a flag in front of the mode overrides it too"
    one = options(tmp_path, "--mode", "seq-fixed", "--seconds-per-instance", 1)
    assert (one["batch"], one["scale"], one["seconds-per-instance"]) == ("1", "fixed", 1)


def test_defaults_file_mode_and_flags_in_this_order(tmp_path):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"steps": 4, "eta": 0.5, "mode": "batch-iso", "batch": 32}))
    got = options(tmp_path, "--config", config, "--eta", 0.25)
    assert (got["steps"], got["eta"], got["scale"], got["batch"]) == (4, 0.25, "iso", "32")
    got = options(tmp_path, "--config", config, "--mode", "batch-ani")
    assert (got["steps"], got["scale"]) == (4, "ani")


def test_summary_on_stdout_and_on_disk_are_the_same(tmp_path):
    out = tmp_path / "run"
    printed = grapeshot_json("fuzz", MLP, BREAKABLE, "--seconds", 10, "--out", out, status=1)
    assert printed == summary_of(out)
    assert printed.keys() >= SUMMARY_KEYS
    assert printed["instances_falsified"] == printed["instances"] == 1
    assert printed["inputs_checked"] > printed["candidates"] > 0
    assert printed["seconds"] < 9, "a run ends when every instance is broken"
    run = json.loads((out / "run.json").read_text())
    assert run["models"][0]["path"] == str(MLP) and len(run["models"][0]["sha256"]) == 64
    assert run["machine"]["libtorch"]


def test_quiet_is_quiet(tmp_path):
    done = grapeshot("fuzz", MLP, ROBUST, *FEW, "--out", tmp_path / "run", status=0)
    assert done.stderr == ""


def test_a_run_without_out_makes_a_folder_of_its_own(tmp_path):
    for _ in range(2):
        grapeshot("fuzz", MLP, ROBUST, *FEW, cwd=tmp_path, status=0)
    folders = list((tmp_path / "grapeshot-out").iterdir())
    assert len(folders) == 2 and all(p.name.endswith(("-mlp", "-mlp-2")) for p in folders)


def test_seconds_per_instance_takes_one_instance_after_the_other(tmp_path):
    args = ["--mode", "seq-fixed", "--seconds-per-instance", 0.5, "--quiet", "--threads", 1]
    summary = grapeshot_json(
        "fuzz", MLP, ROBUST, ROBUST, *args, "--out", tmp_path / "run", status=0
    )
    assert summary["instances"] == 2 and 0.9 < summary["seconds"] < 3
