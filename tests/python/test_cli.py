"""The commands from end to end: what they print, what they answer, how they exit."""

import json
import shutil
import subprocess
import sys

import pytest
from conftest import SHARED
from program import (
    BREAKABLE,
    DIGITS,
    INSTANCES,
    MLP,
    ROBUST,
    grapeshot,
    grapeshot_json,
    needs_program,
    tree,
)

np = pytest.importorskip("numpy")

pytestmark = needs_program

MODELS = ["mlp", "cnn_bn", "bnn", "resnet", "attention"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with findings on several models, and its summary."""
    out = tmp_path_factory.mktemp("cli") / "run"
    flags = ["--candidates", 20000, "--threads", 1, "--quiet", "--out", out]
    summary = grapeshot_json("fuzz", "--instances", INSTANCES, *flags, status=1)
    return out, summary


@pytest.fixture
def finding(run, tmp_path):
    """A copy of the run's first finding, with its finding.json."""
    folder = shutil.copytree(sorted((run[0] / "findings").iterdir())[0], tmp_path / "finding")
    return folder, json.loads((folder / "finding.json").read_text())


def commands():
    lines = grapeshot("list", "commands", status=0).stdout.splitlines()
    return [line.split()[0] for line in lines]


# --- help, list, version --------------------------------------------------------------------------


def test_every_command_has_help_with_examples():
    overview = grapeshot("--help", status=0).stdout
    assert len(commands()) >= 7
    for command in commands():
        assert f"  {command} " in overview
        done = grapeshot(command, "--help", status=0)
        assert f"Examples:\n  grapeshot {command}" in done.stdout and done.stderr == ""


def test_list_shows_every_row_of_every_family():
    families = grapeshot_json("list", status=0)["families"]
    names = [family["name"] for family in families]
    assert {"mutations", "scales", "criteria", "operators", "passes", "output-kinds"} < set(names)
    shown = grapeshot("list", status=0).stdout
    for family in families:
        assert family["name"] in shown and family["summary"] in shown
        rows = grapeshot_json("list", family["name"], status=0)[family["name"]]
        assert len(rows) == family["count"] > 0
        text = grapeshot("list", family["name"], status=0).stdout
        assert len(text.splitlines()) == len(rows)
        assert all(row["name"] in text and row["summary"] in text for row in rows)
    weights = {row["name"]: row for row in grapeshot_json("list", "mutations")["mutations"]}
    assert weights["gradient"]["paper_weight"] == 0.5
    assert [name for name, row in weights.items() if row["masks"]] == ["mask"]
    assert sum(r["default_weight"] for r in weights.values() if not r["masks"]) == pytest.approx(1)
    assert all(row["since"] >= 1 for row in grapeshot_json("list", "operators")["operators"])


def test_version_tells_about_the_machine():
    machine = grapeshot_json("version", status=0)
    assert machine["libtorch"][0].isdigit() and machine["cores"] >= 1
    assert "cpu" in machine["devices"]
    text = grapeshot("version", status=0).stdout
    assert machine["grapeshot"] in text and machine["processor"] in text


# --- run ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_run_gives_the_outputs_of_onnx_runtime(name, tmp_path):
    ort = pytest.importorskip("onnxruntime")
    path = DIGITS / f"{name}.onnx"
    x = np.random.default_rng(1).random((7, 64), dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    session = ort.InferenceSession(path)
    port = session.get_inputs()[0]
    shape = [size if isinstance(size, int) else 1 for size in port.shape]
    expected = [session.run(None, {port.name: row.reshape(shape)})[0].reshape(-1) for row in x]
    kinds = {
        "": np.float32,
        "--float64": np.float64,
        "--unlowered": np.float32,
        "--row-by-row": np.float32,
    }
    for flag, kind in kinds.items():
        args = ["run", path, "--data", "x.npy", "--out", "y.npy", *flag.split()]
        done = grapeshot(*args, cwd=tmp_path, status=0)
        assert done.stdout == "y.npy: 7 rows of 10 outputs\n"
        y = np.load(tmp_path / "y.npy")
        assert y.dtype == kind
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)


def test_run_takes_rows_of_any_inner_shape(tmp_path):
    x = np.random.default_rng(1).random((3, 64), dtype=np.float32)
    results = []
    for shape in [(3, 64), (3, 1, 8, 8), (3, 8, 8), (3, 4, 16)]:
        np.save(tmp_path / "x.npy", x.reshape(shape))
        grapeshot("run", MLP, "--data", "x.npy", "--out", "y.npy", cwd=tmp_path, status=0)
        results.append(np.load(tmp_path / "y.npy"))
    assert all((each == results[0]).all() for each in results)
    for rows, shape in [(1, (64,)), (1, (8, 8)), (0, (0, 64))]:
        np.save(tmp_path / "x.npy", x[:rows].reshape(shape))
        grapeshot("run", MLP, "--data", "x.npy", "--out", "y.npy", cwd=tmp_path, status=0)
        y = np.load(tmp_path / "y.npy")
        assert y.shape == (rows, 10)
        np.testing.assert_allclose(y, results[0][:rows], rtol=1e-5, atol=1e-5)


def test_run_gives_gradients_that_finite_differences_confirm(tmp_path):
    x = np.random.default_rng(2).random((2, 64))
    np.save(tmp_path / "x.npy", x)
    grapeshot(
        "run",
        MLP,
        "--data",
        "x.npy",
        "--gradient",
        "g.npy",
        "--output",
        3,
        "--float64",
        cwd=tmp_path,
        status=0,
    )
    gradient = np.load(tmp_path / "g.npy")
    assert gradient.shape == (2, 64) and gradient.dtype == np.float64
    steps = 1e-6 * np.eye(64)
    outputs = []
    for sign in (1, -1):
        np.save(tmp_path / "z.npy", (x[:, None] + sign * steps).reshape(-1, 64))
        grapeshot(
            "run", MLP, "--data", "z.npy", "--out", "y.npy", "--float64", cwd=tmp_path, status=0
        )
        outputs.append(np.load(tmp_path / "y.npy")[:, 3].reshape(2, 64))
    slope = (outputs[0] - outputs[1]) / 2e-6
    assert np.isclose(slope, gradient, rtol=1e-4, atol=1e-4).mean() > 0.95  # the rest is at kinks


# --- doctor ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_doctor_finds_the_examples_fine(name):
    path = DIGITS / f"{name}.onnx"
    report = grapeshot_json("doctor", path, status=0)
    assert report["holds"] and report["problems"] == []
    assert report["runs_as_one_batch"] and sum(report["operators"].values()) > 3
    assert report["macs_per_row"] > 0 and report["parameters"] > 1000
    assert report["gradient"]["nonfinite_rows"] == 0
    assert report["gradient"]["zero_rows"] < report["gradient"]["rows"] / 2
    assert report["surrogates"] == (name == "bnn") == report["logits"]
    if name != "bnn":
        assert report["derivative"]["slopes"] > 40 and report["derivative"]["difference"] < 1e-4
    text = grapeshot("doctor", path, status=0).stdout
    assert text.endswith("everything holds\n")


def test_doctor_examines_given_inputs(tmp_path):
    np.save(tmp_path / "x.npy", np.full((2, 64), np.nan, np.float32))
    report = grapeshot_json("doctor", MLP, "--data", "x.npy", cwd=tmp_path)
    assert report["rows_with_nonfinite_outputs"] == 2


# --- check ----------------------------------------------------------------------------------------


def text_of(x, values=repr):
    return "sat\n(" + "\n".join(f"(X_{i} {values(float(v))})" for i, v in enumerate(x)) + ")\n"


def tampered(x, lo, hi):
    """Witnesses by name: whether each holds, and what the answer says."""
    edge = int(np.flatnonzero(x == hi)[0])
    over, nan, infinite = x.copy(), x.copy(), x.copy()
    over[edge] = np.nextafter(over[edge], np.float32(9))
    nan[3], infinite[4] = np.nan, np.inf
    fine = x.astype(np.float64)
    fine[np.flatnonzero((x > lo) & (x < hi))[0]] += 1e-10
    pairs = text_of(x)
    return {
        "same.npy": (x, True, "margin"),
        "flat.npy": (x.reshape(1, 1, 8, 8), True, "margin"),
        "float64.npy": (x.astype(np.float64), True, "margin"),
        "same.txt": (pairs, True, "margin"),
        "no-sat.txt": (pairs[4:] + "; a comment\n", True, "margin"),
        "over.npy": (over, False, f"X_{edge} = "),
        "over.txt": (text_of(over), False, "is above its upper bound"),
        "nan.npy": (nan, False, "X_3 is NaN"),
        "nan.txt": (text_of(nan), False, "X_3 is NaN"),
        "infinite.npy": (infinite, False, "X_4 is infinite"),
        "short.npy": (x[:-1], False, "it has 63 inputs"),
        "short.txt": (text_of(x[:-1]), False, "it has 63 inputs"),
        "long.npy": (np.append(x, x[:1]), False, "it has 65 inputs"),
        "fine.npy": (fine, False, "is not a float32; the nearest is "),
        "rounded.txt": (
            text_of(x, lambda v: f"{v:.5f}"),
            False,
            "is not a float32; the nearest is ",
        ),
        "centre.npy": (
            (lo + (hi - lo) / 2).astype(np.float32),
            False,
            "no violation; the nearest is ",
        ),
    }


def box_of(spec):
    """The bounds of a specification with one box, as float32."""
    words = spec.read_text().replace("(", " ").replace(")", " ").split()
    lo, hi = np.zeros(64, np.float32), np.zeros(64, np.float32)
    for relation, name, bound in zip(words, words[1:], words[2:]):
        if name.startswith("X_") and relation in ("<=", ">="):
            (hi if relation == "<=" else lo)[int(name[2:])] = bound
    return lo, hi


@pytest.fixture(scope="module")
def witnesses(run, tmp_path_factory):
    out, summary = run
    name = next(name for name in summary["findings"] if name.startswith("0000-"))
    x = np.load(out / "findings" / name / "input.npy").reshape(-1)
    folder = tmp_path_factory.mktemp("witnesses")
    made = tampered(x, *box_of(BREAKABLE))
    for file, (content, _, _) in made.items():
        if isinstance(content, str):
            (folder / file).write_text(content)
        else:
            np.save(folder / file, content)
    return folder, made


def test_check_tells_witnesses_from_tampered_ones(witnesses):
    folder, made = witnesses
    for file, (_, holds, words) in made.items():
        done = grapeshot("check", MLP, BREAKABLE, folder / file, status=0 if holds else 1)
        first = done.stdout.splitlines()[0]
        assert first.startswith("holds: " if holds else "does not hold: "), file
        assert words in first, first
        assert done.stderr == "" and len(done.stdout.splitlines()) == 1


def test_check_tells_programs_what_it_tells_people(witnesses):
    folder, _ = witnesses
    report = grapeshot_json("check", MLP, BREAKABLE, folder / "same.npy", status=0)
    assert report["holds"] and report["clear"]
    assert report["margin"] <= 0 and report["margin_float64"] <= 0
    assert len(report["outputs"]) == 10 and report["region"] == 0
    assert grapeshot("check", MLP, BREAKABLE, folder / "same.npy").stdout == (
        f"holds: {report['why']}\n"
    )
    report = grapeshot_json("check", MLP, BREAKABLE, folder / "over.npy", status=1)
    assert not report["holds"] and report["margin"] is None
    outside = report["outside"]
    assert outside["count"] == 1 and outside["value"] > outside["bound"]
    report = grapeshot_json("check", MLP, BREAKABLE, folder / "fine.npy", status=1)
    assert not report["holds"] and report["not_float32"] == 1


@pytest.mark.shared
def test_check_agrees_with_an_independent_one(witnesses):
    pytest.importorskip("onnxruntime")
    folder, made = witnesses
    tool = SHARED / "tools" / "verify_witness.py"
    for file, (_, holds, _) in made.items():
        done = subprocess.run(
            [sys.executable, tool, MLP, BREAKABLE, folder / file], capture_output=True, text=True
        )
        assert done.returncode == (0 if holds else 1), f"{file}: {done.stdout}"


def test_check_notes_outputs_that_are_not_the_networks(witnesses, tmp_path):
    folder, _ = witnesses
    outputs = grapeshot_json("check", MLP, BREAKABLE, folder / "same.npy")["outputs_float64"]
    pairs = (folder / "same.txt").read_text().rstrip()[:-1]
    cases = {0.0: None, 0.5: "differ from the network's by 0.5"}
    for off, words in cases.items():
        extra = "".join(f"(Y_{j} {y + off!r})" for j, y in enumerate(outputs))
        (tmp_path / "w.txt").write_text(pairs + extra + ")\n")
        done = grapeshot("check", MLP, BREAKABLE, tmp_path / "w.txt", status=0)
        assert (words is None) == (len(done.stdout.splitlines()) == 1)
        assert words is None or words in done.stdout
    (tmp_path / "w.txt").write_text(pairs + "(Y_0 1))\n")
    done = grapeshot("check", MLP, BREAKABLE, tmp_path / "w.txt", status=0)
    assert "note: the witness has 1 outputs, the network 10" in done.stdout


# --- replay ---------------------------------------------------------------------------------------


def test_replay_confirms_every_finding_in_a_fresh_process(run):
    out, summary = run
    count = len(summary["findings"])
    assert count >= 15
    done = grapeshot("replay", out, status=0)
    lines = done.stdout.splitlines()
    assert lines[-1] == f"{count} of {count} findings confirmed"
    assert len(lines) == count + 1 and all(line.startswith("confirmed ") for line in lines[:-1])
    assert grapeshot("replay", out, "--quiet", status=0).stdout == lines[-1] + "\n"
    report = grapeshot_json("replay", out, status=0)
    assert report["findings"] == report["confirmed"] == count
    assert [row["id"] for row in report["results"]] == sorted(summary["findings"])
    assert all(row["margin"] == row["recorded_margin"] for row in report["results"])


def test_the_replay_line_of_a_finding_works_in_its_run_folder(run):
    out, summary = run
    text = (out / "findings" / summary["findings"][0] / "finding.json").read_text()
    words = json.loads(text)["replay"].split()
    assert words[0] == "grapeshot"
    assert grapeshot(*words[1:], cwd=out, status=0).stdout.endswith("1 of 1 findings confirmed\n")


def test_replay_of_a_run_without_findings(tmp_path):
    args = ["fuzz", MLP, ROBUST, "--candidates", 1000, "--quiet", "--out", tmp_path / "run"]
    grapeshot(*args, status=0)
    done = grapeshot("replay", tmp_path / "run", status=0)
    assert done.stdout == "0 of 0 findings confirmed\n"


def refused(folder):
    done = grapeshot("replay", folder, status=1)
    first, count = done.stdout.splitlines()
    assert first.startswith(f"NOT CONFIRMED {folder.name}: ")
    assert count == "0 of 1 findings confirmed"
    report = grapeshot_json("replay", folder, status=1)
    assert report["confirmed"] == 0 and report["results"][0]["why"] in first
    return first


def rewrite(folder, recorded, **changes):
    (folder / "finding.json").write_text(json.dumps({**recorded, **changes}))


def test_replay_notices_a_changed_model_or_specification(finding, tmp_path):
    folder, recorded = finding
    copies = {}
    for key in ("model", "spec"):
        copies[key] = shutil.copy(recorded[key], tmp_path)
    rewrite(folder, recorded, **copies)
    grapeshot("replay", folder, status=0)
    for key in ("model", "spec"):
        whole = open(copies[key], "rb").read()
        with open(copies[key], "ab") as file:
            file.write(b"\n")
        assert refused(folder).endswith(
            f": {copies[key]}: changed since the finding was made (its SHA-256 differs)"
        )
        with open(copies[key], "wb") as file:
            file.write(whole)
    grapeshot("replay", folder, status=0)
    (tmp_path / "mlp.onnx").unlink()
    assert refused(folder).endswith("mlp.onnx: no such file")


def test_replay_notices_a_changed_input_or_margin(finding):
    folder, recorded = finding
    x = np.load(folder / "input.npy")
    np.save(folder / "input.npy", x + np.float32(1))
    assert "is above its upper bound" in refused(folder)
    np.save(folder / "input.npy", x)
    rewrite(folder, recorded, margin=recorded["margin"] - 0.5)
    assert "the margin was " in refused(folder)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("finding.json", b'{"id": ', "finding.json:1:8: not JSON: the file ends too early"),
        ("finding.json", b"{}", "finding.json: lacks 'model'"),
        ("finding.json", b'{"model": 1}', "finding.json: 'model' is of the wrong type"),
        ("input.npy", None, "input.npy: no such file"),
        ("input.npy", b"\x93NUMPY", "input.npy: the file ends inside its header"),
    ],
)
def test_a_damaged_finding_is_bad_input(finding, file, content, message, tmp_path):
    folder, _ = finding
    runs = tmp_path / "run" / "findings"
    runs.mkdir(parents=True)
    damaged = folder.rename(runs / "0000-aa")
    if content is None:
        (damaged / file).unlink()
    else:
        (damaged / file).write_bytes(content)
    for path in (damaged, tmp_path / "run"):
        done = grapeshot("replay", path, status=2)
        assert done.stdout == "" and done.stderr == f"grapeshot: {damaged}/{message}\n"
    (damaged / "finding.json").unlink()
    done = grapeshot("replay", tmp_path / "run", status=2)
    assert done.stderr == f"grapeshot: {damaged}/finding.json: no such file\n"


def test_a_run_from_data_can_be_moved(tmp_path):
    np.save(tmp_path / "x.npy", np.load(DIGITS / "data" / "X.npy")[:4])
    args = ["fuzz", MLP, "--data", tmp_path / "x.npy", "--eps", "0.3", "--seconds", 5, "--quiet"]
    summary = grapeshot_json(*args, "--out", tmp_path / "run", status=1)
    assert summary["instances"] == 4
    (tmp_path / "run").rename(tmp_path / "moved")
    done = grapeshot("replay", tmp_path / "moved", status=0)
    assert done.stdout.endswith(
        f"{len(summary['findings'])} of {len(summary['findings'])} findings confirmed\n"
    )


def test_commands_leave_nothing_behind(run, tmp_path):
    out, _ = run
    before = tree(out)
    for args in (["replay", out], ["doctor", MLP], ["list"], ["version"]):
        grapeshot(*args, cwd=tmp_path)
    assert tree(out) == before and tree(tmp_path) == {}
