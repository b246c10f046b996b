"""VNN-LIB 2.0 from end to end: `verify` and `supports` as the standard has them, and every command
that takes a specification. Counterexamples are confirmed by ONNX Runtime on the files as given."""

import json
import re

import pytest
from program import grapeshot, grapeshot_json, needs_program, tree

np = pytest.importorskip("numpy")
onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from query_nets import assignment, box, declare, layers, outputs_of, query  # noqa: E402

pytestmark = needs_program

ONE = declare("f", [("X", 3)], [("Y", 2)])
TWO = declare("g", [("U", 3)], [("Z", 2)], "(isomorphic-to f)")
SAME = declare("g", [("U", 3)], [("Z", 2)], "(equal-to f)")
EQUAL = "".join(f"(assert (== X[0,{i}] U[0,{i}]))\n" for i in range(3))


class Files:
    """Models and queries in a folder of a test."""

    def __init__(self, folder):
        self.folder = folder

    def model(self, name, made):
        path = self.folder / f"{name}.onnx"
        onnx.save(made, path)
        return path

    def text(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


def verify(spec, *networks, timeout=10, more=()):
    flags = [flag for each in networks for flag in ("--network", each)]
    return grapeshot("verify", spec, *flags, "--timeout", timeout, *more, status=0).stdout


# --- verify ---------------------------------------------------------------------------------------


def test_one_network_is_broken_and_its_counterexample_holds_everywhere(files):
    net = layers([3, 16, 2], 1)
    path = files.model("f", net)
    spec = files.text("q.vnnlib", query(ONE, "(> Y[0,0] Y[0,1])") + box("X", 3))
    out = verify(spec, f"f={path}")
    found = assignment(out)
    assert list(found) == ["X", "Y"]
    (y,) = outputs_of(net, [found["X"]])
    assert y[0, 0] > y[0, 1] and np.abs(found["X"]).max() <= 1
    np.testing.assert_allclose(y, found["Y"], rtol=1e-5, atol=1e-6)
    witness = files.text("w.txt", out)
    assert "holds: Y[0,1] < Y[0,0]" in grapeshot("check", path, spec, witness, status=0).stdout
    # A neighbour outside of the box does not.
    outside = re.sub(r"(X float32 \[1,3\]\n)\S+", r"\g<1>1.5", out)
    said = grapeshot("check", path, spec, files.text("o.txt", outside), status=1).stdout
    assert "X[0,0] = 1.5 is above its upper bound 1 by 0.5" in said


def test_two_networks_are_told_apart_and_broken(files):
    nets = [layers([3, 16, 2], 1), layers([3, 16, 2], 1, noise=0.05)]
    f, g = files.model("f", nets[0]), files.model("g", nets[1])
    relation = "(or (> (- Y[0,0] Z[0,0]) 0.05) (> (- Z[0,0] Y[0,0]) 0.05))"
    spec = files.text("q.vnnlib", query(ONE + TWO, relation) + EQUAL + box("X", 3))
    out = verify(spec, f"f={f}", f"g={g}")
    found = assignment(out)
    assert list(found) == ["X", "Y", "U", "Z"] and (found["X"] == found["U"]).all()
    y, z = (outputs_of(net, [found["X"]])[0] for net in nets)
    assert abs(float(y[0, 0]) - float(z[0, 0])) > 0.05
    witness = files.text("w.txt", out)
    mapped = ["--network", f"g={g}"]
    assert grapeshot("check", f, spec, witness, *mapped, status=0).stdout.startswith("holds: (> (- ")
    # The same two files the other way round, and one file twice: no counterexample there.
    assert grapeshot("check", f, spec, witness, "--network", f"g={f}", status=1)
    differing = out.replace("U float32 [1,3]\n", "U float32 [1,3]\n0.125\n", 1).splitlines()
    del differing[differing.index("U float32 [1,3]") + 2]
    text = files.text("d.txt", "\n".join(differing) + "\n")
    said = grapeshot("check", f, spec, text, *mapped, status=2).stderr
    assert "X[0,0] and U[0,0] differ, and the query sets them equal" in said


def test_equal_networks_compare_two_inputs_of_one_file(files):
    net = layers([3, 16, 2], 2)
    path = files.model("f", net)
    # Not monotone: a larger first input, a smaller output.
    spec = files.text(
        "q.vnnlib",
        query(ONE + SAME, "(< X[0,0] U[0,0])", "(== X[0,1] U[0,1])", "(== X[0,2] U[0,2])")
        + "(assert (> Y[0,0] (+ Z[0,0] 0.01)))\n" + box("X", 3) + box("U", 1),
    )  # fmt: skip
    found = assignment(verify(spec, f"f={path}"))
    y, z = (outputs_of(net, [found[name]])[0] for name in "XU")
    assert found["X"][0, 0] < found["U"][0, 0] and (found["X"][0, 1:] == found["U"][0, 1:]).all()
    assert float(y[0, 0]) > float(z[0, 0]) + 0.01
    said = grapeshot("verify", spec, "--network", f"f={path}", "--network", f"g={path}", status=2)
    assert "declares it equal to f, so that it takes no file" in said.stderr


def test_several_inputs_and_outputs_keep_the_order_of_the_file(files):
    # In 3,000 random inputs of this box P[0,1] - Q[0,0] reaches -0.09, with inputs exchanged -0.33.
    net = layers([4, 16, 4], 7, inputs=("a", "b"), outputs=("p", "q"))
    path = files.model("f", net)
    spec = files.text(
        "q.vnnlib",
        query(declare("f", [("A", 2), ("B", 2)], [("P", 2), ("Q", 2)]), "(> P[0,1] (- Q[0,0] 0.2))")
        + box("A", 2, 0.0, 1.0) + box("B", 2, 2.0, 3.0),
    )  # fmt: skip
    found = assignment(verify(spec, f"f={path}"))
    p, q = outputs_of(net, [found["A"], found["B"]])
    assert float(p[0, 1]) > float(q[0, 0]) - 0.2 and found["B"].min() >= 2
    np.testing.assert_allclose(np.concatenate([p, q]), np.concatenate([found["P"], found["Q"]]), 1e-5)


def test_hidden_tensors_and_polynomials_are_searched(files):
    net = layers([3, 8, 2], 4)
    path = files.model("f", net)
    text = query(
        declare("f", [("X", 3)], [("Y", 2)], hidden=[("H", 8, "hidden")]),
        "(>= H[0,2] 0.05)",
        "(<= (* X[0,0] X[0,1]) -0.5)",
        "(> (+ Y[0,0] (* 2.0 X[0,2])) (- Y[0,1] 0.25))",
    )
    spec = files.text("q.vnnlib", text + box("X", 3))
    out = verify(spec, f"f={path}")
    found = assignment(out)
    y, h = outputs_of(net, [found["X"]], ["y", "hidden"])
    x = found["X"].astype(float)
    assert list(found) == ["X", "H", "Y"] and h[0, 2] >= 0.05 and x[0, 0] * x[0, 1] <= -0.5
    assert float(y[0, 0]) + 2 * x[0, 2] > float(y[0, 1]) - 0.25
    assert grapeshot("check", path, spec, files.text("w.txt", out), status=0)


def test_ties_of_polynomials_are_exact(files):
    """0.1 * 3 is not 0.3 in binary; X = 3 and 0.1 * X against 0.3 is a tie all the same."""
    path = files.model("f", layers([3, 4, 2], 5))
    holds = {"<=": 0, ">=": 0, "==": 0, "<": 1, ">": 1, "!=": 1}
    witness = files.folder / "w.npy"
    np.save(witness, np.array([3, 0, 0], np.float32))
    for relation, status in holds.items():
        spec = files.text(
            "q.vnnlib", query(ONE, f"({relation} (* 0.1 X[0,0]) 0.3)") + box("X", 3, -5.0, 5.0)
        )
        grapeshot("check", path, spec, witness, status=status)


def test_assignments_are_written_as_tensors(files):
    net = layers([3, 16, 2], 1)
    path = files.model("f", net)
    spec = files.text("q.vnnlib", query(ONE, "(> Y[0,0] Y[0,1])") + box("X", 3))
    folder = files.folder / "new" / "folder"
    assert verify(spec, f"f={path}", more=["--serialise-assignments", folder]) == "sat\n"
    tensors = {
        p.name: onnx.TensorProto.FromString(p.read_bytes()) for p in sorted(folder.iterdir())
    }
    assert list(tensors) == ["X.pb", "Y.pb"]
    x, y = (onnx.numpy_helper.to_array(t) for t in tensors.values())
    assert x.shape == (1, 3) and x.dtype == np.float32
    np.testing.assert_allclose(outputs_of(net, [x])[0], y, rtol=1e-5)


def test_what_cannot_be_found_is_timed_out_or_unknown(files):
    path = files.model("f", layers([3, 4, 2], 6))
    spec = files.text("q.vnnlib", query(ONE, "(> Y[0,0] 1000.0)") + box("X", 3))
    assert verify(spec, f"f={path}", timeout=1) == "timed-out\n"
    point = files.text("p.vnnlib", query(ONE, "(> Y[0,0] 1000.0)") + box("X", 3, 0.5, 0.5))
    assert verify(point, f"f={path}") == "unknown\n"


# --- supports and the global options --------------------------------------------------------------


def test_supports_answers_in_the_forms_of_the_standard():
    def lines(flag):
        return grapeshot("supports", flag, status=0).stdout.splitlines()

    low, high = map(int, lines("--onnx-opset-versions"))
    assert 0 < low < high
    operators = lines("--onnx-operators")
    listed = {row["name"] for row in grapeshot_json("list", "operators", status=0)["operators"]}
    assert set(operators) == listed and len(operators) == len(listed)
    assert lines("--vnnlib-versions") == ["2.0", "2.0"]
    assert lines("--onnx-element-types") == ["float32", "real"]
    theories = {
        "--hidden-node-theories": {"NH", "H"},
        "--multiple-input-output-theories": {"SIO", "MIO"},
        "--multiple-network-theories": {"SNET", "MENET", "MINET", "MNET"},
        "--multiple-node-comparison-theories": {"SNC", "MNC"},
        "--arithmetic-complexity-theories": {"BND", "OUTC", "LIN", "POLY"},
    }
    assert all(set(lines(flag)) == known for flag, known in theories.items())
    booleans = ("--optimised-disjunctive-reasoning", "--serialise-assignments")
    assert [lines(flag) for flag in booleans] == [["false"], ["true"]]
    for wrong in ([], ["--vnnlib-versions", "--hidden-node-theories"]):
        assert "one question" in grapeshot("supports", *wrong, status=2).stderr


def test_name_and_version_need_no_command():
    assert grapeshot("--name", status=0).stdout == "Grapeshot\n"
    version = grapeshot("--version", status=0).stdout
    assert version.strip() == grapeshot_json("version", status=0)["grapeshot"]


# --- the other commands ---------------------------------------------------------------------------


def test_a_campaign_over_queries_leaves_findings_that_replay(files):
    nets = [layers([3, 16, 2], 1), layers([3, 16, 2], 1, noise=0.05)]
    f, g = files.model("f", nets[0]), files.model("g", nets[1])
    spec = files.text(
        "q.vnnlib", query(ONE + TWO, "(> (- Y[0,0] Z[0,0]) 0.02)") + EQUAL + box("X", 3)
    )
    run = files.folder / "run"
    flags = ["--network", f"g={g}", "--seconds", 20, "--out", run, "--quiet"]
    summary = grapeshot_json("fuzz", f, spec, *flags, status=1)
    assert summary["instances_falsified"] == 1
    finding = next((run / "findings").iterdir())
    said = json.loads((finding / "finding.json").read_text())
    assert said["words"] == "(> (- Y[0,0] Z[0,0]) 0.02)"
    assert [each["name"] for each in said["networks"]] == ["f", "g"]
    found = assignment((finding / "counterexample.txt").read_text())
    y, z = (outputs_of(net, [found["X"]])[0] for net in nets)
    assert float(y[0, 0]) - float(z[0, 0]) > 0.02
    # The network that was searched stands alone.
    joined = onnx.load(said["network"])
    (both,) = outputs_of(joined, [np.load(finding / "input.npy")])
    np.testing.assert_allclose(both[:4], np.concatenate([y[0], z[0]]), rtol=1e-5, atol=1e-6)
    assert "1 of 1 findings confirmed" in grapeshot("replay", finding, status=0).stdout
    before = np.load(finding / "input.npy")
    smaller = files.folder / "smaller.txt"
    grapeshot("minimize", finding, "--seconds", 2, "--out", smaller, status=0)
    kept = assignment(smaller.read_text())
    assert np.abs(kept["X"]).max() <= np.abs(before).max()
    assert grapeshot("check", f, spec, smaller, "--network", f"g={g}", status=0)
    # A run goes on with the same files only.
    grapeshot("resume", run, "--seconds", 21, "--quiet")
    onnx.save(nets[0], g)
    assert "changed" in grapeshot("replay", finding, status=1).stdout
    assert "changed" in grapeshot("resume", run, "--seconds", 22, status=2).stderr


def test_instances_and_falsify_take_both_versions(files):
    net = layers([3, 16, 2], 1)
    files.model("f", net)
    files.text("two.vnnlib", query(ONE, "(> Y[0,0] Y[0,1])") + box("X", 3))
    files.text(
        "one.vnnlib",
        "".join(f"(declare-const {v} Real)" for v in ("X_0", "X_1", "X_2", "Y_0", "Y_1"))
        + "".join(f"(assert (<= -1 X_{i}))(assert (<= X_{i} 1))" for i in range(3))
        + "(assert (>= Y_0 Y_1))",
    )
    csv = files.text("instances.csv", "f.onnx,two.vnnlib,10\nf.onnx,one.vnnlib,10\n")
    flags = ["--seconds", 20, "--out", files.folder / "run", "--quiet"]
    assert grapeshot_json("fuzz", "--instances", csv, *flags, status=1)["instances_falsified"] == 2
    replayed = grapeshot("replay", files.folder / "run", status=0).stdout
    assert "2 of 2 findings confirmed" in replayed
    witness = files.folder / "w.txt"
    flags = ["--timeout", 10, "--witness", witness]
    done = grapeshot("falsify", files.folder / "f.onnx", files.folder / "two.vnnlib", *flags, status=1)
    assert done.stdout == "sat\n" and list(assignment(witness.read_text())) == ["X", "Y"]
    report = grapeshot_json("vnncomp", files.folder, "--timeout", 10, "--quiet", cwd=files.folder)
    assert json.dumps(report).count("sat") > 0
    assert grapeshot("doctor", files.folder / "f.onnx", files.folder / "two.vnnlib", status=0)


# --- bad input ------------------------------------------------------------------------------------


def test_bad_queries_are_refused_in_one_sentence(files):
    net = layers([3, 16, 2], 1)
    f = files.model("f", net)
    old = files.model("old", layers([3, 16, 2], 1, opset=11))
    good = query(ONE, "(> Y[0,0] Y[0,1])") + box("X", 3)
    pair = query(ONE + TWO, "(> (- Y[0,0] Z[0,0]) 0.05)") + EQUAL + box("X", 3)
    hidden = query(declare("f", [("X", 3)], [("Y", 2)], hidden=[("H", 8, "no")]), "(> H[0,0] 0.0)")
    named = ["--network", f"f={f}"]
    cases = [
        ("exponent", good.replace("1.0", "1e0", 1), named, r"exponent\.vnnlib:\d+:\d+: VNN-LIB 2.0 has no"),
        ("cut", good[:-30], named, r"cut\.vnnlib:\d+:\d+: the file ends .* it may be truncated"),
        ("free", query(ONE, "(> Y[0,0] 0.0)"), named, r"X\[0,0\] has no bounds"),
        ("none", good, [], r"declares the network f; say which file it is with --network f=FILE"),
        ("other", good, [*named, "--network", f"h={f}"], r"declares no network of that name"),
        ("twice", good, [*named, "--network", f"f={f}"], r"has a file already"),
        ("form", good, ["--network", "f"], r"'f' is not of the form NAME=FILE"),
        ("gone", good, ["--network", "f=gone.onnx"], r"gone\.onnx"),
        ("one", pair, named, r"declares the network g; say which file"),
        ("opsets", pair, [*named, "--network", f"g={old}"], r"opset 11 .*opset 13 .*cannot be joined"),
        ("shape", good.replace("[1,3]", "[1,4]") + box("X", 4), named, r"declares X as \[1,4\], the input 'x' of .* is \[1,3\]"),
        ("ports", query(declare("f", [("X", 3)], [("Y", 2), ("Z", 2)]), "(> Y[0,0] Z[0,0])") + box("X", 3),
         named, r"declares 2 outputs of f, .* has 1"),
        ("hidden", hidden + box("X", 3), named, r"no node writes a tensor called 'no'.* declares as H"),
        ("width", hidden.replace('"no"', '"hidden"') + box("X", 3), named, r"hidden"),
        ("types", good.replace("X float32", "X float64"), named, r"type 'float64' is not supported"),
        ("old", "(declare-const X_0 Real)", named, r"not of VNN-LIB 2.0; `grapeshot falsify"),
        ("large", query(ONE, f"(<= (* {'(+ X[0,0] Y[0,0]) ' * 20}) 1.0)") + box("X", 3), named,
         r"multiplies out to more than"),
        ("deep", query(ONE, "(and " * 300 + "(> Y[0,0] 0.0)" + ")" * 300), named, r"nested more than 200"),
        ("many", query(ONE, *["(or (> Y[0,0] 0.0) (> Y[0,1] 0.0))"] * 40) + box("X", 3), named,
         r"make more than \d+ cases"),
    ]  # fmt: skip
    before, wrong = tree(files.folder), []
    for name, text, flags, message in cases:
        spec = files.text(f"{name}.vnnlib", text)
        done = grapeshot("verify", spec, *flags, "--timeout", 5)
        one_line = done.stdout == "" and done.stderr.count("\n") == 1
        if done.returncode != 2 or not one_line or not re.search(message, done.stderr):
            wrong.append((name, done.returncode, done.stdout, done.stderr))
        spec.unlink()
    assert not wrong
    assert tree(files.folder) == before
    one = files.text("one.vnnlib", "(declare-const X_0 Real)")
    said = grapeshot("falsify", f, one, *named, status=2).stderr
    assert "names no network; --network is for VNN-LIB 2.0" in said


def test_bad_counterexamples_are_named_by_line(files):
    f = files.model("f", layers([3, 16, 2], 1))
    spec = files.text("q.vnnlib", query(ONE, "(> Y[0,0] Y[0,1])") + box("X", 3))
    cases = [
        ("X float32 [1,3]\n0.1\n0.2\n", r":4:1: expected value 3 of the 3 of X, found the end"),
        ("X float32 [1,3]\n0.1\nzero\n0.2\n", r":3:1: expected value 2 of the 3 of X, found 'zero'"),
        ("X float32 [3]\n0.1\n0.2\n0.3\n", r":1:1: X is of another shape"),
        ("sat\nW float32 [1,3]\n0.1\n0.2\n0.3\n", r":2:1: the query declares no W"),
        ("Y float32 [1,2]\n0.1\n0.2\n", r"has no values of the input X"),
        ("X float32 [1,3]\n1\n2\n3\n4\n", r":5:1: expected a variable"),
        ("X float32 [1,3]\n1\n2\n3\nX float32 [1,3]\n1\n2\n3\n", r":5:1: X has values already"),
    ]
    for text, message in cases:
        done = grapeshot("check", f, spec, files.text("w.txt", text), status=2)
        assert re.search(message, done.stderr), done.stderr
