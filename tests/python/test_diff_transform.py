"""`grapeshot diff --transform`: what findings record of their transformations is what SciPy makes of the same."""

import json
import shutil

import pytest
from program import DIGITS, MLP, grapeshot, grapeshot_json, needs_program

np = pytest.importorskip("numpy")
onnx = pytest.importorskip("onnx")
ndimage = pytest.importorskip("scipy.ndimage")

pytestmark = needs_program

CNN, DIGIT = DIGITS / "cnn_bn.onnx", DIGITS / "data" / "X.npy"
LOW, HIGH = -1.0, 2.0  # of the images of three colours
RANDOM = ["pixels", "noise", "salt-and-pepper", "speckle"]


# --- the definitions, image by image: x [C, H, W] float64 -----------------------------------------


def moved(x, matrix):
    """By what comes from where, in rows and columns from the centre."""
    centre = (np.array(x.shape[1:]) - 1) / 2
    offset = centre - matrix @ centre
    move = {"order": 1, "mode": "grid-constant", "cval": 0.0}
    return np.stack([ndimage.affine_transform(c - LOW, matrix, offset, **move) for c in x]) + LOW


def translate(x, s):
    return ndimage.shift(x, (0, s["down"], s["right"]), order=0, mode="constant", cval=LOW)


def rotate(x, s):
    turn = {"reshape": False, "order": 1, "mode": "grid-constant", "cval": 0.0}
    return ndimage.rotate(x - LOW, s["degrees"], axes=(2, 1), **turn) + LOW


def gaussian(x, k):
    at = np.arange(k) - k // 2
    kernel = np.exp(-0.5 * (at / (0.3 * ((k - 1) / 2 - 1) + 0.8)) ** 2)
    for axis in (1, 2):
        x = ndimage.correlate1d(x, kernel / kernel.sum(), axis, mode="nearest")
    return x


def bilateral(x, radius=4):
    padded = np.pad(x, ((0, 0), (radius, radius), (radius, radius)), mode="edge")
    total, weights = np.zeros_like(x), np.zeros(x.shape[1:])
    for i in range(-radius, radius + 1):
        for j in range(-radius, radius + 1):
            if i * i + j * j > radius * radius:
                continue
            there = padded[:, radius + i :, radius + j :][:, : x.shape[1], : x.shape[2]]
            colour = np.abs(there - x).sum(0) / (HIGH - LOW) * 255
            weight = np.exp(-(i * i + j * j + colour**2) / (2 * 75.0**2))
            total, weights = total + there * weight, weights + weight
    return total / weights


def blur(x, s):
    kind = int(s["kind"])
    if kind in (1, 2, 3, 10):
        return ndimage.uniform_filter(x, (1, *[{1: 3, 2: 4, 3: 5, 10: 6}[kind]] * 2), mode="nearest")
    if kind in (4, 5, 6):
        return gaussian(x, 2 * kind - 5)
    if kind in (7, 8):
        return ndimage.median_filter(x, (1, *[2 * kind - 11] * 2), mode="nearest")
    return bilateral(x)


REFERENCE = {
    "translate": translate,
    "scale": lambda x, s: moved(x, np.eye(2) / s["factor"]),
    "shear": lambda x, s: moved(x, np.array([[1, 0], [s["factor"], 1]])),
    "rotate": rotate,
    "contrast": lambda x, s: (x - LOW) * s["factor"] + LOW,
    "brightness": lambda x, s: x + s["share"] * (HIGH - LOW),
    "blur": blur,
}


def again(x, step):
    out = REFERENCE[step["name"]](x.astype(np.float64), step)
    return np.clip(out, LOW, HIGH).astype(np.float32)


# --- images of three colours and a linear network -------------------------------------------------


@pytest.fixture(scope="module")
def colours(tmp_path_factory):
    """60 smooth images [3, 9, 12]; the classes are random sums of them."""
    place, rng = tmp_path_factory.mktemp("colours"), np.random.default_rng(3)
    x = ndimage.gaussian_filter(rng.normal(size=(60, 3, 9, 12)), (0, 0, 1, 1)) * 2 + 0.5
    np.save(place / "x.npy", np.clip(x, LOW, HIGH).astype(np.float32))
    w = rng.normal(size=(3 * 9 * 12, 4)).astype(np.float32)
    helper, info = onnx.helper, onnx.helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("Flatten", ["x"], ["f"], axis=1),
            helper.make_node("MatMul", ["f", "w"], ["y"]),
        ],
        "sums",
        [info("x", onnx.TensorProto.FLOAT, [1, 3, 9, 12])],
        [info("y", onnx.TensorProto.FLOAT, [1, 4])],
        [onnx.numpy_helper.from_array(w, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    onnx.save(model, place / "net.onnx")
    return place, w


def go(colours, out, *flags, **more):
    place, _ = colours
    base = ["--data", place / "x.npy", "--low", LOW, "--high", HIGH, "--keep-going", "--per-image", 99]
    return grapeshot_json("diff", place / "net.onnx", *base, "--quiet", *flags, "--out", out, **more)


def findings(out):
    for folder in sorted((out / "findings").iterdir()):
        about = json.loads((folder / "finding.json").read_text())
        yield folder, about, np.load(folder / "input.npy")[0], np.load(folder / "original.npy")[0]


@pytest.fixture(scope="module")
def any_distance(colours, tmp_path_factory):
    out = tmp_path_factory.mktemp("any") / "run"
    go(colours, out, "--transform", "deeptest", "--change-share", 1.01, "--candidates", 6000, status=1)
    return out


def test_what_is_found_is_what_scipy_makes_of_the_recorded_steps(any_distance, colours):
    _, w = colours
    seen, kinds, affine = set(), set(), 0
    for folder, about, x, original in findings(any_distance):
        steps, now = about["lineage"]["steps"], original
        for step in steps:
            if step["name"] in ("translate", "scale", "shear", "rotate"):
                np.testing.assert_allclose(np.load(folder / "before.npy")[0], now, atol=1e-5)
                now = again(now, step)
                np.testing.assert_allclose(np.load(folder / "reference.npy")[0], now, atol=1e-5)
                affine += 1
            else:
                now = again(now, step)
            kinds.add(step.get("kind"))
            seen.add(step["name"])
        assert sum(s["name"] in ("translate", "scale", "shear", "rotate") for s in steps) <= 1
        np.testing.assert_allclose(x, now, atol=2e-5)
        assert (x.ravel() @ w).argmax() == about["after"] != about["before"]
    assert seen == set(REFERENCE) and affine > 20
    assert kinds == {None, *range(1, 11)}
    assert "NOT" not in grapeshot("replay", any_distance, status=0).stdout


def test_whole_pixels_move_as_they_are(any_distance):
    count = 0
    for _, about, x, original in findings(any_distance):
        steps = about["lineage"]["steps"]
        if [s["name"] for s in steps] != ["translate"]:
            continue
        expected, (down, right) = np.full_like(original, LOW), (int(steps[0][k]) for k in ("down", "right"))
        assert (down, right) == (steps[0]["down"], steps[0]["right"]) and max(abs(down), abs(right)) <= 4
        rows, columns = np.meshgrid(np.arange(9) - down, np.arange(12) - right, indexing="ij")
        inside = (rows >= 0) & (rows < 9) & (columns >= 0) & (columns < 12)
        expected[:, inside] = original[:, rows[inside], columns[inside]]
        assert np.array_equal(x, expected)
        count += 1
    assert count > 5


# --- how far --------------------------------------------------------------------------------------


def distance(folder, x, original):
    """L0 and Linf as Eq. 2 has them."""
    pairs = [(x, original)]
    if (folder / "reference.npy").exists():
        before, reference = (np.load(folder / name)[0] for name in ("before.npy", "reference.npy"))
        pairs = [(before, original), (x, reference)]
    changes = [np.abs(a.astype(np.float64) - b.astype(np.float64)) for a, b in pairs]
    return sum((c != 0).sum() for c in changes), max(c.max() for c in changes)


@pytest.mark.parametrize("share", [(0.02, 0.2), (0.1, 0.05), (0.0, 0.1)])
def test_nothing_is_further_than_the_bound(share, colours, tmp_path):
    free, most = share
    flags = ["--transform", "deephunter", "--free-share", free, "--change-share", most]
    said = go(colours, tmp_path / "run", *flags, "--candidates", 4000, status=1)
    assert said["candidates_dropped"] > 0
    names, longest = set(), 0
    for folder, about, x, original in findings(tmp_path / "run"):
        changed, largest = distance(folder, x, original)
        assert changed < free * x.size or largest < most * (HIGH - LOW)
        assert (changed, largest) == (about["lineage"]["changed"], about["lineage"]["largest_change"])
        assert LOW <= x.min() and x.max() <= HIGH
        names |= {s["name"] for s in about["lineage"]["steps"]}
        longest = max(longest, len(about["lineage"]["steps"]))
    assert names & set(RANDOM) and names & {"rotate", "shear"} and longest >= 3
    grapeshot("replay", tmp_path / "run", status=0)


@pytest.mark.parametrize("name", RANDOM)
def test_what_is_drawn_is_of_the_recorded_size(name, colours, tmp_path):
    flags = ["--transform", name, "--iterations", 1, "--criterion", "none", "--change-share", 1.01]
    go(colours, tmp_path / "run", *flags, "--candidates", 6000, status=1)
    ratios = []
    for _, about, x, original in findings(tmp_path / "run"):
        (step,) = about["lineage"]["steps"]
        change = (x - original).astype(np.float64)
        inside = (original > LOW + 0.1) & (x > LOW) & (x < HIGH)
        if name == "pixels":
            assert 0 < (change != 0).sum() <= step["count"] <= 9
        elif name == "salt-and-pepper":
            assert np.isin(x[change != 0], [LOW, HIGH]).all()
            ratios.append((change != 0).mean() / step["share"])
        elif name == "noise":
            ratios.append(change[inside].std() / (step["share"] * (HIGH - LOW)))
        elif step["deviation"] < 0.2:
            ratios.append((change[inside] / (original - LOW)[inside]).std() / step["deviation"])
    assert name == "pixels" or 0.8 < np.mean(ratios) < 1.4


def test_a_bound_that_nothing_keeps_to_ends_the_run(colours, tmp_path):
    flags = ["--transform", "contrast", "--free-share", 0, "--change-share", 1e-9, "--candidates", 100]
    said = go(colours, tmp_path / "run", *flags, status=0)
    assert said["candidates"] == 0 and said["candidates_dropped"] > 0


def test_on_a_grid_and_again_with_the_same_seed(tmp_path):
    images = np.round(np.load(DIGIT)[:20] * 16).astype(np.float32) / 16
    np.save(tmp_path / "x.npy", images)
    flags = ["--data", tmp_path / "x.npy", "--integer", "--grid", 0.0625, "--transform", "deephunter"]
    runs = [tmp_path / "one", tmp_path / "two"]
    for out in runs:
        grapeshot_json("diff", CNN, *flags, "--candidates", 2000, "--quiet", "--out", out, status=1)
        grapeshot("replay", out, status=0)
    one, two = ([(f.name, x) for f, _, x, _ in findings(out)] for out in runs)
    assert [a for a, _ in one] == [b for b, _ in two] and len(one) > 5
    assert all(np.array_equal(x * 16, np.round(x * 16)) for _, x in one)


def test_several_models_do_not_agree_on_what_is_transformed(tmp_path):
    flags = ["--data", DIGIT, "--transform", "deephunter", "--candidates", 2000, "--quiet"]
    grapeshot_json("diff", CNN, DIGITS / "resnet.onnx", *flags, "--out", tmp_path / "run", status=1)
    assert all(about["others"] and about["lineage"] for _, about, _, _ in findings(tmp_path / "run"))
    grapeshot("replay", tmp_path / "run", status=0)


# --- replay ---------------------------------------------------------------------------------------


def copy(run, place, affine):
    folder = next(f for f, *_ in findings(run) if (f / "reference.npy").exists() == affine)
    return shutil.copytree(folder, place / "finding")


def edit(folder, change):
    about = json.loads((folder / "finding.json").read_text())
    change(about["lineage"])
    (folder / "finding.json").write_text(json.dumps(about))


def turn(lineage):
    step = next(s for s in lineage["steps"] if s["name"] in ("translate", "scale", "shear", "rotate"))
    key = list(step)[1]
    step[key] += 1 if step["name"] == "translate" else 0.05


def test_replay_tells_an_affine_step_that_is_another(any_distance, tmp_path):
    folder = copy(any_distance, tmp_path / "1", True)
    edit(folder, turn)
    assert "its reference is not what" in grapeshot("replay", folder, status=1).stdout
    folder = copy(any_distance, tmp_path / "2", True)
    reference = np.load(folder / "reference.npy")
    reference.reshape(-1)[50] += np.float32(1e-3)
    np.save(folder / "reference.npy", reference)
    assert "it is off by 0.00" in grapeshot("replay", folder, status=1).stdout


def test_replay_tells_an_image_that_is_too_far(any_distance, tmp_path):
    folder = copy(any_distance, tmp_path / "1", False)
    edit(folder, lambda of: of.update(change_share=1e-4))
    said = grapeshot("replay", folder, status=1).stdout
    assert "NOT CONFIRMED" in said and "inputs, by up to" in said


def test_a_damaged_lineage_is_one_sentence(any_distance, tmp_path):
    def damage(change, text):
        folder = copy(any_distance, tmp_path / text[:5].strip(" :."), True)
        change(folder)
        done = grapeshot("replay", folder, status=2)
        assert text in done.stderr and len(done.stderr.strip().splitlines()) == 1

    twice = [{"name": "rotate", "degrees": 1}] * 2
    damage(lambda f: edit(f, lambda of: of.update(steps=twice)), "more than one affine step")
    damage(lambda f: edit(f, lambda of: of.update(steps=[])), "its lineage has no steps")
    damage(lambda f: edit(f, lambda of: of.update(steps=[{"name": "rotate"}])), "lacks 'degrees'")
    damage(lambda f: edit(f, lambda of: of.update(steps=[{"name": "x"}])), "no transformation is called")
    damage(lambda f: (f / "reference.npy").unlink(), "reference.npy")
    damage(lambda f: np.save(f / "before.npy", np.zeros(3, np.float32)), "before.npy")


# --- what does not fit ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "flags", "text"),
    [
        (MLP, ["--transform", "rotate"], "--transform is for images"),
        (CNN, ["--transform", "turn"], "no transformation is called 'turn'; known: translate, scale"),
        (CNN, ["--transform", "rotate+deeptest"], "deeptest is a set of its own"),
        (CNN, ["--transform", "+"], "--transform names none"),
        (CNN, ["--transform", "rotate", "--l2", "0.1"], "--l2 does not go with --transform"),
        (CNN, ["--transform", "rotate", "--strategy", "1"], "--strategy does not go with --transform"),
        (CNN, ["--transform", "rotate", "--free-share", "2"], "--free-share must be from 0 to 1"),
        (CNN, ["--transform", "rotate", "--change-share", "nan"], "--change-share must be at least 0"),
        (CNN, ["--transform", "blur", "--free-share", "0", "--change-share", "0"], "no change is valid"),
    ],
)
def test_an_option_that_does_not_fit_is_one_sentence(model, flags, text, tmp_path):
    done = grapeshot("diff", model, "--data", DIGIT, *flags, "--out", tmp_path / "run", status=2)
    assert done.stdout == "" and len(done.stderr.strip().splitlines()) == 1
    assert text in done.stderr


def test_the_list_tells_ranges_of_both_sets():
    rows = {row["name"]: row for row in grapeshot_json("list", "transformations")["transformations"]}
    assert {name for name, row in rows.items() if row["affine"]} == {"translate", "scale", "shear", "rotate"}
    assert {n for n, row in rows.items() if "deeptest" in row["parameters"][0]} == set(REFERENCE)
    assert rows["rotate"]["parameters"] == [
        {"name": "degrees", "whole": False, "deephunter": [-50, 50], "deeptest": [-30, 30]}
    ]
