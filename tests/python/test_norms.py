"""Balls: projections are compared with SciPy's, findings measured by NumPy and judged by ONNX Runtime."""

import json
import shutil
import subprocess

import pytest
from perturbed import X, Y, digits, findings, instances, predict, run  # noqa: F401
from program import MLP, PROGRAM, grapeshot, grapeshot_json, needs_program

np = pytest.importorskip("numpy")

pytestmark = needs_program

PROBE = PROGRAM.parent / "project_probe"
ORDER = {"l2": 2, "l1": 1}


# --- projections


def project(folder, norm, x, lo, hi, centre, radius):
    if not PROBE.exists():
        pytest.skip("project_probe is not built")
    names = {"x": x, "lo": lo, "hi": hi, "centre": centre, "radius": radius}
    for name, values in names.items():
        np.save(folder / f"{name}.npy", values)
    subprocess.run([PROBE, norm, folder], check=True, timeout=60)
    return np.load(folder / "projected.npy")


def random_sets(random, n, d):
    centre = random.uniform(-1, 1, (n, d)).astype(np.float32)
    lo = (centre - random.uniform(0, 1, (n, d))).astype(np.float32)
    hi = (centre + random.uniform(0, 1, (n, d))).astype(np.float32)
    fixed = random.uniform(size=(n, d)) < 0.1
    lo[fixed], hi[fixed] = centre[fixed], centre[fixed]
    radius = random.uniform(0.05, 2, n)
    x = random.normal(0, 2, (n, d)).astype(np.float32)
    return x, lo, hi, centre, radius


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_projection_is_what_scipy_finds(tmp_path, norm):
    optimize = pytest.importorskip("scipy.optimize")
    sets = random_sets(np.random.default_rng(1), 25, 4)
    for x, lo, hi, c, r, got in zip(*sets, project(tmp_path, norm, *sets)):
        v, c = x.astype(np.float64), c.astype(np.float64)
        d = len(v)
        # Changes up and down as variables of their own: a quadratic program for either norm.
        up, down = (hi - c).astype(np.float64), (c - lo).astype(np.float64)
        limit = (lambda z: r - z.sum()) if norm == "l1" else (lambda z: r**2 - ((z[:d] - z[d:]) ** 2).sum())
        best = optimize.minimize(
            lambda z: ((c + z[:d] - z[d:] - v) ** 2).sum(),
            np.zeros(2 * d),
            jac=lambda z: np.concatenate([2 * (c + z[:d] - z[d:] - v), -2 * (c + z[:d] - z[d:] - v)]),
            bounds=[(0, b) for b in np.concatenate([up, down])],
            constraints={"type": "ineq", "fun": limit},
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        reference = c + best.x[:d] - best.x[d:]
        assert ((got - v) ** 2).sum() <= ((reference - v) ** 2).sum() + 1e-5
        assert np.abs(got - reference).max() < 2e-3
        assert np.linalg.norm(got.astype(np.float64) - c, ORDER[norm]) <= r


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_projection_of_many_inputs_is_that_of_bisection(tmp_path, norm):
    x, lo, hi, c, r = random_sets(np.random.default_rng(2), 50, 700)
    got = project(tmp_path, norm, x, lo, hi, c, r * 4).astype(np.float64)
    r = r * 4
    v, c, lo, hi = (a.astype(np.float64) for a in (x, c, lo, hi))

    def at(q):
        change = v - c
        shrunk = np.sign(change) * np.maximum(np.abs(change) - q, 0) if norm == "l1" else change / (1 + q)
        return np.clip(c + shrunk, lo, hi)

    low, high = np.zeros((50, 1)), np.full((50, 1), 1e6)
    for _ in range(200):
        middle = (low + high) / 2
        over = np.linalg.norm(at(middle) - c, ORDER[norm], axis=1, keepdims=True) > r[:, None]
        low, high = np.where(over, middle, low), np.where(over, high, middle)
    assert np.abs(got - at(high)).max() < 1e-6
    assert (np.linalg.norm(got - c, ORDER[norm], axis=1) <= r).all()
    assert ((got >= lo) & (got <= hi)).all()


# --- fuzz --norm


@pytest.mark.parametrize("mutations", ["default", "paper", "portfolio"])
@pytest.mark.parametrize(("norm", "eps"), [("l2", 0.8), ("l1", 4.0)])
def test_findings_lie_in_their_ball(tmp_path, digits, norm, eps, mutations):
    x, y = digits
    out = tmp_path / "run"
    summary = run(
        MLP, "--data", x, "--labels", y, "--eps", eps, "--norm", norm, "--mutations", mutations, out=out, candidates=3000
    )
    assert summary["instances_falsified"] > 0, "nothing to look at"
    labels = np.load(y)
    for folder, about, found, original in findings(out):
        size = np.linalg.norm(found.astype(np.float64) - original.astype(np.float64), ORDER[norm])
        assert size <= eps
        assert about["norm"] == norm and about["radius"] == eps
        assert about["distance"] == pytest.approx(size, rel=1e-9)
        assert predict(MLP, [found])[0].argmax() != labels[about["instance"]]
        assert np.array_equal(original, np.load(x)[about["instance"]].ravel())
        checked = grapeshot_json("check", MLP, folder / "property.json", folder / "input.npy", status=0)
        assert checked["norm"] == norm and checked["distance"] == pytest.approx(size, rel=1e-9)
    replayed = grapeshot("replay", out, status=0).stdout
    assert f"; {norm} distance " in replayed and f" of at most {eps:g}" in replayed


def test_check_and_replay_see_what_leaves_the_ball(tmp_path, digits):
    x, y = digits
    out = tmp_path / "run"
    run(MLP, "--data", x, "--labels", y, "--eps", 0.8, "--norm", "l2", out=out)
    folder, about, found, original = next(findings(out))
    moved = original + (found - original) * np.float32(1.02 * 0.8 / about["distance"])
    np.save(tmp_path / "far.npy", moved)
    said = grapeshot("check", MLP, folder / "property.json", tmp_path / "far.npy", status=1).stdout
    assert said.startswith("does not hold: ") and "l2 distance" in said or "its upper bound" in said
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(folder, elsewhere)
    np.save(elsewhere / "input.npy", moved.reshape(np.load(folder / "input.npy").shape))
    assert "NOT CONFIRMED" in grapeshot("replay", elsewhere, status=1).stdout


@pytest.mark.parametrize("norm", ["l2", "l1", "linf"])
def test_minimize_shortens_in_its_norm(tmp_path, digits, norm):
    x, y = digits
    out = tmp_path / "run"
    run(MLP, "--data", x, "--labels", y, "--eps", 1.5, "--norm", "l2", out=out)
    folder, about, found, original = next(findings(out))
    said = grapeshot_json(
        "minimize", folder, "--norm", norm, "--seconds", 4, "--out", tmp_path / "small.npy", status=0, timeout=60
    )
    order = {"l2": 2, "l1": 1, "linf": np.inf}[norm]
    small = np.load(tmp_path / "small.npy").ravel().astype(np.float64)
    assert said["after"] == pytest.approx(np.linalg.norm(small - original, order), rel=1e-6)
    assert said["after"] <= said["before"]
    grapeshot("check", MLP, folder / "property.json", tmp_path / "small.npy", status=0)


def test_l2_breaks_what_its_box_alone_does_not_hold(tmp_path, digits):
    """The ball of linf holds those of l2 and l1: whatever these break, it breaks."""
    x, y = digits
    broken = {}
    for norm in ("linf", "l2", "l1"):
        out = tmp_path / norm
        run(MLP, "--data", x, "--labels", y, "--eps", 0.5, "--norm", norm, out=out, candidates=8000)
        broken[norm] = {i for i, each in enumerate(instances(out)) if each["verdict"] == "broken"}
    assert broken["l1"] <= broken["l2"] <= broken["linf"]
    assert len(broken["linf"]) > len(broken["l1"])


def test_campaigns_on_a_ball_repeat_themselves_and_resume(tmp_path, digits):
    x, y = digits
    args = ("--data", x, "--labels", y, "--eps", 0.5, "--norm", "l2", "--keep-going")
    for name in ("a", "b"):
        run(MLP, *args, out=tmp_path / name)
    inputs = [[f[2].tobytes() for f in findings(tmp_path / name)] for name in ("a", "b")]
    assert inputs[0] == inputs[1] and inputs[0]
    about = json.loads((tmp_path / "a" / "run.json").read_text())["files"]
    assert about["norm"] == "l2" and about["eps"] == 0.5
    resumed = grapeshot_json("resume", tmp_path / "a", "--candidates", 6000, timeout=60)
    assert resumed["candidates"] >= 6000
    assert all(f[1]["norm"] == "l2" for f in findings(tmp_path / "a"))


BALL = {"norm": "l2", "radius": 0.5, "center": 0.5}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ball": {"norm": "l7", "radius": 1, "center": 0}}, "inputs.ball.norm: no norm of a ball is called 'l7'"),
        ({"ball": {"norm": "l2", "radius": 0, "center": 0}}, "inputs.ball.radius: must be above 0"),
        ({"ball": {"norm": "l2", "radius": -1, "center": 0}}, "inputs.ball.radius"),
        ({"ball": {"norm": "l2", "center": 0}}, "lacks 'radius'"),
        ({"ball": {"norm": "l2", "radius": 1}}, "inputs.ball: needs 'center'"),
        ({"ball": {**BALL, "center": [1, 2]}}, "inputs.ball.center"),
        ({"ball": {**BALL, "size": 1}}, "no key is called 'size' here"),
        ({"grid": -1}, "inputs.grid: its steps must be at least 0"),
        ({"grid": {"origin": 0}}, "lacks 'step'"),
        ({"one_hot": [[1]]}, "must name two features at least"),
        ({"one_hot": [[1, 2], [2, 3]]}, "shares feature 2 with another group"),
        ({"one_hot": [[1, 64]]}, "inputs.one_hot[0][1]"),
        ({"one_hot": []}, "inputs.one_hot: must hold a group"),
        ({"one_hot": 3}, "inputs.one_hot: must be an array"),
    ],
)
def test_bad_sets_in_specifications(tmp_path, change, message):
    spec = {"property": "set", "classes": [3], "inputs": {"lo": 0, "hi": 1, "ball": BALL, **change}}
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(spec))
    done = grapeshot("falsify", MLP, path, "--timeout", 2, status=2)
    assert message in done.stderr + done.stdout


def test_kinds_that_do_not_keep_to_sets_say_so(tmp_path):
    spec = {"property": "monotonicity", "output": 0, "increasing": [0], "inputs": {"lo": 0, "hi": 1, "ball": BALL}}
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    done = grapeshot("falsify", MLP, tmp_path / "spec.json", "--timeout", 2, status=2)
    assert "'ball' does not go with property monotonicity" in done.stderr + done.stdout


def test_a_ball_in_a_specification_is_searched_and_checked(tmp_path):
    x, label = np.load(X)[0].ravel(), int(np.load(Y)[0])
    spec = {
        "property": "set",
        "classes": [label],
        "inputs": {"lo": 0, "hi": 1, "ball": {"norm": "l2", "radius": 2, "center": x.tolist()}},
    }
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    done = grapeshot("falsify", MLP, tmp_path / "spec.json", "--timeout", 20, "--witness", tmp_path / "w.npy")
    assert done.stdout.startswith("sat")
    found = np.load(tmp_path / "w.npy").ravel()
    assert np.linalg.norm(found.astype(np.float64) - x) <= 2 and found.min() >= 0 and found.max() <= 1
    assert predict(MLP, [found])[0].argmax() != label
