"""Every bad input: exit status 2, a sentence that begins with the user's place, nothing written."""

import gzip
import os
import random
import time

import pytest
from program import BREAKABLE, MLP, grapeshot, needs_program, start, tree

np = pytest.importorskip("numpy")
onnx = pytest.importorskip("onnx")

pytestmark = needs_program

NET, SPEC = str(MLP), str(BREAKABLE)


def node(op, inputs, outputs, **attributes):
    return onnx.helper.make_node(op, inputs, outputs, **attributes)


def model(nodes, inputs=("x",), outputs=("y",), constants=(), shape=(1, 4), element=1):
    """A serialised model over opset 13."""
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [value(name, element, shape) for name in inputs],
        [value(name, element, shape) for name in outputs],
        [onnx.numpy_helper.from_array(np.asarray(a), name) for name, a in constants],
    )
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)])
    return made.SerializeToString()


def write_models(folder):
    whole = MLP.read_bytes()
    junk = random.Random(1).randbytes(3000)
    relu = node("Relu", ["x"], ["y"], name="r")
    weights = ("w", np.ones((5, 4), np.float32))
    files = {
        "cut.onnx": whole[:2000],
        "junk.onnx": junk,
        "empty.onnx": b"",
        "text.onnx": b"hello\n",
        "cut.onnx.gz": gzip.compress(whole)[:1500],
        "junk.gz": b"\x1f\x8b" + junk,
        "unsupported.onnx": model(
            [
                node("Bernoulli", ["x"], ["a"], name="first"),
                node("RandomNormalLike", ["a"], ["b"], name="second"),
                node("Relu", ["b"], ["c"]),
                node("Foo", ["c"], ["y"], name="third", domain="my.ops"),
            ]
        ),
        "dangling.onnx": model([node("Add", ["x", "q"], ["y"], name="sum")]),
        "cycle.onnx": model(
            [node("Add", ["x", "y"], ["a"], name="sum"), node("Relu", ["a"], ["y"], name="r")]
        ),
        "misfit.onnx": model([node("MatMul", ["x", "w"], ["y"], name="mm")], constants=[weights]),
        "integers.onnx": model([relu], element=onnx.TensorProto.INT64),
        "huge.onnx": model([relu], shape=(1 << 20, 1 << 20, 1 << 20)),
        "newline.onnx": model([node("Bernoulli", ["x"], ["y"], name="two\nlines")]),
        "missing-input.onnx": model([node("Add", ["x"], ["y"], name="sum")]),
    }
    for name, data in files.items():
        (folder / name).write_bytes(data)


def write_specs(folder):
    text = BREAKABLE.read_text()
    lines = text.splitlines(keepends=True)
    files = {
        "cut.vnnlib": text[: text.index("(assert (<= X_7 ") + 16],
        "empty.vnnlib": "",
        "comment.vnnlib": "; nothing but a comment\n",
        "fewer-x.vnnlib": "".join(line for line in lines if "X_63" not in line),
        "fewer-y.vnnlib": "".join(line for line in lines if "Y_9" not in line),
        "gap.vnnlib": text.replace("X_63", "X_64"),
        "crossed.vnnlib": text + "(assert (>= X_0 5.0))\n",
        "nan.vnnlib": text + "(assert (>= X_0 nan))\n",
        "word.vnnlib": text + "(declare-co",
        "operand.vnnlib": text + "(assert (<= X_0))\n",
        "deep.vnnlib": text + "(assert " + "(or " * 10_000 + "(<= Y_0 0)" + ")" * 10_001,
        "twice.vnnlib": text + "(declare-const Y_3 Real)\n",
        "undeclared.vnnlib": text + "(assert (<= X_64 0))\n",
        "infinite.vnnlib": text + "(assert (<= X_0 inf))\n",
        "unbounded.vnnlib": "".join(line for line in lines if "(<= X_5 " not in line),
        "unclosed.vnnlib": text + "(assert (<= X_0 1.0)\n",
    }
    for name, data in files.items():
        (folder / name).write_text(data)
    junk = random.Random(2).randbytes(300)
    (folder / "junk.vnnlib").write_bytes(b"(" + junk)
    (folder / "cut.vnnlib.gz").write_bytes(gzip.compress(text.encode())[:200])
    (folder / "only-gz.vnnlib.gz").write_bytes(gzip.compress(text.encode())[:200])


def write_others(folder):
    (folder / "file").write_text("no folder\n")
    (folder / "folder").mkdir()
    (folder / "missing.csv").write_text(f"{NET},{SPEC},1\nmissing.onnx,{SPEC},1\n")
    (folder / "fields.csv").write_text(f"{NET},{SPEC},1\n{NET},{SPEC}\n")
    (folder / "timeout.csv").write_text(f"{NET},{SPEC},1\n\n{NET},{SPEC},soon\n")
    (folder / "json.csv").write_text(f"{NET},{folder}/range.json,1\n")
    (folder / "empty.csv").write_text("")
    (folder / "bad-spec.csv").write_text(f"{NET},{SPEC},1\n{NET},{folder}/nan.vnnlib,1\n")
    rng = np.random.default_rng(0)
    np.save(folder / "x.npy", rng.random((3, 64), dtype=np.float32))
    np.save(folder / "x63.npy", rng.random((3, 63), dtype=np.float32))
    np.save(folder / "nan.npy", np.full((1, 64), np.nan, np.float32))
    np.save(folder / "labels2.npy", np.zeros(2, np.int64))
    np.save(folder / "labels10.npy", np.array([0, 10, 1]))
    np.save(folder / "words.npy", np.array(["a", "b"]))
    (folder / "cut.npy").write_bytes((folder / "x.npy").read_bytes()[:-9])
    configs = {
        "cut.json": '{"seconds": 1,\n',
        "unknown.json": '{"speed": 1}',
        "words.json": '{"seconds": "long"}',
        "fraction.json": '{"threads": 1.5}',
        "negative.json": '{"seed": -1}',
        "mode.json": '{"mode": 3}',
        "mode-name.json": '{"mode": "fast"}',
        "list.json": "[1]",
        "range.json": '{"scale-factor": 2}',
        "bounds.json": '{"property": "bounds", "inputs": {"lo": 0, "hi": [1, 2, 3]}, "output": 0, "hi": 1}',
        "kind.json": '{"property": "nothing"}',
    }
    for name, data in configs.items():
        (folder / name).write_text(data)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bad")
    write_models(folder)
    write_specs(folder)
    write_others(folder)
    return folder


# The name of a file in the folder, and what the message says after its path and ": ".
MODELS = {
    "cut.onnx": "not an ONNX model, or cut off or damaged (end of buffer exception)",
    "junk.onnx": "not an ONNX model, or cut off or damaged (unknown pbf field type exception)",
    "empty.onnx": "not an ONNX model (no graph or no IR version in it)",
    "text.onnx": "not an ONNX model, or cut off or damaged (unknown pbf field type exception)",
    "cut.onnx.gz": "damaged gzip: the file ends before its data does",
    "junk.gz": "damaged gzip (unknown compression method)",
    "unsupported.onnx": "3 operators are not supported at opset 13: Bernoulli (node 'first'), "
    "RandomNormalLike (node 'second'), my.ops.Foo (node 'third'); `grapeshot list operators` shows "
    "what is",
    "dangling.onnx": "node 'sum' reads 'q', which nothing writes",
    "cycle.onnx": "node 'r' depends on its own output",
    "misfit.onnx": "node 'mm' (MatMul, opset 13): mat1 and mat2 shapes cannot be multiplied "
    "(2x4 and 5x4)",
    "integers.onnx": "input 'x' is not float32",
    "huge.onnx": "input 'x' has more than 268435456 values",
    "newline.onnx": "1 operator is not supported at opset 13: Bernoulli (node "
    "'two\\x0alines'); `grapeshot list operators` shows what is",
    "missing-input.onnx": "node 'sum' (Add) has 1 inputs, it needs 2",
    "folder": "is a folder, not a file",
}

SPECS = {
    "cut.vnnlib": ":94:17: the file ends inside the command that starts in line 94; it may be "
    "truncated",
    "junk.vnnlib": ":1:2: ",
    "empty.vnnlib": ":1:1: the specification is empty; declare X_0..., Y_0... and assert what a "
    "violation is",
    "comment.vnnlib": ":1:1: the specification is empty; declare X_0..., Y_0... and assert what a "
    "violation is",
    "only-gz.vnnlib.gz": ": damaged gzip: the file ends before its data does",
    "fewer-x.vnnlib": f": declares 63 inputs (X_i), {NET} has 64",
    "fewer-y.vnnlib": f": declares 9 outputs (Y_i), {NET} has 10",
    "gap.vnnlib": ":66:16: X_64 leaves a gap: X_63 is not declared",
    "crossed.vnnlib": ":220:9: the lower bound 5.0 of X_0 exceeds its upper bound 0.0; "
    "correct this line or line 80",
    "nan.vnnlib": ":220:17: 'nan' is no bound; write a finite decimal",
    "word.vnnlib": ":220:12: the file ends inside the command that starts in line 220; it may "
    "be truncated",
    "operand.vnnlib": ":220:16: this '<=' lacks an operand",
    "deep.vnnlib": ":220:809: the parentheses are nested more than 200 deep",
    "twice.vnnlib": ":220:16: Y_3 is declared twice, first in line 70",
    "undeclared.vnnlib": ":220:13: X_64 is not declared; add (declare-const X_64 Real) before "
    "this line",
    "infinite.vnnlib": ":220:17: 'inf' is no bound; write a finite decimal",
    "unbounded.vnnlib": ":8:16: X_5 has no upper bound in the disjunct of line 209; add "
    "(assert (<= X_5 ...))",
    "unclosed.vnnlib": ":221:1: the file ends inside the command that starts in line 220; it "
    "may be truncated",
    "folder": ": is a folder, not a file",
}

FUZZ = "fuzz", NET, SPEC
DATA = "fuzz", NET, "--data"

# Arguments, and the whole message after "grapeshot: "; {place} is the folder.
OTHERS = [
    (("fuzz", "none.onnx", SPEC), "none.onnx: no such file"),
    (("fuzz", NET, "none.vnnlib"), "none.vnnlib: no such file"),
    (("fuzz", "--instances", "none.csv"), "none.csv: no such file"),
    (("fuzz", "--instances", "missing.csv"), "missing.csv:2: {place}/missing.onnx: no such file"),
    (
        ("fuzz", "--instances", "fields.csv"),
        "fields.csv:2: expected three fields, onnx,vnnlib,timeout, found 2",
    ),
    (
        ("fuzz", "--instances", "timeout.csv"),
        "timeout.csv:3: the timeout must be a positive number of seconds, found 'soon'",
    ),
    (
        ("fuzz", "--instances", "empty.csv"),
        "empty.csv: no instance in it; write lines onnx,vnnlib,timeout",
    ),
    (
        ("fuzz", "--instances", "bad-spec.csv"),
        "{place}/nan.vnnlib:220:17: 'nan' is no bound; write a finite decimal",
    ),
    ((*DATA, "none.npy", "--eps", "0.1"), "none.npy: no such file"),
    (
        (*DATA, SPEC, "--eps", "0.1"),
        f"{SPEC}: its content and name are those of no known format (npy, npz, idx, images, cifar10, "
        "cifar100, cifar100-coarse, csv); --format says which it is in",
    ),
    (
        (*DATA, "words.npy", "--eps", "0.1"),
        "words.npy: elements of type '<U1' are not supported; save float32, float64, bool or "
        "integers of 8 to 64 bits",
    ),
    ((*DATA, "cut.npy", "--eps", "0.1"), "cut.npy: the file ends before its last number"),
    ((*DATA, "nan.npy", "--eps", "0.1"), "nan.npy: holds NaN, infinite or larger values than float32"),
    (
        (*DATA, "x63.npy", "--eps", "0.1"),
        f"x63.npy: 189 values in 3 rows; {NET} has 64 inputs a row",
    ),
    (
        (*DATA, "x.npy", "--eps", "0.1", "--labels", "labels2.npy"),
        "labels2.npy: 2 labels for 3 rows of data",
    ),
    (
        (*DATA, "x.npy", "--eps", "0.1", "--labels", "labels10.npy"),
        "labels10.npy: 10 is not a label from 0 to 9, nor -1 for none",
    ),
    ((*FUZZ, "--config", "cut.json"), "cut.json:2:1: not JSON: the file ends too early"),
    ((*FUZZ, "--config", "unknown.json"), "unknown.json: no option is called 'speed'"),
    ((*FUZZ, "--config", "words.json"), 'words.json: seconds: "long" does not fit'),
    ((*FUZZ, "--config", "fraction.json"), "fraction.json: threads: 1.5 does not fit"),
    ((*FUZZ, "--config", "negative.json"), "negative.json: seed: -1 does not fit"),
    (
        (*FUZZ, "--config", "mode-name.json"),
        "no mode is called 'fast'; known: seq-fixed, batch-iso, batch-ani",
    ),
    (
        (*FUZZ, "--config", "mode.json"),
        "no mode is called '3'; known: seq-fixed, batch-iso, batch-ani",
    ),
    ((*FUZZ, "--config", "list.json"), "list.json: not a JSON object of options"),
    ((*FUZZ, "--config", "range.json"), "--scale-factor must be in (0, 1]"),
    ((*FUZZ, "--config", "none.json"), "none.json: no such file"),
    ((*FUZZ[:-1], "cut.json"), "{place}/cut.json:2:1: not JSON: the file ends too early"),
    ((*FUZZ[:-1], "list.json"), "{place}/list.json: must be an object"),
    (
        ("falsify", NET, "bounds.json"),
        "{place}/bounds.json: inputs.hi: has 3 numbers, must have 64",
    ),
    (("check", NET, "bounds.json", "x.npy"), "{place}/bounds.json: inputs.hi: has 3 numbers, must have 64"),
    (("doctor", NET, "kind.json"), None),
    (("fuzz", "--instances", "json.csv"), "{place}/range.json: lacks 'property'"),
    (("run", NET, "--data", "x63.npy", "--out", "y.npy"), None),
    (("check", NET, SPEC, "none.npy"), "none.npy: no such file"),
    (
        ("check", NET, SPEC, "text.onnx"),
        "text.onnx:1:1: expected a pair such as (X_0 0.5), found 'hello'",
    ),
    (("check", NET, SPEC, "cut.npy"), "cut.npy: the file ends before its last number"),
    (("replay", "none"), "none: no such folder"),
    (
        ("replay", "folder"),
        "folder: neither a run folder (findings/ in it) nor a finding (finding.json in it)",
    ),
]


def check_refused(place, args, out=()):
    """Runs, expects exit 2 and silence on stdout, returns stderr's one line after "grapeshot: "."""
    before = tree(place)
    done = grapeshot(*args, *out, cwd=place, timeout=30)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("grapeshot: ") and done.stderr.endswith("\n")
    assert done.stderr.count("\n") == 1, "more than one line"
    assert tree(place) == before, "something was written"
    assert sorted(p.name for p in (place / "folder").iterdir()) == []
    assert not (place / "run").exists() and not (place / "grapeshot-out").exists()
    return done.stderr[len("grapeshot: ") : -1]


@pytest.mark.parametrize("name", MODELS)
def test_damaged_model(place, name):
    message = check_refused(place, ("fuzz", name, SPEC), ("--out", "run"))
    assert message == f"{place}/{name}: {MODELS[name]}"
    for command in (("doctor", name), ("check", name, SPEC, "x.npy")):
        assert check_refused(place, command).endswith(f"{name}: {MODELS[name]}")


@pytest.mark.parametrize("name", SPECS)
def test_damaged_specification(place, name):
    message = check_refused(place, ("fuzz", NET, name), ("--out", "run"))
    if name == "junk.vnnlib":  # the rest is the junk itself
        assert message.startswith(f"{place}/{name}{SPECS[name]}")
        assert message.isprintable() and len(message) < 300
    else:
        assert message == f"{place}/{name}{SPECS[name]}"


@pytest.mark.parametrize(("args", "message"), OTHERS, ids=[" ".join(a[-2:]) for a, _ in OTHERS])
def test_other_files(place, args, message):
    out = ("--out", "run") if args[0] == "fuzz" else ()
    got = check_refused(place, args, out)
    if message is not None:
        assert got == message.replace("{place}", str(place))


def test_without_out_nothing_is_left_either(place):
    check_refused(place, ("fuzz", "cut.onnx", SPEC))


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("file", "file: cannot make the run folder: Not a directory"),
        ("file/x", "file/x: cannot make the run folder: Not a directory"),
        (
            "/proc/nowhere/x",
            "/proc/nowhere/x: cannot make the run folder: No such file or directory",
        ),
    ],
)
def test_output_folder_that_cannot_be_written(place, out, message):
    assert check_refused(place, FUZZ, ("--out", out)) == message


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("none/y.npy", "none/y.npy: cannot be written: there is no folder none"),
        ("folder", "folder: is a folder; name a file"),
    ],
)
def test_output_file_that_cannot_be_written(place, out, message):
    assert check_refused(place, ("run", NET, "--data", "x.npy", "--out", out)) == message


def test_an_earlier_run_is_not_overwritten(tmp_path):
    grapeshot(*FUZZ, "--seconds", "5", "--out", tmp_path / "run", "--quiet", status=1)
    before = tree(tmp_path)
    done = grapeshot(*FUZZ, "--out", "run", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "grapeshot: run: holds an earlier run; `grapeshot resume` goes on with it, or choose another "
        "--out\n"
    )
    assert tree(tmp_path) == before


USAGE = [
    ((), "a subcommand is required; see `grapeshot --help`"),
    (
        ("frob",),
        "no command is called 'frob'; known: fuzz, falsify, verify, supports, resume, status, replay, report, minimize, check, run, diff, coverage, profile, doctor, list, vnncomp, bench, version",
    ),
    (("fuzz",), None),
    (("fuzz", NET), None),
    (("fuzz", "--instances", "a.csv", NET), "--instances names its models itself"),
    (("fuzz", NET, "--data", "x.npy"), "--data needs a finite --eps above 0"),
    (("fuzz", NET, "--data", "x.npy", "--eps", "-1"), "--data needs a finite --eps above 0"),
    (("fuzz", NET, "--data", "x.npy", "--eps", "inf"), "--data needs a finite --eps above 0"),
    ((*FUZZ, "--eps", "1"), "--eps requires --data; see `grapeshot fuzz --help`"),
    ((*FUZZ, "--threads", "100000"), "--threads must be from 0 (all cores) to 1024"),
    (
        (*FUZZ, "--frob"),
        "the following argument was not expected: --frob; see `grapeshot fuzz --help`",
    ),
    ((*FUZZ, "--seconds", "x"), "could not convert: --seconds = x; see `grapeshot fuzz --help`"),
    ((*FUZZ, "--seconds", "-1"), "--seconds must be at least 0 (0: no limit)"),
    ((*FUZZ, "--seconds", "nan"), "--seconds must be at least 0 (0: no limit)"),
    ((*FUZZ, "--seed", "-1"), "--seed: must be at least 0; see `grapeshot fuzz --help`"),
    (
        (*FUZZ, "--max-file-mib", "0"),
        "--max-file-mib: Value 0 not in range 1 to 1073741824; see `grapeshot fuzz --help`",
    ),
    (
        (*FUZZ, "--threads", "1.5"),
        "could not convert: --threads = 1.5; see `grapeshot fuzz --help`",
    ),
    ((*FUZZ, "--batch", "x"), "--batch must be auto or a number of rows from 1 to 16777216"),
    ((*FUZZ, "--batch", "0"), "--batch must be auto or a number of rows from 1 to 16777216"),
    ((*FUZZ, "--scale", "x"), "no scale is called 'x'; known: fixed, iso, ani"),
    ((*FUZZ, "--scale-factor", "0"), "--scale-factor must be in (0, 1]"),
    ((*FUZZ, "--steps", "0"), "--steps must be at least 1"),
    ((*FUZZ, "--schedule", "x"), "--schedule: 'x' is not one of fair, paper"),
    (
        (*FUZZ, "--weights", "flip"),
        "--weights: 'flip' is not of the form name=number with a number >= 0",
    ),
    ((*FUZZ, "--mode", "x"), "no mode is called 'x'; known: seq-fixed, batch-iso, batch-ani"),
    (("check", NET), "SPEC is required; see `grapeshot check --help`"),
    (("replay",), "FINDING is required; see `grapeshot replay --help`"),
    (("run", NET, "--out", "y.npy"), "--data is required; see `grapeshot run --help`"),
    (("run", NET, "--data", "x.npy"), "run needs --out Y.npy or --gradient G.npy"),
    (
        ("run", NET, "--data", "x.npy", "--gradient", "g.npy", "--output", "10"),
        f"--output 10: {NET} has outputs 0 to 9",
    ),
    (
        ("list", "nothing"),
        "no family of `grapeshot list` is called 'nothing'; known: commands, mutations, attacks, "
        "norms, scales, criteria, strategies, objectives, constraints, transformations, data, variants, "
        "properties, reports, gates, output-kinds, operators, excluded-operators, passes",
    ),
]


@pytest.mark.parametrize(
    ("args", "message"), USAGE, ids=[" ".join(a[-2:]) or "-" for a, _ in USAGE]
)
def test_wrong_usage(place, args, message):
    got = check_refused(place, args)
    assert message is None or got == message


@pytest.fixture(scope="module")
def bombs(tmp_path_factory):
    """`bomb`: 10 GiB in 10 MB; `nested`: that packed again, some 40 KB."""
    folder = tmp_path_factory.mktemp("bombs")
    bomb = gzip.compress(bytes(64 << 20)) * 160
    (folder / "bomb").write_bytes(bomb)
    (folder / "nested").write_bytes(gzip.compress(bomb))
    assert (folder / "nested").stat().st_size < 100_000
    return folder


# Every kind of file that a command reads, {bomb} being its path.
READS = [
    ("fuzz", "{bomb}", SPEC),
    ("fuzz", NET, "{bomb}"),
    ("fuzz", "--instances", "{bomb}"),
    ("fuzz", NET, "--data", "{bomb}", "--eps", "1"),
    ("fuzz", NET, SPEC, "--config", "{bomb}"),
    ("check", NET, SPEC, "{bomb}"),
    ("run", NET, "--data", "{bomb}", "--out", "y.npy"),
    ("doctor", "{bomb}"),
    ("doctor", NET, "--data", "{bomb}"),
]


@pytest.mark.parametrize("args", READS, ids=[" ".join(args[:3]) for args in READS])
def test_a_gzip_bomb_ends_at_the_limit(bombs, args):
    command = [arg.format(bomb=bombs / "bomb") for arg in args]
    started = time.monotonic()
    process = start(*command, "--max-file-mib", "16", cwd=bombs)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - started
    assert os.waitstatus_to_exitcode(status) == 2
    # Of data no more is unpacked than tells its format.
    message = (
        "its content and name are those of no known format ("
        if "--data" in args
        else "unpacks to more than 16 MiB; --max-file-mib allows more\n"
    )
    assert process.stderr.read().startswith(f"grapeshot: {bombs}/bomb: {message}")
    assert usage.ru_maxrss < 1 << 20, "KiB"
    assert seconds < 20


def test_gzip_in_gzip_is_unpacked_once(bombs):
    done = grapeshot("fuzz", NET, "nested", cwd=bombs, status=2)
    assert done.stderr.startswith(f"grapeshot: {bombs}/nested:1:1: expected a command")


def test_the_limit_holds_for_plain_files_and_can_be_raised(tmp_path):
    (tmp_path / "wide.vnnlib").write_text(BREAKABLE.read_text() + "\n" * (1 << 20))
    args = ("fuzz", NET, "wide.vnnlib", "--candidates", "1", "--out", "run", "--max-file-mib")
    done = grapeshot(*args, "1", cwd=tmp_path, status=2)
    assert done.stderr == (
        f"grapeshot: {tmp_path}/wide.vnnlib: holds more than 1 MiB; --max-file-mib allows more\n"
    )
    assert grapeshot(*args, "2", cwd=tmp_path).returncode in (0, 1)


def test_unknown_names_list_the_known_ones(place):
    for flag in ("--mutations", "--criterion", "--criteria"):
        message = check_refused(place, (*FUZZ, flag, "nothing"))
        assert "'nothing'" in message and "; known: " in message
