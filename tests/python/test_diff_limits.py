"""What `grapeshot diff` reports keeps to every limit, measured here by NumPy, and is what ONNX Runtime sees too."""

import json
import shutil
import subprocess
import sys

import pytest
from program import DIGITS, MLP, ROOT, grapeshot, grapeshot_json, needs_program

np = pytest.importorskip("numpy")
onnx = pytest.importorskip("onnx")

pytestmark = needs_program

WAVES = DIGITS.parent / "waveforms"
DIGIT = DIGITS / "data" / "X.npy"


def outputs(model, x):
    """[N, K] in ONNX Runtime, row by row."""
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    port = session.get_inputs()[0]
    shape = [1, *[d if isinstance(d, int) else 1 for d in port.shape[1:]]]
    return np.concatenate([session.run(None, {port.name: row.reshape(shape)})[0] for row in x])


def findings(out):
    for folder in sorted((out / "findings").iterdir()):
        about = json.loads((folder / "finding.json").read_text())
        yield about, np.load(folder / "input.npy").ravel(), np.load(folder / "original.npy").ravel()


def change_of(x, original):
    return x.astype(np.float64) - original.astype(np.float64)


def snr(change, original):
    return 10 * np.log10((original.astype(np.float64) ** 2).sum() / (change**2).sum())


def bend(change, across):
    return np.abs(np.diff(change.reshape(-1, across), 2)).max()


# --- waveforms ------------------------------------------------------------------------------------

SOUND = ["--data", WAVES / "data" / "X.npy", "--low", -1, "--high", 1, "--l2", 0, "--quiet"]
MASK = WAVES / "data" / "frozen.npy"


@pytest.fixture(scope="module")
def sounds(tmp_path_factory):
    out = tmp_path_factory.mktemp("sounds") / "run"
    flags = ["--snr", 30, "--smooth", 0.005, "--frozen", MASK, "--candidates", 15000]
    return out, grapeshot_json("diff", WAVES / "waves.onnx", *SOUND, *flags, "--out", out, status=1)


def test_sounds_that_are_heard_otherwise_are_clean_smooth_and_begin_as_before(sounds):
    out, said = sounds
    frozen = np.load(MASK).astype(bool)
    data = np.load(WAVES / "data" / "X.npy")
    reference = outputs(WAVES / "waves.onnx", data).argmax(1)
    count = 0
    for about, x, original in findings(out):
        change = change_of(x, original)
        assert np.array_equal(original, data[about["instance"]])
        assert snr(change, original) >= 30
        assert 0 < bend(change, 256) <= 0.005
        assert (change[frozen] == 0).all() and (change[~frozen] != 0).any()
        assert -1 <= x.min() and x.max() <= 1
        now = outputs(WAVES / "waves.onnx", x[None]).argmax()
        assert now == about["after"] != about["before"] == reference[about["instance"]]
        count += 1
    assert count == len(said["findings"]) > 1
    done = grapeshot("replay", out, status=0)
    assert f"{count} of {count} findings confirmed" in done.stdout


def tampered(sounds, place, change):
    out, said = sounds
    folder = shutil.copytree(out / "findings" / said["findings"][0], place / "finding")
    about = json.loads((folder / "finding.json").read_text())
    change(about["limits"])
    (folder / "finding.json").write_text(json.dumps(about))
    return grapeshot("replay", folder, status=1).stdout


def test_replay_measures_every_limit(sounds, tmp_path):
    cases = {
        "snr": (50, "its noise over the signal is"),
        "smooth": (1e-5, "the largest second difference of its change is"),
        "linf": (1e-5, "its largest change is"),
        "l0": (2, "the number of places that it changes is"),
    }
    for name, (limit, text) in cases.items():
        said = tampered(sounds, tmp_path / name, lambda of: of.update({name: limit}))  # noqa: B023
        assert text in said and "NOT CONFIRMED" in said


def test_replay_sees_that_a_frozen_input_has_changed(sounds, tmp_path):
    out, said = sounds
    folder = shutil.copytree(out / "findings" / said["findings"][0], tmp_path / "finding")
    x = np.load(folder / "input.npy")
    x.reshape(-1)[3] += np.float32(0.01)
    np.save(folder / "input.npy", x)
    assert "X_3 = " in grapeshot("replay", folder, status=1).stdout


def test_the_committed_sounds_are_what_the_script_makes():
    made = subprocess.run(
        [sys.executable, ROOT / "tools" / "make_waveform_model.py", "--check"],
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    y = np.load(WAVES / "data" / "y.npy")
    right = outputs(WAVES / "waves.onnx", np.load(WAVES / "data" / "X.npy")).argmax(1) == y
    assert right.mean() > 0.85
    assert sum(p.stat().st_size for p in WAVES.rglob("*.*")) < 100_000


# --- limits of images, alone and together ---------------------------------------------------------

LIMITS = {
    "linf": (["--linf", 0.15, "--l2", 0], lambda c, o: np.abs(c).max() <= 0.15),
    "l0": (["--l0", 4, "--l2", 0], lambda c, o: (c != 0).sum() <= 4),
    "snr": (["--snr", 10, "--l2", 0], lambda c, o: snr(c, o) >= 10),
    "smooth": (["--smooth", 0.2, "--l2", 0.4], lambda c, o: bend(c, 8) <= 0.2),
    "l0 and linf": (
        ["--l0", 12, "--linf", 0.4, "--l2", 0],
        lambda c, o: (c != 0).sum() <= 12 and np.abs(c).max() <= 0.4,
    ),
    "l2 and linf": (
        ["--l2", 0.2, "--linf", 0.2],
        lambda c, o: (
            np.abs(c).max() <= 0.2
            and np.linalg.norm(c) / np.linalg.norm(o.astype(np.float64)) <= 0.2
        ),
    ),
    "occlusion and linf": (
        ["--constraint", "occlusion+linf", "--linf", 0.5, "--l2", 0, "--iterations", 1],
        lambda c, o: np.abs(c).max() <= 0.5,
    ),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits_hold_for_all_that_is_found(name, tmp_path):
    flags, holds = LIMITS[name]
    flags = ["--data", DIGIT, "--candidates", 6000, "--quiet", *flags, "--out", tmp_path / "run"]
    grapeshot_json("diff", DIGITS / "cnn_bn.onnx", *flags, status=1)
    found = [(change_of(x, original), original) for _, x, original in findings(tmp_path / "run")]
    assert found and all(holds(c, o) for c, o in found)
    grapeshot("replay", tmp_path / "run", status=0)


def test_pixels_count_all_channels_of_a_place_once(tmp_path):
    """Two channels of 4 x 4; the class is the sign of the sum of the first less that of the second."""
    w = np.repeat([[1.0], [-1.0]], 16, 0).astype(np.float32) * [[1, -1]]
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("Flatten", ["x"], ["f"], axis=1),
            onnx.helper.make_node("MatMul", ["f", "w"], ["y"]),
        ],
        "channels",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 2, 4, 4])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 2])],
        [onnx.numpy_helper.from_array(w.astype(np.float32), "w")],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)])
    model.ir_version = 8
    onnx.save(model, tmp_path / "net.onnx")
    images = np.full((4, 2, 4, 4), 0.5, np.float32)
    images[:, 0] += np.array([0.01, 0.02, 0.03, 0.04], np.float32)[:, None, None]
    np.save(tmp_path / "x.npy", images)
    most = {}
    for name, flags in {"pixels": ["--pixels"], "inputs": []}.items():
        out = tmp_path / name
        flags = [*flags, "--data", tmp_path / "x.npy", "--low", 0, "--high", 1, "--l2", 0, "--l0", 3]
        flags += ["--candidates", 2000, "--strategy", "none", "--quiet", "--out", out]
        grapeshot_json("diff", tmp_path / "net.onnx", *flags, status=1)
        changed = [(x != o).reshape(2, 16) for _, x, o in findings(out)]
        assert all(c.any(0).sum() <= 3 for c in changed)
        most[name] = max(c.sum() for c in changed)
        grapeshot("replay", out, status=0)
    assert most["inputs"] <= 3 < most["pixels"] <= 6


# --- outputs that are NaN or infinite -------------------------------------------------------------


def small_net(path, nodes, **weights):
    helper = onnx.helper
    graph = helper.make_graph(
        [helper.make_node(op, ins.split(), [out], **more) for op, ins, out, more in nodes],
        "small",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 2])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 2])],
        [onnx.numpy_helper.from_array(np.array(v), k) for k, v in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    onnx.save(model, path)
    return path


W = np.array([[1, 1], [-1, 0.5]], np.float32)
# The logarithm of what may be 0; exponentials that overflow before they are divided.
LOG = [("MatMul", "x w", "a", {}), ("Relu", "a", "r", {}), ("Log", "r", "y", {})]
EXP = [
    ("MatMul", "x w", "a", {}),
    ("Exp", "a", "e", {}),
    ("ReduceSum", "e axes", "s", {"keepdims": 1}),
    ("Div", "e s", "y", {}),
]


@pytest.fixture
def points(tmp_path):
    np.save(tmp_path / "x.npy", np.array([[1, 0.8], [0.9, 0.2], [0.7, -0.3]], np.float32))
    return tmp_path / "x.npy"


@pytest.mark.parametrize("which", ["log", "exp"])
def test_outputs_that_are_not_finite_are_found_and_replayed(which, points, tmp_path):
    if which == "log":
        net = small_net(tmp_path / "log.onnx", LOG, w=W)
    else:
        net = small_net(tmp_path / "exp.onnx", EXP, w=W * 60, axes=np.array([1]))
    out = tmp_path / "run"
    flags = ["--data", points, "--low", -2, "--high", 2, "--l2", 0.9, "--keep-going"]
    flags += ["--objective", "magnitude", "--strategy", "none", "--candidates", 3000, "--quiet"]
    said = grapeshot_json("diff", net, *flags, "--out", out, status=1)
    lost = [(a, x) for a, x, _ in findings(out) if a.get("kind") == "not finite"]
    assert said["not_finite"] >= len(lost) > 0
    assert not np.isfinite(outputs(net, [x for _, x in lost])).all(1).any()
    grapeshot("replay", out, status=0)
    # On another input there is nothing of the kind.
    folder = out / "findings" / lost[0][0]["id"]
    np.save(folder / "input.npy", np.load(folder / "original.npy"))
    assert "all outputs are finite" in grapeshot("replay", folder, status=1).stdout


def test_magnitudes_are_driven_to_where_they_overflow(points, tmp_path):
    """The same steps towards the boundary get there by chance only."""
    net = small_net(tmp_path / "exp.onnx", EXP, w=W * 25, axes=np.array([1]))
    lost = {}
    for objective in ("boundary", "magnitude"):
        flags = ["--data", points, "--low", -5, "--high", 5, "--l2", 3, "--keep-going", "--step", 0.2]
        flags += ["--objective", objective, "--iterations", 30, "--strategy", "none", "--quiet"]
        flags += ["--candidates", 20000, "--out", tmp_path / objective]
        lost[objective] = grapeshot_json("diff", net, *flags)["not_finite"]
    assert lost["magnitude"] > 4 * lost["boundary"]


# --- what does not fit ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--linf", "-1"], "--linf must be at least 0"),
        (["--snr", "nan"], "--snr must be at least 0"),
        (["--pixels"], "--pixels must be with --l0"),
        (["--constraint", "snr"], "--constraint snr needs --snr"),
        (["--constraint", "light+x"], "no constraint is called 'x'"),
        (["--objective", "x"], "no objective is called 'x'; known: classes, boundary, magnitude"),
        (["--smooth", "1", "--l0", "3"], "--smooth does not go with --l0"),
        (["--smooth", "1", "--grid", "0.0625"], "--smooth does not go with --grid"),
        (["--smooth", "1e-9"], "is less than float32 adds"),
        (["--frozen", str(MASK)], "frozen.npy: 256 values; one for each of 64 inputs"),
        (["--frozen", str(DIGIT)], "holds other values than 0 (free) and 1 (frozen)"),
        (["--frozen", "nowhere.npy"], "nowhere.npy"),
    ],
)
def test_a_limit_that_does_not_fit_is_one_sentence(flags, text, tmp_path):
    done = grapeshot("diff", MLP, "--data", DIGIT, *flags, "--out", tmp_path / "run", status=2)
    assert done.stdout == "" and len(done.stderr.strip().splitlines()) == 1
    assert text in done.stderr
