"""falsify, minimize and the interface of VNN-COMP, from the outside."""

import csv
import gzip
import json
import os
import pathlib
import shutil
import subprocess
import time

import pytest
from conftest import ROOT
from program import BREAKABLE, DIGITS, MLP, PROGRAM, ROBUST, grapeshot, grapeshot_json, needs_program

np = pytest.importorskip("numpy")
onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

pytestmark = needs_program

SCRIPTS = ROOT / "vnncomp"


def spec(inputs, outputs, asserts):
    """A VNN-LIB file with inputs in [0, 1]."""
    lines = [f"(declare-const X_{i} Real)" for i in range(inputs)]
    lines += [f"(declare-const Y_{i} Real)" for i in range(outputs)]
    lines += [f"(assert (>= X_{i} 0)) (assert (<= X_{i} 1))" for i in range(inputs)]
    return "\n".join([*lines, *asserts]) + "\n"


def small_net(path, nodes, inputs=2, outputs=1, constants=(), integers=()):
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [value("x", 1, (1, inputs))],
        [value("y", 1, (1, outputs))],
        [
            *(onnx.numpy_helper.from_array(np.asarray(a, np.float32), n) for n, a in constants),
            *(onnx.numpy_helper.from_array(np.asarray(a, np.int64), n) for n, a in integers),
        ],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)])
    model.ir_version = 8
    path.write_bytes(model.SerializeToString())
    return path


def node(op, inputs, outputs, **attributes):
    return onnx.helper.make_node(op, inputs, outputs, **attributes)


def values(text, letter):
    """The numbers of a witness in VNN-COMP's text, by index."""
    pairs = [p.strip("() \n").split() for p in text.replace("sat", "").split("(") if f"{letter}_" in p]
    found = {int(name.split("_")[1]): float(value) for name, value in pairs}
    return [found[i] for i in range(len(found))]


def runtime(path, x):
    data = pathlib.Path(path).read_bytes()
    session = ort.InferenceSession(data, providers=["CPUExecutionProvider"])
    port = session.get_inputs()[0]
    shape = [d if isinstance(d, int) and d > 0 else 1 for d in port.shape]
    return session.run(None, {port.name: np.reshape(np.asarray(x, np.float32), shape)})[0].ravel()


def test_sat_is_the_first_line_and_the_witness_holds_in_onnxruntime(tmp_path):
    place = tmp_path / "w.txt"
    done = grapeshot("falsify", MLP, BREAKABLE, "--timeout", 20, "--witness", place, status=1)
    assert done.stdout.splitlines()[0] == "sat"
    assert place.read_text().startswith("sat\n((X_0 ")
    x, y = values(place.read_text(), "X"), values(place.read_text(), "Y")
    assert all(np.float32(v) == v for v in x)
    np.testing.assert_allclose(runtime(MLP, x), y, rtol=1e-4, atol=1e-5)
    assert grapeshot("check", MLP, BREAKABLE, place).returncode == 0


def test_without_a_file_the_witness_is_on_stdout():
    done = grapeshot("falsify", MLP, BREAKABLE, "--quiet", status=1)
    assert done.stdout.startswith("sat\n((X_0 ")
    assert len(values(done.stdout, "Y")) == 10
    assert done.stderr == ""


def test_a_witness_as_an_array_has_the_shape_of_the_input(tmp_path):
    place = tmp_path / "w.npy"
    grapeshot("falsify", MLP, BREAKABLE, "--witness", place, status=1)
    assert np.load(place).dtype == np.float32
    assert grapeshot("check", MLP, BREAKABLE, place).returncode == 0


def test_json_replaces_the_first_line_and_says_how_it_was_found():
    said = grapeshot_json("falsify", MLP, BREAKABLE, "--seed", 3, status=1)
    assert said["answer"] == "sat"
    assert said["margin32"] <= 0 and said["margin64"] <= 0
    assert said["attack"] in {a["name"] for a in grapeshot_json("list", "attacks")["attacks"]}
    assert said["seconds"] >= said["start_up_s"]


def test_a_robust_instance_times_out_within_a_tenth_of_a_second():
    begin = time.monotonic()
    said = grapeshot_json("falsify", MLP, ROBUST, "--timeout", 2, status=0)
    assert said["answer"] == "timeout"
    assert said["best_margin"] > 0
    assert time.monotonic() - begin < 2.1 + 0.2  # starting a process is not ours to hurry


def test_a_network_whose_single_pass_takes_longer_than_the_limit(tmp_path):
    """384 x 384 pixels through 7 x 7 kernels of 64 channels, three times."""
    random = np.random.default_rng(1)
    kernel = [("k", random.normal(size=(64, 64, 7, 7)))]
    first = [("f", random.normal(size=(64, 1, 7, 7)))]
    steps = [node("Reshape", ["x", "image"], ["i"]), node("Conv", ["i", "f"], ["c0"], pads=[3] * 4)]
    steps += [node("Conv", [f"c{i}", "k"], [f"c{i + 1}"], pads=[3] * 4) for i in range(3)]
    steps += [node("ReduceMax", ["c3"], ["m"], axes=[1, 2, 3], keepdims=0), node("Reshape", ["m", "row"], ["y"])]
    net = small_net(
        tmp_path / "n.onnx", steps, inputs=384 * 384, constants=first + kernel,
        integers=[("image", [-1, 1, 384, 384]), ("row", [-1, 1])],
    )
    (tmp_path / "p.vnnlib").write_text(spec(384 * 384, 1, ["(assert (>= Y_0 1e30))"]))
    begin = time.monotonic()
    said = grapeshot_json("falsify", net, tmp_path / "p.vnnlib", "--timeout", 2.5, status=0)
    assert time.monotonic() - begin < 2.6 + 0.2  # starting a process is not ours to hurry
    assert said["answer"] == "timeout"


@pytest.mark.parametrize("limit", [0, 0.01])
def test_a_timeout_of_nothing_is_a_timeout(limit):
    done = grapeshot("falsify", MLP, BREAKABLE, "--timeout", limit, status=0)
    assert done.stdout == "timeout\n"
    assert "was over before the first input" in done.stderr


def test_the_same_seed_and_one_lane_give_the_same_witness(tmp_path):
    args = ("falsify", MLP, BREAKABLE, "--threads", 1, "--seed", 5, "--witness")
    for name in ("a", "b"):
        grapeshot(*args, tmp_path / name, status=1)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_one_attack_alone():
    assert grapeshot_json("falsify", MLP, BREAKABLE, "--attacks", "apgd", status=1)["attack"] == "apgd"


def test_an_attack_that_does_not_apply_leaves_nothing_to_try():
    said = grapeshot_json("falsify", MLP, BREAKABLE, "--attacks", "grid", "--timeout", 30, status=0)
    assert said["answer"] == "unknown"
    assert said["seconds"] < 10


def test_an_empty_box_is_said_to_be_one(tmp_path):
    net = small_net(tmp_path / "n.onnx", [node("ReduceSum", ["x"], ["y"], keepdims=1)])
    # No float32 lies between the two.
    (tmp_path / "p.vnnlib").write_text(
        "(declare-const X_0 Real)(declare-const X_1 Real)(declare-const Y_0 Real)\n"
        "(assert (>= X_0 0.1000000001))(assert (<= X_0 0.1000000002))\n"
        "(assert (>= X_1 0))(assert (<= X_1 1))(assert (<= Y_0 5))\n"
    )
    done = grapeshot("falsify", net, tmp_path / "p.vnnlib", "--timeout", 10, status=0)
    assert done.stdout == "unknown\n"
    assert "no float32 input lies in its box" in done.stderr


def test_nothing_is_free(tmp_path):
    net = small_net(tmp_path / "n.onnx", [node("ReduceSum", ["x"], ["y"], keepdims=1)])
    text = spec(2, 1, ["(assert (>= Y_0 5))"]).replace("(<= X_0 1)", "(<= X_0 0)")
    (tmp_path / "p.vnnlib").write_text(text.replace("(<= X_1 1)", "(<= X_1 0)"))
    done = grapeshot("falsify", net, tmp_path / "p.vnnlib", "--timeout", 10, status=0)
    assert done.stdout == "unknown\n"
    assert "no input is free: all there are were tried" in done.stderr


def test_nan_is_told_and_kept_and_is_no_witness(tmp_path):
    """log of a negative number where x_0 + x_1 < 1."""
    net = small_net(
        tmp_path / "n.onnx",
        [
            node("ReduceSum", ["x"], ["s"], keepdims=1),
            node("Sub", ["s", "one"], ["d"]),
            node("Log", ["d"], ["y"]),
        ],
        constants=[("one", [[1.0]])],
    )
    (tmp_path / "p.vnnlib").write_text(spec(2, 1, ["(assert (>= Y_0 100))"]))
    place = tmp_path / "w.txt"
    args = ("falsify", net, tmp_path / "p.vnnlib", "--timeout", 2, "--witness", place)
    done = grapeshot(*args, status=0)
    assert done.stdout == "timeout\n"
    assert "the network's output is NaN" in done.stderr
    assert not place.exists()
    x = np.load(f"{place}.nan.npy")
    assert np.isnan(runtime(net, x)).any()
    assert grapeshot_json(*args, status=0)["nan"] is True
    pathlib.Path(f"{place}.nan.npy").unlink()
    pathlib.Path(f"{place}.nan.npy").mkdir()
    done = grapeshot(*args, status=0)
    assert done.stdout == "timeout\n"
    assert "could not be kept" in done.stderr


def test_a_witness_of_another_model(tmp_path):
    net = small_net(tmp_path / "n.onnx", [node("ReduceSum", ["x"], ["y"], keepdims=1)])
    (tmp_path / "p.vnnlib").write_text(spec(2, 1, ["(assert (<= Y_0 1))"]))
    place = tmp_path / "w.txt"
    grapeshot("falsify", net, tmp_path / "p.vnnlib", "--witness", place, status=1)
    done = grapeshot("check", MLP, BREAKABLE, place, status=1)
    assert "it has 2 inputs" in done.stdout


def test_onnxruntime_confirms_when_it_is_asked_to():
    said = grapeshot_json("falsify", MLP, BREAKABLE, "--confirm", "ort", status=1)
    assert said["onnxruntime"] is True
    done = grapeshot("falsify", MLP, BREAKABLE, "--confirm", "perhaps", status=2)
    assert "--confirm: 'perhaps' is not one of auto, ort, none" in done.stderr


def test_the_second_lane_says_as_well_why_onnxruntime_cannot_be_loaded(tmp_path):
    environment = {**os.environ, "GRAPESHOT_ONNXRUNTIME": str(tmp_path / "none.so")}
    for _ in range(8):  # which lane comes first is a matter of luck
        done = subprocess.run(
            [PROGRAM, "falsify", MLP, BREAKABLE, "--confirm", "ort", "--threads", "2"],
            env=environment, capture_output=True, text=True, timeout=60,
        )
        assert done.returncode == 3
        assert "none.so: cannot be loaded" in done.stderr


def test_a_witness_that_cannot_be_written_is_told_before_the_search(tmp_path):
    done = grapeshot("falsify", MLP, BREAKABLE, "--witness", tmp_path / "no" / "w.txt", status=2)
    assert "cannot be written" in done.stderr
    assert done.stdout == ""


def test_attacks_that_do_not_apply_are_said_not_to():
    done = grapeshot("falsify", MLP, BREAKABLE, "--attacks", "grid", "--timeout", 30, status=0)
    assert done.stdout == "unknown\n"
    assert "none of these attacks applies" in done.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--attacks", "sing"], "no attack is called 'sing'; known: centre"),
        (["--timeout", "-1"], "--timeout must be at least 0"),
        (["--timeout", "soon"], "--timeout"),
    ],
)
def test_bad_options(args, message):
    done = grapeshot("falsify", MLP, BREAKABLE, *args, status=2)
    assert message in done.stderr
    assert done.stdout == ""


def test_fuzz_takes_the_portfolio(tmp_path):
    said = grapeshot_json(
        "fuzz", MLP, BREAKABLE, ROBUST, "--mutations", "portfolio", "--seconds", 3,
        "--out", tmp_path / "run", status=1,
    )
    assert said["instances_falsified"] == 1
    assert grapeshot("replay", tmp_path / "run", status=0)
    done = grapeshot("fuzz", MLP, BREAKABLE, "--mutations", "portfolio", "--weights", "flip=1", status=2)
    assert "--weights must be left out with --mutations portfolio" in done.stderr


@pytest.mark.parametrize("norm", ["linf", "l0"])
def test_minimize_comes_closer_and_still_holds(tmp_path, norm):
    place, out = tmp_path / "w.npy", tmp_path / "small.npy"
    grapeshot("falsify", MLP, BREAKABLE, "--attacks", "corners,discrete,square", "--witness", place)
    if not place.exists():
        grapeshot("falsify", MLP, BREAKABLE, "--witness", place, status=1)
    said = grapeshot_json(
        "minimize", MLP, BREAKABLE, place, "--norm", norm, "--seconds", 3, "--out", out, status=0
    )
    assert 0 < said["after"] < said["before"]
    assert grapeshot("check", MLP, BREAKABLE, out).returncode == 0


def test_minimize_takes_a_finding_and_refuses_what_is_none(tmp_path):
    grapeshot("fuzz", MLP, BREAKABLE, "--seconds", 5, "--out", tmp_path / "run", status=1)
    finding = next((tmp_path / "run" / "findings").iterdir())
    said = grapeshot_json("minimize", finding, "--seconds", 2, status=0)
    assert pathlib.Path(said["out"]) == finding / "input-linf.npy"
    np.save(tmp_path / "zero.npy", np.zeros_like(np.load(finding / "input.npy")))
    done = grapeshot("minimize", MLP, BREAKABLE, tmp_path / "zero.npy", status=2)
    assert "no counterexample to begin with" in done.stderr
    assert "minimize takes a FINDING folder" in grapeshot("minimize", MLP, BREAKABLE, status=2).stderr


# --- benchmark folders ---------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """Three instances: two that break, one that does not."""
    place = tmp_path / "bench"
    place.mkdir()
    shutil.copy(MLP, place / "mlp.onnx")
    for name, source in (("a", BREAKABLE), ("b", ROBUST), ("c", BREAKABLE)):
        shutil.copy(source, place / f"{name}.vnnlib")
    (place / "instances.csv").write_text("".join(f"mlp.onnx,{n}.vnnlib,30\n" for n in "abc"))
    (place / "expected.csv").write_text(
        "onnx,vnnlib,verdict,best_tool,best_time_s\n"
        "mlp.onnx,a.vnnlib,sat,someone,100\nmlp.onnx,b.vnnlib,unsat,someone,1\n"
        "mlp.onnx,c.vnnlib,unknown,,\n"
    )
    return place


def test_vnncomp_counts_by_what_was_expected(folder, tmp_path):
    args = ("vnncomp", folder, "--timeouts", "sat=20,unsat=1,unknown=20", "--csv", tmp_path / "o.csv")
    said = grapeshot_json(*args, status=1)
    total = said["total"]
    assert (total["sat"], total["sat_broken"]) == (1, 1)
    assert (total["unsat"], total["unsat_broken"]) == (1, 0)
    assert (total["unknown"], total["unknown_broken"]) == (1, 1)
    assert (total["faster_than_best"], total["compared_with_best"]) == (1, 1)
    assert [e["vnnlib"] for e in said["unknown_broken"]] == ["c.vnnlib"]
    rows = list(csv.DictReader((tmp_path / "o.csv").open()))
    assert sorted(r["answer"] for r in rows) == ["sat", "sat", "timeout"]
    for row in rows:
        if row["answer"] == "sat":
            done = grapeshot("check", folder / row["onnx"], folder / row["vnnlib"], row["witness"])
            assert done.returncode == 0
    # Nothing runs again.
    begin = time.monotonic()
    again = grapeshot_json(*args, "--resume", status=1)
    assert time.monotonic() - begin < 1
    counts = {k: v for k, v in total.items() if not k.startswith("median")}
    assert {k: v for k, v in again["total"].items() if k in counts} == counts


def test_vnncomp_prints_a_table(folder):
    done = grapeshot("vnncomp", folder.parent, "--timeout", 1, cwd=folder.parent, status=1)
    assert "bench" in done.stdout
    assert "broken, unknown before:" in done.stdout


def test_planted_wrong_answers_of_another_tool_are_found(tmp_path):
    """Three of six answers `holds` are wrong."""
    place = tmp_path / "bench"
    place.mkdir()
    shutil.copy(MLP, place / "mlp.onnx")
    wrong = ["w0", "w1", "w2"]
    for name in wrong:
        shutil.copy(BREAKABLE, place / f"{name}.vnnlib")
    for name in ("r0", "r1", "r2"):
        shutil.copy(ROBUST, place / f"{name}.vnnlib")
    names = ["w0", "r0", "r1", "w1", "r2", "w2"]
    (place / "instances.csv").write_text("".join(f"mlp.onnx,{n}.vnnlib,30\n" for n in names))
    results = tmp_path / "results.csv"
    results.write_text(
        "".join(
            f"b,./benchmarks/bench/mlp.onnx,./benchmarks/bench/{n}.vnnlib,0.1,"
            f"{'holds' if i % 2 else 'unsat'},2.0\n"
            for i, n in enumerate(names)
        )
    )
    said = grapeshot_json(
        "vnncomp", place, "--results", results, "--timeout", 3,
        "--witnesses", tmp_path / "w", status=1,
    )
    assert sorted(e["vnnlib"] for e in said["unsat_broken"]) == [f"{n}.vnnlib" for n in wrong]
    assert all(pathlib.Path(e["witness"]).exists() for e in said["unsat_broken"])
    results.write_text("b,other.onnx,other.vnnlib,0,unsat,1\n")
    done = grapeshot("vnncomp", place, "--results", results, status=2)
    assert "calls no instance of these folders unsat" in done.stderr


def test_another_tools_row_is_not_taken_for_an_instance_of_the_same_name(tmp_path):
    """Two folders with a net and a specification of the same names; the row is about the second."""
    for name, source in (("one", BREAKABLE), ("two", ROBUST)):
        place = tmp_path / "all" / name
        place.mkdir(parents=True)
        shutil.copy(MLP, place / "m.onnx")
        shutil.copy(source, place / "p.vnnlib")
        (place / "instances.csv").write_text("m.onnx,p.vnnlib,30\n")
    results = tmp_path / "results.csv"
    results.write_text("two,./benchmarks/two/m.onnx,./benchmarks/two/p.vnnlib,0,unsat,1\n")
    args = ("vnncomp", tmp_path / "all", "--results", results, "--timeout", 1)
    said = grapeshot_json(*args, "--witnesses", tmp_path / "w", status=0)
    assert list(said["categories"]) == ["two"]
    assert said["unsat_broken"] == []
    results.write_text("x,m.onnx,p.vnnlib,0,unsat,1\n")  # either
    assert "or more than one" in grapeshot(*args, status=2).stderr


def test_vnncomp_bad_input(tmp_path):
    assert "no such folder" in grapeshot("vnncomp", tmp_path / "no", status=2).stderr
    assert "an instances.csv" in grapeshot("vnncomp", tmp_path, status=2).stderr
    done = grapeshot("vnncomp", DIGITS, "--timeouts", "sat:60", status=2)
    assert "--timeouts: 'sat:60' is not of the form verdict=seconds" in done.stderr


def test_an_instance_that_cannot_be_read_is_an_error_of_its_own(folder):
    (folder / "b.vnnlib").write_text("(assert\n")
    said = grapeshot_json("vnncomp", folder, "--timeout", 5, status=1)
    assert said["total"]["errors"] == 1
    assert said["total"]["sat_broken"] == 1


def script(name, *args):
    return subprocess.run(
        [SCRIPTS / name, *map(str, args)],
        env={**os.environ, "GRAPESHOT": str(PROGRAM)},
        capture_output=True, text=True, timeout=120,
    )


def test_the_competitions_scripts(tmp_path):
    results = tmp_path / "results.txt"
    packed = tmp_path / "mlp.onnx.gz"
    packed.write_bytes(gzip.compress(MLP.read_bytes()))
    assert script("prepare_instance.sh", "v1", "digits", MLP, BREAKABLE).returncode == 0
    assert script("prepare_instance.sh", "v1", "digits", tmp_path / "mlp.onnx", BREAKABLE).returncode == 0
    assert script("prepare_instance.sh", "v1", "digits", "none.onnx", BREAKABLE).returncode != 0
    for model, answer, limit in ((MLP, "sat", 20), (packed, "sat", 20), ("none.onnx", "error", 5)):
        done = script("run_instance.sh", "v1", "digits", model, BREAKABLE, results, limit)
        assert done.returncode == 0
        assert results.read_text().split("\n")[0] == answer
    begin = time.monotonic()
    assert script("run_instance.sh", "v1", "digits", MLP, ROBUST, results, 3).returncode == 0
    assert results.read_text() == "timeout\n"
    assert time.monotonic() - begin < 3
    script("run_instance.sh", "v1", "digits", MLP, BREAKABLE, results, 20)
    text = results.read_text()
    assert text.startswith("sat\n((X_0 ") and text.rstrip().endswith("))")
    assert len(values(text, "X")) == 64 and len(values(text, "Y")) == 10


def test_list_attacks_has_a_sentence_for_each():
    rows = grapeshot_json("list", "attacks")["attacks"]
    assert len(rows) >= 20
    assert all(row["summary"].endswith(".") for row in rows)
    assert json.dumps(rows)
