"""Properties that JSON specifications state: what is found is a violation by definition, what holds is not claimed."""

import json
import subprocess
import sys

import numpy as np
import onnx
import pytest
from conftest import ROOT
from onnx import TensorProto, helper, numpy_helper
from program import DIGITS, grapeshot, grapeshot_json, needs_program

import exact_vnnlib
import property_oracle

FOLDER = ROOT / "examples" / "properties"
HOLD = {
    "diabetes_safe_fairness",
    "diabetes_safe_monotonicity",
    "diabetes_safe_bounds",
    "wine_mlp_set_outputs",
    "bag_max_permutation",
    "rows_slow_temporal",
}
SPECS = sorted(p.stem for p in FOLDER.glob("*.json"))
BROKEN = [s for s in SPECS if s not in HOLD]

pytestmark = needs_program


def model_of(spec):
    return FOLDER / ("_".join(spec.split("_")[:2]) + ".onnx")


def test_the_script_makes_what_is_committed():
    script = ROOT / "tools" / "make_property_examples.py"
    done = subprocess.run(
        [sys.executable, script, "--check"], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    """A run over all examples: {specification: folder of a finding}, and the run's folder."""
    out = tmp_path_factory.mktemp("properties") / "run"
    instances = FOLDER / "instances.csv"
    grapeshot(
        *("fuzz", "--instances", instances, "--seconds", 5, "--threads", 1, "--out", out), status=1
    )
    found = {}
    for folder in sorted((out / "findings").iterdir()):
        said = json.loads((folder / "finding.json").read_text())
        found[said["instance_name"].removesuffix(".json")] = folder
    return found, out


def test_every_kind_has_one_that_is_broken_and_one_that_holds(campaign):
    kinds = {row["name"] for row in grapeshot_json("list", "properties")["properties"]}
    kind_of = {s: json.loads((FOLDER / f"{s}.json").read_text())["property"] for s in SPECS}
    assert {kind_of[s] for s in BROKEN} == kinds == {kind_of[s] for s in HOLD}
    assert set(property_oracle.DEFINITIONS) == kinds
    assert set(campaign[0]) >= set(BROKEN)


def test_what_holds_is_not_claimed(campaign):
    assert not set(campaign[0]) & HOLD


def test_ties_are_no_violations_of_what_holds(tmp_path):
    """Not for the search either: what it would have to confirm, and throw away, are all of them."""
    run = tmp_path / "run"
    spec = FOLDER / "diabetes_safe_monotonicity.json"
    grapeshot(
        *("fuzz", FOLDER / "diabetes_safe.onnx", spec, "--seconds", 1, "--out", run), status=0
    )
    summary = json.loads((run / "summary.json").read_text())
    assert summary["candidates"] > 0 and summary["violations"] == 0


def test_every_finding_is_a_violation_by_definition_of_the_network_as_it_is(campaign):
    found, _ = campaign
    assert found
    for spec, folder in found.items():
        assert property_oracle.is_violation(folder), spec


def test_findings_replay_in_their_own_words(campaign):
    _, out = campaign
    said = grapeshot("replay", out, status=0).stdout
    assert "NOT" not in said
    assert "with sex 1 -> 2: class high -> low" in said or "sex 1 -> 2: class low -> high" in said
    assert "falls from" in said and "with its elements in the order" in said
    summary = json.loads((out / "summary.json").read_text())
    assert set(summary["words"]) == {f.name for f in (out / "findings").iterdir()}


def test_a_network_of_two_runs_is_both_runs_and_what_compares_them(campaign):
    found, _ = campaign
    checked = set()
    for spec in ("diabetes_class_fairness", "cancer_mlp_monotonicity", "bag_mlp_permutation"):
        folder = found[spec]
        said = json.loads((folder / "finding.json").read_text())
        both = onnx.load(said["network"])
        onnx.checker.check_model(both, full_check=True)
        checked.add(both.opset_import[0].version)
        f = property_oracle.network(said["model"])
        whole = np.load(folder / "input.npy")
        x, z = (np.load(folder / f"{name}.npy") for name in ("first", "second"))
        y = property_oracle.network(said["network"])(whole)
        k = len(f(x))
        np.testing.assert_allclose(y[:k], f(x), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(y[k : 2 * k], f(z), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(said["outputs"], y, rtol=1e-4, atol=1e-4)
        # Its box and case, read and evaluated by another program.
        inputs, outputs, asserted = exact_vnnlib.parse((folder / "region.vnnlib").read_text())
        assert (inputs, outputs) == (whole.size, y.size)
        assert all(exact_vnnlib.holds(e, whole.ravel(), y) for e in asserted)
        witness = folder / "input.npy"
        grapeshot("check", said["network"], folder / "region.vnnlib", witness, status=0)
    assert checked == {9, 13, 18}, "opsets write reductions in different ways"


@pytest.mark.parametrize("spec", ["rows_conv_temporal", "wine_mlp_set", "diabetes_class_fairness"])
def test_falsify_answers_within_seconds_and_onnxruntime_agrees(spec, tmp_path):
    witness = tmp_path / "w.npy"
    answer = grapeshot_json(
        *("falsify", model_of(spec), FOLDER / f"{spec}.json", "--timeout", 10, "--threads", 1),
        *("--confirm", "ort", "--witness", witness),
        status=1,
    )
    assert answer["answer"] == "sat" and answer["onnxruntime"] is True and answer["words"]
    done = grapeshot("check", model_of(spec), FOLDER / f"{spec}.json", witness, status=0)
    assert done.stdout.startswith(f"holds: {answer['words']}, margin")
    if "temporal" in spec:
        spec_json = json.loads((FOLDER / f"{spec}.json").read_text())
        f = property_oracle.network(model_of(spec))
        assert property_oracle.temporal(spec_json, f, np.load(witness).ravel(), None, FOLDER)


def test_a_finding_of_two_runs_gets_smaller(campaign, tmp_path):
    out = tmp_path / "smaller.npy"
    folder = campaign[0]["diabetes_value_fairness"]
    grapeshot("minimize", folder, "--seconds", 1, "--out", out, "--quiet", status=0)
    spec = FOLDER / "diabetes_value_fairness.json"
    grapeshot("check", model_of("diabetes_value_fairness"), spec, out, status=0)


def test_data_that_changed_since_is_noticed(tmp_path):
    np.save(tmp_path / "x.npy", np.load(FOLDER / "data" / "wine.npy"))
    spec = json.loads((FOLDER / "wine_mlp_set.json").read_text())
    for box in spec["inputs"]:
        box["center"]["file"] = "x.npy"
    (tmp_path / "s.json").write_text(json.dumps(spec))
    run = tmp_path / "run"
    grapeshot(
        *("fuzz", FOLDER / "wine_mlp.onnx", tmp_path / "s.json", "--seconds", 5, "--out", run), status=1
    )
    np.save(tmp_path / "x.npy", np.zeros((32, 13), np.float32))
    done = grapeshot("replay", run, status=1)
    assert "x.npy: changed since the finding was made" in done.stdout


# --- other networks -------------------------------------------------------------------------------


def linear_model(path, weights, bias, names=("h", "s")):
    """y = x weights + bias."""
    h, s = names
    weights = np.array(weights, np.float32)
    shapes = {"x": [1, weights.shape[0]], "y": [1, weights.shape[1]]}
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items())
    nodes = [
        helper.make_node("Identity", ["x"], [h]),
        helper.make_node("MatMul", [h, "w"], [s]),
        helper.make_node("Add", [s, "b"], ["y"]),
    ]
    given = [numpy_helper.from_array(weights, "w")]
    given.append(numpy_helper.from_array(np.array(bias, np.float32), "b"))
    graph = helper.make_graph(nodes, "g", [x], [y], given)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path
    )


def found_by(tmp_path, spec):
    """The finding's folder and its words, of a specification of net.onnx that is broken."""
    (tmp_path / "s.json").write_text(json.dumps(spec))
    run = tmp_path / "run"
    grapeshot(
        *("fuzz", tmp_path / "net.onnx", tmp_path / "s.json", "--seconds", 5, "--out", run), status=1
    )
    (folder,) = (run / "findings").iterdir()
    assert property_oracle.is_violation(folder)
    for network in run.glob("networks/*.onnx"):
        onnx.checker.check_model(network)
    return folder, json.loads((run / "summary.json").read_text())["words"][folder.name]


def test_either_value_of_a_protected_feature_may_be_the_first(tmp_path):
    """Class 1 where x1 - 10 x0 > 0.55: x0 = 1 has to lie in the box, x0 = 0 may leave it by eps."""
    linear_model(tmp_path / "net.onnx", [[0, -10], [0, 1]], [0, -0.55])
    spec = {"property": "fairness", "inputs": {"center": [0, 0.5]}, "protected": {"0": [0, 1]}, "eps": 0.1}
    folder, words = found_by(tmp_path, spec)
    assert words.startswith("an individual with feature 0 1 -> 0 (and feature 1 0.5 -> 0.")
    assert np.load(folder / "first.npy").ravel().tolist() == [1, 0.5]


@pytest.mark.parametrize("names", [("x/shape", "y/shape"), ("own/x/shape", "first")])
def test_tensors_called_as_those_that_two_runs_add(tmp_path, names):
    linear_model(tmp_path / "net.onnx", [[0, 2], [0, 1]], [0, -1.5], names)
    spec = {"property": "fairness", "inputs": {"lo": 0, "hi": 1}, "protected": {"0": [0, 1]}}
    found_by(tmp_path, spec)


def test_words_name_the_row_also_behind_a_box_without_a_float32(tmp_path):
    linear_model(tmp_path / "net.onnx", [[-1, 0], [0, 1]], [0, 0])
    np.save(tmp_path / "rows.npy", np.array([[0.1, 0.1], [0.25, 0.75]]))
    center = {"file": "rows.npy", "rows": "all"}
    spec = {"property": "set", "inputs": {"center": center, "eps": 1e-12}, "classes": [0]}
    _, words = found_by(tmp_path, spec)
    assert words.startswith("row 1: class 1 with 0.75")


def test_only_some_features_move(tmp_path):
    """Also for the oracle: what moves another feature is no violation."""
    linear_model(tmp_path / "net.onnx", [[1], [1]], [0])
    spec = {
        "property": "bounds",
        "inputs": {"center": [0, 0], "eps": 1, "only": [1]},
        "hi": 0.5,
    }
    found_by(tmp_path, spec)
    f = property_oracle.network(tmp_path / "net.onnx")
    assert property_oracle.bounds(spec, f, np.array([0, 0.75]), None, tmp_path)
    assert not property_oracle.bounds(spec, f, np.array([0.25, 0.75]), None, tmp_path)


def test_the_margin_of_one_class_among_many(tmp_path):
    """Without all pairs of 20,000 classes, which would be a file of 3 GB."""
    rng = np.random.default_rng(5)
    linear_model(tmp_path / "net.onnx", rng.normal(0, 1, (2, 20000)), np.zeros(20000))
    spec = {
        "property": "monotonicity",
        "inputs": {"lo": 0, "hi": 1},
        "increasing": [0],
        "class": 7,
    }
    folder, _ = found_by(tmp_path, spec)
    said = json.loads((folder / "finding.json").read_text())
    y = np.array(said["outputs"])
    fall = property_oracle.margin(y[20000:40000], 7) - property_oracle.margin(y[:20000], 7)
    np.testing.assert_allclose(y[40000], fall, rtol=1e-4, atol=1e-5)
    assert (folder.parent.parent / "networks" / "0.onnx").stat().st_size < 1_000_000


def odd_model(tmp_path, kind):
    """Four inputs, two outputs: y = (x0 - x3, x1 * 2), in ways that files have."""
    x = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])]
    y = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2])]
    w = np.array([[1, 0], [0, 2], [0, 0], [-1, 0]], np.float32)
    weights = [numpy_helper.from_array(w, "w")]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    version = 8
    if kind == "unsigned weights":
        # x[[0, 3, 1]] by indices of a type that torch does not compute with, then the same.
        weights = [numpy_helper.from_array(np.array([0, 3, 1], np.uint32), "which")]
        w = np.array([[1, 0], [-1, 0], [0, 2]], np.float32)
        weights.append(numpy_helper.from_array(w, "w"))
        nodes = [
            helper.make_node("Cast", ["which"], ["index"], to=TensorProto.INT64),
            helper.make_node("Gather", ["x", "index"], ["some"], axis=1),
            helper.make_node("MatMul", ["some", "w"], ["y"]),
        ]
    if kind.startswith("branch"):
        zeros = np.zeros(2, np.float32)
        # A branch that reads the weight, the input and a tensor of the graph from outside.
        inner = [
            helper.make_node("MatMul", ["h", "w"], ["inner"]),
            helper.make_node("Add", ["inner", "zero"], ["sum"]),
            helper.make_node("Constant", [], ["null"], value=numpy_helper.from_array(zeros, "null")),
            helper.make_node("Add", ["sum", "null"], ["out"]),
        ]
        out = [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)]
        zero = numpy_helper.from_array(zeros, "zero")
        branches = [helper.make_graph(inner, "b", [], out, [zero]) for _ in range(2)]
        nodes = [
            helper.make_node("Identity", ["x"], ["h"]),
            helper.make_node("If", ["yes"], ["y"], then_branch=branches[0], else_branch=branches[1]),
        ]
        weights.append(numpy_helper.from_array(np.array(True), "yes"))
    if kind == "ports":
        x = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in ("a", "b")]
        y = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1]) for n in ("y", "z")]
        weights = [numpy_helper.from_array(np.array([i], np.int64), f"i{i}") for i in (0, 1)]
        nodes = [
            helper.make_node("Gather", ["a", "i0"], ["a0"]),
            helper.make_node("Gather", ["b", "i1"], ["b1"]),
            helper.make_node("Sub", ["a0", "b1"], ["y"]),
            helper.make_node("Gather", ["a", "i1"], ["a1"]),
            helper.make_node("Add", ["a1", "a1"], ["z"]),
        ]
    if kind == "weights are inputs":
        x.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [4, 2]))
        version = 3
    graph = helper.make_graph(nodes, "g", x, y, weights)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 7 if version == 3 else 13)], ir_version=version
    )
    path = tmp_path / "net.onnx"
    onnx.save(
        model,
        path,
        save_as_external_data=kind in ("external data", "branch of external data", "unsigned weights"),
        convert_attribute=True,
        size_threshold=0,
        location="weights.bin",
    )
    return path


@pytest.mark.parametrize(
    "kind",
    [
        "branch",
        "ports",
        "weights are inputs",
        "external data",
        "branch of external data",
        "unsigned weights",
    ],
)
def test_two_runs_of_networks_as_files_have_them(tmp_path, kind):
    model = odd_model(tmp_path, kind)
    spec = {
        "property": "fairness",
        "inputs": {"lo": 0, "hi": 1},
        "protected": {"3": [0, 1]},
        "tolerance": 0.5,
    }
    (tmp_path / "s.json").write_text(json.dumps(spec))
    run = tmp_path / "run"
    grapeshot("fuzz", model, tmp_path / "s.json", "--seconds", 5, "--out", run, status=1)
    (folder,) = (run / "findings").iterdir()
    said = json.loads((folder / "finding.json").read_text())
    assert property_oracle.is_violation(folder)
    # On its own: the file of two runs has all weights in it.
    alone = property_oracle.network((run / "networks" / "0.onnx").read_bytes())
    whole = np.load(folder / "input.npy")
    assert alone(whole).tolist() == said["outputs"]
    answer = grapeshot_json(
        "falsify", model, tmp_path / "s.json", "--timeout", 10, "--confirm", "ort", status=1
    )
    assert answer["onnxruntime"] is True


@pytest.mark.parametrize("model", sorted(p.name for p in DIGITS.glob("*.onnx")))
def test_two_runs_of_the_digit_networks(tmp_path, model):
    """Convolutions, attention, signs, a final softmax, weights that are inputs: two pixels decide for some
    picture, and ONNX Runtime says so of both networks."""
    spec = {
        "property": "fairness",
        "inputs": {"lo": 0, "hi": 1},
        "protected": {"27": [0, 1], "36": {"lo": 0, "hi": 1}},
    }
    (tmp_path / "s.json").write_text(json.dumps(spec))
    run = tmp_path / "run"
    grapeshot("fuzz", DIGITS / model, tmp_path / "s.json", "--seconds", 10, "--out", run, status=1)
    (folder,) = (run / "findings").iterdir()
    assert property_oracle.is_violation(folder)
    both = property_oracle.network(run / "networks" / "0.onnx")
    x, z = (np.load(folder / f"{name}.npy") for name in ("first", "second"))
    f = property_oracle.network(DIGITS / model)
    got = both(np.load(folder / "input.npy"))
    np.testing.assert_allclose(got[:20], np.concatenate([f(x), f(z)]), rtol=1e-3, atol=1e-4)


# --- the words of temporal logic --------------------------------------------------------------------


def random_formula(rng, depth, ahead):
    """One that looks at most `ahead` steps ahead, over two signals."""
    signal = int(rng.integers(2))
    number = float(rng.integers(-2, 3)) / 2
    kinds = ["above", "below", "within"] + ["change"] * (ahead > 0)
    if depth > 0:
        kinds = ["and", "or", "not", "if"] + ["always", "eventually", "until"] * (ahead > 0)
    kind = rng.choice(kinds)
    if kind in ("above", "below", "change"):
        return {kind: abs(number) if kind == "change" else number, "signal": signal}
    if kind == "within":
        return {kind: [number, number + 1], "signal": signal}
    if kind in ("and", "or"):
        return {kind: [random_formula(rng, depth - 1, ahead) for _ in range(2)]}
    if kind == "not":
        return {kind: random_formula(rng, depth - 1, ahead)}
    if kind == "if":
        return {key: random_formula(rng, depth - 1, ahead) for key in ("if", "then")}
    last = int(rng.integers(0, ahead + 1))
    steps = [int(rng.integers(0, last + 1)), last]
    if kind == "until":
        inner = [random_formula(rng, depth - 1, ahead - last) for _ in range(2)]
    else:
        inner = random_formula(rng, depth - 1, ahead - last)
    return {kind: inner} | ({"steps": steps} if last or rng.integers(2) else {})


def test_formulas_mean_what_their_definition_says(tmp_path):
    """On the identity, with small whole halves, so that ties are frequent: all formulas in one campaign, whose
    boxes are points."""
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "g",
        *([helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 10])] for n in ("x", "y")),
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, tmp_path / "identity.onnx")
    rng = np.random.default_rng(3)
    lines, expected = [], []
    for i in range(150):
        # The second part always holds, so that none is one that nothing can violate, which is refused.
        always = {"within": [-1, 1], "signal": 0}
        formula = {"and": [random_formula(rng, int(rng.integers(1, 4)), 4), always]}
        x = rng.integers(-2, 3, 10) / 2
        spec = {
            "property": "temporal",
            "inputs": {"center": x.tolist()},
            "steps": 5,
            "formula": formula,
        }
        (tmp_path / f"{i}.json").write_text(json.dumps(spec))
        lines.append(f"identity.onnx,{i}.json,10\n")
        expected.append(not property_oracle.satisfied(formula, x.reshape(5, 2)))
    (tmp_path / "instances.csv").write_text("".join(lines))
    run = tmp_path / "run"
    grapeshot(
        *("fuzz", "--instances", tmp_path / "instances.csv", "--seconds", 2, "--threads", 1),
        *("--out", run, "--quiet"),
        status=1,
    )
    found = {
        json.loads((f / "finding.json").read_text())["instance"] for f in (run / "findings").iterdir()
    }
    assert 40 < sum(expected) < 110
    wrong = [i for i, violated in enumerate(expected) if violated != (i in found)]
    assert not wrong, (tmp_path / f"{wrong[0]}.json").read_text()
