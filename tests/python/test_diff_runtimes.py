"""`grapeshot diff --against onnxruntime`, held against ONNX Runtime's own Python package; `--as-published`."""

import json
import os
import shutil
import subprocess

import pytest
from program import DIGITS, MLP, PROGRAM, grapeshot, grapeshot_json, needs_program

np = pytest.importorskip("numpy")
onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

pytestmark = needs_program

X = DIGITS / "data" / "X.npy"
NETS = ["mlp", "cnn_bn", "resnet", "bnn", "attention"]
AGAINST = ["--against", "onnxruntime", "--data", X, "--l2", 0.3, "--quiet"]


def outputs(model, x):
    """What ONNX Runtime gives for one row."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    port = session.get_inputs()[0]
    shape = [1, *[d if isinstance(d, int) else 1 for d in port.shape[1:]]]
    return session.run(None, {port.name: x.astype(np.float32).reshape(shape)})[0].ravel()


def exact_mlp(model, x):
    """The layers of mlp.onnx in NumPy's float64."""
    graph = onnx.load(str(model)).graph
    weights = {t.name: onnx.numpy_helper.to_array(t).astype(np.float64) for t in graph.initializer}
    y = x.astype(np.float64)
    for node in graph.node:
        if node.op_type == "MatMul":
            y = y @ weights[node.input[1]]
        elif node.op_type == "Add":
            y = y + weights[next(name for name in node.input if name in weights)]
        elif node.op_type == "Gemm":
            flags = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            w = weights[node.input[1]]
            y = y @ (w.T if flags.get("transB") else w) + weights[node.input[2]]
        elif node.op_type == "Relu":
            y = np.maximum(y, 0)
        else:
            assert node.op_type in ("Flatten", "Identity"), node.op_type
    return y


def findings(out):
    for folder in sorted((out / "findings").iterdir()):
        about = json.loads((folder / "finding.json").read_text())
        yield about, np.load(folder / "input.npy").ravel(), np.load(folder / "original.npy").ravel()


def changed(path, factor):
    """mlp.onnx with the weights of one class of its last layer times `factor`, at `path`."""
    model = onnx.load(str(MLP))
    last = [n for n in model.graph.node if n.op_type == "Gemm"][-1]
    weight = next(t for t in model.graph.initializer if t.name == last.input[1])
    w = onnx.numpy_helper.to_array(weight).copy()
    rows = w if w.shape[0] == 10 else w.T
    rows[3] *= np.float32(factor)
    weight.CopyFrom(onnx.numpy_helper.from_array(w, weight.name))
    onnx.save(model, str(path))
    return path


@pytest.mark.parametrize("net", NETS)
def test_shipped_networks_are_the_same_in_both(net, tmp_path):
    out = tmp_path / "run"
    flags = [*AGAINST, "--candidates", 1500, "--out", out]
    said = grapeshot_json("diff", DIGITS / f"{net}.onnx", *flags, status=0)
    assert said["candidates"] >= 1500 and said["runtimes"]["onnxruntime"] == onnxruntime.__version__
    assert said["runtimes"]["disagreements"] == 0 and said["findings"] == []
    options = json.loads((out / "run.json").read_text())["options"]
    assert options["objective"] == "boundary" and options["against"] == "onnxruntime"


def test_a_tiny_tolerance_shows_what_rounding_does(tmp_path):
    out = tmp_path / "run"
    flags = [*AGAINST, "--tolerance", 1e-9, "--candidates", 500, "--out", out]
    said = grapeshot_json("diff", MLP, *flags, status=1)
    assert said["runtimes"]["disagreements"] > 10
    for about, x, _ in findings(out):
        told = about["runtimes"]
        ours, theirs = np.array(told["outputs"])
        exact = np.array(told["outputs_float64"])
        assert about["kind"] == "runtimes" and told["differ_in"] == "values"
        assert np.abs(theirs - outputs(MLP, x)).max() <= 1e-6 * np.abs(exact).max()
        assert np.allclose(exact, exact_mlp(MLP, x), rtol=0, atol=1e-12 * np.abs(exact).max())
        size = np.abs(exact).max()
        assert told["largest_relative_difference"] == pytest.approx(np.abs(ours - theirs).max() / size)
        assert told["errors"] == pytest.approx([np.abs(ours - exact).max() / size, np.abs(theirs - exact).max() / size])
        assert 1e-9 < told["largest_relative_difference"] < 1e-5
    count = len(said["findings"])
    assert f"{count} of {count} findings confirmed" in grapeshot("replay", out, status=0).stdout


@pytest.fixture(scope="module")
def altered(tmp_path_factory):
    place = tmp_path_factory.mktemp("altered")
    other = changed(place / "other.onnx", 1.5)
    flags = [*AGAINST, "--reference-model", other, "--keep-going", "--candidates", 3000]
    return place, other, grapeshot_json("diff", MLP, *flags, "--out", place / "run", status=1)


def test_a_network_with_other_weights_gives_other_classes_and_values(altered):
    place, other, said = altered
    kinds = set()
    for about, x, original in findings(place / "run"):
        told = about["runtimes"]
        here, there, exact = outputs(MLP, x), outputs(other, x), exact_mlp(MLP, x)
        size = np.abs(exact).max()
        assert np.allclose(told["outputs"], [here, there], rtol=0, atol=1e-5 * size)
        assert told["largest_relative_difference"] == pytest.approx(np.abs(here - there).max() / size, abs=1e-5)
        assert told["largest_relative_difference"] > told["tolerance"] == 2**-13
        assert told["classes"] == [here.argmax(), there.argmax()]
        assert told["reference_model"] == str(other)
        assert np.linalg.norm(x.astype(float) - original) <= 0.3 * np.linalg.norm(original.astype(float))
        kinds.add(told["differ_in"])
    assert said["runtimes"]["disagreements"] >= len(said["findings"]) > 50
    assert kinds == {"class", "values"}


def test_replay_runs_both_again(altered, tmp_path):
    place, other, said = altered
    count = len(said["findings"])
    assert f"{count} of {count} findings confirmed" in grapeshot("replay", place / "run", status=0).stdout
    folder = shutil.copytree(place / "run" / "findings" / said["findings"][0], tmp_path / "finding")
    about = json.loads((folder / "finding.json").read_text())
    own = {"reference_model": about["model"], "reference_model_sha256": about["model_sha256"]}
    about["runtimes"].update(own)
    (folder / "finding.json").write_text(json.dumps(about))
    done = grapeshot("replay", folder, status=1)
    assert "NOT CONFIRMED" in done.stdout and "allows" in done.stdout
    about["runtimes"]["reference_model_sha256"] = "0"
    (folder / "finding.json").write_text(json.dumps(about))
    assert "changed since the finding was made" in grapeshot("replay", folder, status=1).stdout


def run_with(library, *args):
    environment = {**os.environ, "GRAPESHOT_ONNXRUNTIME": str(library)}
    return subprocess.run(
        [PROGRAM, *map(str, args)], capture_output=True, text=True, env=environment, timeout=60
    )


def test_without_the_library_it_is_one_sentence(altered, tmp_path):
    place, _, said = altered
    done = run_with("/nowhere.so", "diff", MLP, *AGAINST, "--out", tmp_path / "run")
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("grapeshot: --against onnxruntime: /nowhere.so: cannot be loaded")
    assert len(done.stderr.strip().splitlines()) == 1
    done = run_with("/nowhere.so", "replay", place / "run" / "findings" / said["findings"][0])
    assert done.returncode == 1 and "cannot be loaded" in done.stdout


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--against", "onnxruntime,int8"], "compares one model, without others or variants"),
        (["--against", "onnxruntime", "--tolerance", "0"], "--tolerance must be above 0"),
        (["--reference-model", MLP], "it goes with --against onnxruntime"),
        (["--against", "onnxruntime", "--reference-model", DIGITS.parent / "waveforms" / "waves.onnx"], "has 256 inputs"),
        (["--against", "onnxruntime", "--reference-model", X], "Protobuf parsing failed"),
        (["--against", "onnxruntime", "--as-published"], "--as-published takes one model"),
        (["--as-published", "--constraint", "light"], "--as-published must be without --constraint"),
        (["--as-published", "--strategy", "4"], "known: 0, 1, 2, 3, random, none"),
    ],
)
def test_what_does_not_go_together_is_one_sentence(flags, text, tmp_path):
    done = grapeshot("diff", MLP, "--data", X, *flags, "--out", tmp_path / "run", status=2)
    assert text in done.stderr and done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1


# --- as published ---------------------------------------------------------------------------------


def published(net, out, *more, status=None):
    flags = ["--data", X, "--as-published", "--strategy", "1", "--iterations", 5, "--quiet"]
    return grapeshot_json("diff", DIGITS / f"{net}.onnx", *flags, *more, "--out", out, status=status)


def test_as_published_reports_more_than_passes(tmp_path):
    said = published("cnn_bn", tmp_path / "run", "--l2", 0.3, "--low", -1, "--high", 2, status=1)
    assert said["as_published"] is True and not said["interrupted"]
    assert said["candidates_differing"] == said["differences"] + said["would_not_pass"]
    assert said["would_not_pass"] == sum(said["would_not_pass_because"].values()) > 0
    assert said["mean_l2_as_published"] > said["mean_l2"] > 0
    count = 0
    for about, x, original in findings(tmp_path / "run"):
        assert about["as_published"] is True
        before, after = outputs(DIGITS / "cnn_bn.onnx", original).argmax(), outputs(DIGITS / "cnn_bn.onnx", x).argmax()
        assert about["before"] == before != after == about["after"]
        assert np.linalg.norm(x.astype(float) - original) <= 0.3 * np.linalg.norm(original.astype(float))
        assert -1 <= x.min() and x.max() <= 2
        count += 1
    assert count == len(said["findings"]) > 0
    assert f"{count} of {count} findings confirmed" in grapeshot("replay", tmp_path / "run", status=0).stdout


def test_as_published_images_come_one_after_the_other(tmp_path):
    """In a batch all images are covered before the first step, and steps gain less."""
    flags = ["--l2", 0.4, "--tau", 0.5]
    alone = published("cnn_bn", tmp_path / "a", *flags)
    assert alone["seeds_kept"] > published("cnn_bn", tmp_path / "b", *flags, "--batch", 64)["seeds_kept"]


def test_as_published_nothing_of_grey_and_white_digits_passes(tmp_path):
    """Steps are not kept in the range of the data, of which digits have both ends."""
    said = published("cnn_bn", tmp_path / "run", "--l2", 0.9, status=0)
    assert said["candidates_differing"] > 0 == said["differences"]
    assert said["would_not_pass_because"]["past_a_limit"] > 0


def test_nothing_of_both_is_told_without_them(tmp_path):
    said = grapeshot_json("diff", MLP, "--data", X, "--l2", 0.3, "--candidates", 1000, "--out", tmp_path / "run", status=1)
    assert not {"as_published", "would_not_pass", "runtimes"} & said.keys()
    for about, _, _ in findings(tmp_path / "run"):
        assert not {"as_published", "runtimes", "kind"} & about.keys()
