"""Grids, one-hot groups, targets and lists of eps: findings are measured by NumPy and judged by ONNX Runtime."""

import json

import pytest
from perturbed import X, Y, digits, findings, instances, predict, run  # noqa: F401
from program import BREAKABLE, MLP, grapeshot, needs_program

np = pytest.importorskip("numpy")
onnx = pytest.importorskip("onnx")

pytestmark = needs_program

ORDER = {"l2": 2, "l1": 1}

# --- grids


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
@pytest.mark.parametrize("mutations", ["default", "portfolio"])
def test_findings_lie_on_the_grid(tmp_path, digits, norm, mutations):
    x, y = digits
    eps = {"linf": 0.26, "l2": 1.5, "l1": 6.0}[norm]
    out = tmp_path / "run"
    summary = run(
        MLP, "--data", x, "--labels", y, "--eps", eps, "--norm", norm, "--grid", 0.0625, "--mutations", mutations, out=out
    )
    assert summary["instances_falsified"] > 0
    labels = np.load(y)
    for folder, about, found, original in findings(out):
        assert np.array_equal(found * 16, np.round(found * 16))
        order = {"linf": np.inf, **ORDER}[norm]
        assert np.linalg.norm(found.astype(np.float64) - original, order) <= eps
        assert predict(MLP, [found])[0].argmax() != labels[about["instance"]]
    grapeshot("replay", out, status=0)
    aside = found.copy()
    inputs = json.loads((folder / "property.json").read_text())["inputs"]
    aside[np.argmax(found < inputs["hi"])] += np.float32(0.001)
    np.save(tmp_path / "aside.npy", aside)
    assert "off the grid of step 0.0625" in grapeshot(
        "check", MLP, folder / "property.json", tmp_path / "aside.npy", status=1
    ).stdout


def test_falsify_and_fuzz_keep_to_the_grid_of_a_specification(tmp_path):
    witness = tmp_path / "witness.npy"
    done = grapeshot("falsify", MLP, BREAKABLE, "--grid", 0.03125, "--timeout", 20, "--witness", witness)
    assert done.stdout.splitlines()[0] == "sat"
    found = np.load(witness).ravel()
    assert np.array_equal(found * 32, np.round(found * 32))
    grapeshot("check", MLP, BREAKABLE, witness, status=0)
    out = tmp_path / "run"
    run(MLP, BREAKABLE, "--grid", 0.03125, out=out)
    folder, about, found, _ = next(findings(out))
    assert about["grid"] == 0.03125 and np.array_equal(found * 32, np.round(found * 32))
    grapeshot("replay", out, status=0)
    aside = np.load(folder / "input.npy")
    aside.ravel()[np.argmax(aside.ravel() > 0.2)] += np.float32(1e-4)
    np.save(folder / "input.npy", aside)
    said = grapeshot("replay", out, status=1).stdout
    assert "off the grid" in said or "bound" in said


def test_a_grid_without_values_in_a_box_is_said(tmp_path, digits):
    x, y = digits
    done = grapeshot(
        *("fuzz", MLP, "--data", x, "--labels", y, "--eps", 0.01, "--grid", 0.7, "--candidates", 100), "--out", tmp_path / "run"
    )
    assert done.returncode == 0
    assert "no float32 input lies in its box" in done.stderr


# --- one-hot groups


@pytest.fixture
def categories(tmp_path):
    """A network that minds categories alone: group 2-4 decides with group 6-7, the others hardly."""
    weight = np.zeros((8, 2), np.float32)
    weight[:, 1] = [0.01, 0.01, 0.0, -0.4, 0.4, 0.01, 0.0, 0.7]
    nodes = [onnx.helper.make_node("Gemm", ["x", "w", "b"], ["y"])]
    graph = onnx.helper.make_graph(
        nodes,
        "categories",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 8])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 2])],
        [
            onnx.numpy_helper.from_array(weight, "w"),
            onnx.numpy_helper.from_array(np.array([1.0, 0.0], np.float32), "b"),
        ],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=10)
    onnx.save(model, tmp_path / "categories.onnx")
    x = np.zeros((3, 8), np.float32)
    x[:, :2], x[:, 5] = 0.25, 0.5
    x[0, [2, 6]] = x[1, [3, 6]] = x[2, [3, 7]] = 1
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", np.zeros(3, np.int64))
    return tmp_path


def category_args(folder, *more):
    return (
        *("--data", folder / "x.npy", "--labels", folder / "y.npy", "--eps", 0.1, "--one-hot", "2-4,6+7"),
        *more,
    )


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("mutations", ["default", "paper", "portfolio", "flip", "random", "boundary", "descent"])
def test_groups_keep_one_1_which_moves(categories, mutations, norm):
    out = categories / "run"
    summary = run(
        categories / "categories.onnx",
        *category_args(categories, "--norm", norm, "--mutations", mutations),
        out=out,
        candidates=2000,
    )
    # Only both categories together reach the other class: 0.4 + 0.7 against 1.
    assert summary["instances_falsified"] == 3
    for _, about, found, original in findings(out):
        assert sorted(found[2:5]) == [0, 0, 1] and sorted(found[6:]) == [0, 1]
        assert found[4] == 1 and found[7] == 1
        assert np.abs(found - original)[[0, 1, 5]].max() <= np.float32(0.1)
    grapeshot("replay", out, status=0)
    folder, *_ = next(findings(out))
    two = np.load(folder / "input.npy")
    two[..., 3] = 1
    np.save(categories / "two.npy", two)
    assert "exactly one of them must be 1" in grapeshot(
        "check", categories / "categories.onnx", folder / "property.json", categories / "two.npy", status=1
    ).stdout


def test_frozen_features_fix_their_group(categories):
    frozen = np.zeros((3, 8), np.uint8)
    frozen[0, 2] = 1  # where the 1 is: the group stays
    frozen[1, 4] = 1  # a category that is not taken
    np.save(categories / "frozen.npy", frozen)
    out = categories / "run"
    run(
        categories / "categories.onnx",
        *category_args(categories, "--frozen", categories / "frozen.npy"),
        out=out,
        candidates=1500,
    )
    assert [each["verdict"] for each in instances(out)] == ["unbroken", "unbroken", "broken"]


# --- targets


def test_target_counts_that_label_alone(tmp_path, digits):
    x, y = digits
    labels = np.load(y)
    target = int(np.bincount(labels).argmin())
    out = tmp_path / "run"
    summary = run(MLP, "--data", x, "--labels", y, "--eps", 0.25, "--target", target, out=out, candidates=8000)
    assert summary["instances"] == (labels != target).sum()
    assert summary["instances_falsified"] > 0
    for _, about, found, _ in findings(out):
        assert predict(MLP, [found])[0].argmax() == target
        assert about["instance_name"].endswith(f" to {target}")
    grapeshot("replay", out, status=0)
    assert {each["target"] for each in instances(out)} == {str(target)}


def test_every_target_is_an_instance(tmp_path, digits):
    x, y = digits
    np.save(tmp_path / "one.npy", np.load(x)[:1])
    np.save(tmp_path / "label.npy", np.load(y)[:1])
    out = tmp_path / "run"
    summary = run(
        *(MLP, "--data", tmp_path / "one.npy", "--labels", tmp_path / "label.npy", "--eps", 0.35, "--target", "all"),
        out=out,
    )
    assert summary["instances"] == 9
    assert summary["instances_falsified"] >= 2
    for _, about, found, _ in findings(out):
        target = int(instances(out)[about["instance"]]["target"])
        assert predict(MLP, [found])[0].argmax() == target
    # A row is broken when any of its targets was reached.
    assert summary["robust_accuracy"] == [{"eps": 0.35, "rows": 1, "robust": 0, "accuracy": 0.0}]


# --- lists of eps


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_robust_accuracy_at_each_eps(tmp_path, digits, norm):
    x, y = digits
    radii = {"linf": [0.03, 0.08, 0.2], "l2": [0.2, 0.5, 1.2]}[norm]
    text = ",".join(map(str, [radii[1], radii[0], radii[2]]))  # in any order
    out = tmp_path / "run"
    done = grapeshot(
        *("fuzz", MLP, "--data", x, "--labels", y, "--eps", text, "--norm", norm, "--threads", 1),
        *("--candidates", 12000, "--out", out),
    )
    summary = json.loads((out / "summary.json").read_text())
    rows = instances(out)
    assert len(rows) == 36
    assert [each["eps"] for each in summary["robust_accuracy"]] == radii
    # Counted anew from the table of instances, and from the findings themselves.
    least = {}
    for row in rows:
        if row["verdict"] == "broken":
            least[row["row"]] = min(least.get(row["row"], 9), float(row["eps"]))
    assert summary["smallest_eps"] == least and least
    for each in summary["robust_accuracy"]:
        robust = 12 - sum(e <= each["eps"] for e in least.values())
        assert each == {"eps": each["eps"], "rows": 12, "robust": robust, "accuracy": robust / 12}
        assert f"{each['eps']:g} " in done.stdout and f"{100 * robust / 12:.1f} %" in done.stdout
    accuracies = [each["accuracy"] for each in summary["robust_accuracy"]]
    assert accuracies == sorted(accuracies, reverse=True)
    # A break at an eps is one at every larger one, without a finding of its own; what a larger one found and a smaller
    # one holds counts there.
    for row, eps in least.items():
        assert all(r["verdict"] == "broken" for r in rows if r["row"] == row and float(r["eps"]) >= eps)
    order = {"linf": np.inf, "l2": 2}[norm]
    for _, about, found, original in findings(out):
        row = rows[about["instance"]]
        size = np.linalg.norm(found.astype(np.float64) - original, order)
        assert size <= float(row["eps"]) * (1 + 1e-6)
        assert least[row["row"]] <= float(row["eps"])
        assert all(size > e * (1 - 1e-6) or least[row["row"]] <= e for e in radii)
    grapeshot("replay", out, status=0)


def test_what_a_smaller_eps_broke_is_not_searched_again(tmp_path, digits):
    x, y = digits
    out = tmp_path / "run"
    # A huge first eps breaks everything: the campaign is over, whatever the budget. One input at a time, since both
    # radii of a row may be broken in the same batch.
    summary = run(MLP, "--data", x, "--labels", y, "--eps", "0.9,1.8", "--batch", 1, out=out, candidates=400000)
    assert summary["instances_falsified"] == 24
    assert summary["candidates"] < 400000
    assert len(list(findings(out))) < 24


# --- bad input

DATA = ("fuzz", MLP, "--data", X, "--labels", Y)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((*DATA, "--eps", "0.1", "--norm", "l3"), "no norm of a ball is called 'l3'"),
        ((*DATA, "--eps", "0.1,-0.2"), "--data needs a finite --eps above 0"),
        ((*DATA, "--eps", "0.1,0.1"), "--eps names a radius twice"),
        ((*DATA, "--eps", "0.1,x"), "--eps"),
        ((*DATA, "--eps", "0.1", "--grid", "-1"), "--grid: must be a finite number above 0"),
        ((*DATA, "--eps", "0.1", "--grid", "0"), "--grid: must be a finite number above 0"),
        ((*DATA, "--eps", "0.1", "--grid", "0.1", "--integer"), "--integer excludes --grid"),
        ((*DATA, "--eps", "0.1", "--one-hot", "3"), "'3' is no group of two inputs or more"),
        ((*DATA, "--eps", "0.1", "--one-hot", "3-99"), "names '99', which is no input from 0 to 63"),
        ((*DATA, "--eps", "0.1", "--one-hot", "3-5,5-7"), "input 5 is in '5-7' and in a group before it"),
        ((*DATA, "--eps", "0.1", "--one-hot", "3-5"), "row 0: inputs 3 to 5, a group of --one-hot, are not a single 1"),
        ((*DATA, "--eps", "0.1", "--target", "10"), "--target: '10' is neither a label from 0 to 9 nor all"),
        ((*DATA, "--eps", "0.1", "--target", "any"), "--target: 'any' is neither"),
        (("fuzz", MLP, BREAKABLE, "--norm", "l2"), "--norm requires --data"),
        (("fuzz", MLP, BREAKABLE, "--target", "2"), "--target requires --data"),
        (("falsify", MLP, BREAKABLE, "--grid", "inf"), "--grid: must be a finite number above 0"),
    ],
)
def test_bad_options(tmp_path, args, message):
    more = ("--out", tmp_path / "run", "--candidates", 10) if args[0] == "fuzz" else ()
    done = grapeshot(*args, *more, status=2)
    assert message in done.stderr and "\n" not in done.stderr.strip()
