"""`grapeshot diff`: what is found is near, is predicted otherwise by ONNX Runtime too, and can be replayed."""

import json
import shutil

import pytest
from program import DIGITS, MLP, grapeshot, grapeshot_json, needs_program, tree

np = pytest.importorskip("numpy")

pytestmark = needs_program

X, Y = DIGITS / "data" / "X.npy", DIGITS / "data" / "y.npy"
NETS = ["mlp", "cnn_bn", "resnet", "bnn", "attention"]
QUICK = ["--candidates", 3000, "--quiet"]


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Forty digits, with their labels."""
    place = tmp_path_factory.mktemp("digits")
    np.save(place / "x.npy", np.load(X)[:40])
    np.save(place / "y.npy", np.load(Y)[:40])
    return place


def predictions(net, x):
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(DIGITS / f"{net}.onnx", providers=["CPUExecutionProvider"])
    port = session.get_inputs()[0]
    shape = [1, *[d if isinstance(d, int) else 1 for d in port.shape[1:]]]
    rows = [session.run(None, {port.name: row.reshape(shape).astype(np.float32)})[0] for row in x]
    return np.array([np.asarray(row).reshape(-1).argmax() for row in rows])


def findings(out):
    for folder in sorted((out / "findings").iterdir()):
        about = json.loads((folder / "finding.json").read_text())
        yield about, np.load(folder / "input.npy").ravel(), np.load(folder / "original.npy").ravel()


@pytest.fixture(scope="module")
def run(images, tmp_path_factory):
    out = tmp_path_factory.mktemp("diff") / "run"
    flags = ["--data", images / "x.npy", "--l2", 0.3, *QUICK, "--out", out]
    return out, grapeshot_json("diff", MLP, *flags, status=1)


@pytest.mark.parametrize("net", NETS)
def test_differences_are_near_in_range_and_seen_by_onnx_runtime(net, images, tmp_path):
    out = tmp_path / "run"
    flags = ["--data", images / "x.npy", "--l2", 0.4, *QUICK, "--out", out]
    said = grapeshot_json("diff", DIGITS / f"{net}.onnx", *flags, status=1)
    data = np.load(images / "x.npy").reshape(40, -1)
    assert said["images"] == 40 and 0 < said["images_with_differences"] <= 40
    assert said["differences"] >= said["images_with_differences"]
    reference = predictions(net, data)
    seen = 0
    for about, x, original in findings(out):
        assert np.array_equal(original, data[about["instance"]].astype(np.float32))
        off = np.linalg.norm(x.astype(float) - original.astype(float))
        assert off / np.linalg.norm(original.astype(float)) <= 0.4
        assert about["l2"] == pytest.approx(off, rel=1e-9)
        assert data.min() <= x.min() and x.max() <= data.max()
        assert about["before"] == reference[about["instance"]] != about["after"]
        assert predictions(net, x[None])[0] == about["after"]
        seen += 1
    assert seen == len(said["findings"]) > 0


def test_what_is_found_is_replayed_and_checked(run):
    out, said = run
    done = grapeshot("replay", out, status=0)
    count = len(said["findings"])
    assert f"{count} of {count} findings confirmed" in done.stdout
    first = out / "findings" / said["findings"][0]
    grapeshot("check", MLP, first / "property.vnnlib", first / "input.npy", status=0)


def test_replay_tells_a_difference_that_is_too_far(run, tmp_path):
    out, said = run
    folder = shutil.copytree(out / "findings" / said["findings"][0], tmp_path / "finding")
    about = json.loads((folder / "finding.json").read_text())
    about["l2_bound"] = about["l2_share"] / 2
    (folder / "finding.json").write_text(json.dumps(about))
    done = grapeshot("replay", folder, status=1)
    assert "its L2 distance is" in done.stdout and "NOT CONFIRMED" in done.stdout


def test_the_same_seed_and_budget_give_the_same_findings(run, images, tmp_path):
    out, said = run
    again = tmp_path / "again"
    flags = ["--data", images / "x.npy", "--l2", 0.3, *QUICK, "--out", again]
    repeated = grapeshot_json("diff", MLP, *flags, status=1)
    assert repeated["findings"] == said["findings"]
    assert {k: v for k, v in tree(again / "findings").items() if k.endswith(".npy")} == {
        k: v for k, v in tree(out / "findings").items() if k.endswith(".npy")
    }


@pytest.mark.parametrize("strategy", ["1", "2", "3", "4", "random", "none", "1+3", "2+4"])
def test_every_strategy_finds_differences_and_covers(strategy, images, tmp_path):
    flags = ["--data", images / "x.npy", "--l2", 0.4, "--strategy", strategy, *QUICK]
    said = grapeshot_json("diff", DIGITS / "cnn_bn.onnx", *flags, "--out", tmp_path / "run", status=1)
    assert said["images_with_differences"] > 0
    before, after = said["coverage_of_images"]["nc-scaled"], said["coverage"]["nc-scaled"]
    assert 0 < before <= after <= 1


def test_neurons_are_driven(images, tmp_path):
    """With most of the weight on neurons that nothing covers, coverage grows more than by predictions alone."""
    after = {}
    for strategy in ("random", "none"):
        flags = ["--data", images / "x.npy", "--l2", 0.5, "--tau", 0.9, "--strategy", strategy]
        flags += ["--weight", 0, "--lambda", 5, "--keep-going", *QUICK, "--out", tmp_path / strategy]
        said = grapeshot_json("diff", MLP, *flags)
        after[strategy] = said["coverage"]["nc-scaled"] - said["coverage_of_images"]["nc-scaled"]
    assert after["random"] > after["none"]


def test_whole_numbers_stay_whole(images, tmp_path):
    levels = np.round(np.load(images / "x.npy") * 16).astype(np.float32) / 16
    np.save(tmp_path / "x.npy", levels)
    out = tmp_path / "run"
    flags = ["--data", tmp_path / "x.npy", "--integer", "--grid", 0.0625, "--l2", 0.6, *QUICK]
    grapeshot_json("diff", MLP, *flags, "--out", out, status=1)
    for _, x, _ in findings(out):
        assert np.array_equal(x * 16, np.round(x * 16))
    count = len(list(findings(out)))
    assert count > 0


def test_images_whose_label_is_not_predicted_are_left_out(images, tmp_path):
    wrong = (np.load(images / "y.npy") + np.arange(40) // 20) % 10  # the second half is mislabelled
    np.save(tmp_path / "y.npy", wrong)
    flags = ["--data", images / "x.npy", "--labels", tmp_path / "y.npy", *QUICK]
    said = grapeshot_json("diff", MLP, *flags, "--l2", 0.3, "--out", tmp_path / "run")
    assert said["images"] + said["images_misread"] == 40 and said["images_misread"] >= 20


def test_differences_are_exported_to_train_with(images, tmp_path):
    more = tmp_path / "more"
    flags = ["--data", images / "x.npy", "--l2", 0.3, "--keep-going", *QUICK, "--out", tmp_path / "run"]
    said = grapeshot_json("diff", MLP, *flags, "--export-retraining", more, status=1)
    x, y = np.load(more / "X.npy"), np.load(more / "y.npy")
    assert len(x) == len(y) == said["differences"] == said["retraining"]["inputs"]
    assert (predictions("mlp", x.reshape(len(x), -1)) != y).all()


def test_a_batch_finds_more_in_the_same_time(images, tmp_path):
    """The same algorithm, an input at a time."""
    rate = {}
    for batch in (1, 0):
        flags = ["--data", images / "x.npy", "--l2", 0.4, "--seconds", 2, "--keep-going", "--quiet"]
        flags += ["--batch", batch, "--out", tmp_path / str(batch)]
        rate[batch] = grapeshot_json("diff", MLP, *flags, status=1)["differences_per_s"]
    assert rate[0] > 3 * rate[1]


# --- several models, and variants of one ----------------------------------------------------------


def test_two_models_are_driven_apart(images, tmp_path):
    out = tmp_path / "run"
    nets = [DIGITS / "mlp.onnx", DIGITS / "cnn_bn.onnx", DIGITS / "resnet.onnx"]
    said = grapeshot_json(
        "diff", *nets, "--data", images / "x.npy", "--l2", 0.3, *QUICK, "--out", out, status=1
    )
    assert len(said["others"]) == 2 and said["images_with_differences"] > 0
    for about, x, original in findings(out):
        now = [predictions(net.stem, x[None])[0] for net in nets]
        before = {predictions(net.stem, original[None])[0] for net in nets}
        assert before == {about["before"]} and about["before"] in now
        assert any(label != about["before"] for label in now)
        own = next(net.stem for net in nets if str(net) == about["model"])
        assert predictions(own, x[None])[0] == about["after"] != about["before"]
        assert about["others"]
    done = grapeshot("replay", out, status=0)
    assert f"{len(said['findings'])} of {len(said['findings'])} findings confirmed" in done.stdout


@pytest.mark.parametrize("variant", ["int8", "pruned"])
def test_a_model_and_its_variant_differ_and_replay_sees_it(variant, images, tmp_path):
    out = tmp_path / "run"
    said = grapeshot_json(
        *("diff", DIGITS / "cnn_bn.onnx", "--against", variant, "--data", images / "x.npy"),
        *("--l2", 0.4, "--strategy", "none", *QUICK, "--out", out),
        status=1,
    )
    assert said["others"] == [{"model": said["model"], "variant": variant}]
    variants = {about.get("variant", "") for about, _, _ in findings(out)}
    assert variants <= {"", variant} and said["findings"]
    done = grapeshot("replay", out, status=0)
    assert f"{len(said['findings'])} of {len(said['findings'])} findings confirmed" in done.stdout
    # Without the variant there is nothing to see.
    folder = out / "findings" / said["findings"][0]
    about = json.loads((folder / "finding.json").read_text())
    about["others"] = [{**other, "variant": about.get("variant", "")} for other in about["others"]]
    (folder / "finding.json").write_text(json.dumps(about))
    assert "predicts something else" in grapeshot("replay", folder, status=1).stdout


@pytest.mark.parametrize("constraint", ["light", "occlusion", "blackout"])
def test_a_constraint_says_what_may_change(constraint, images, tmp_path):
    out = tmp_path / "run"
    grapeshot_json(
        *("diff", DIGITS / "cnn_bn.onnx", "--data", images / "x.npy", "--constraint", constraint),
        *("--l2", 0.9, "--low", -5, "--high", 6, "--iterations", 1, "--step", 2, "--keep-going"),
        *("--strategy", "none", *QUICK, "--out", out),
    )
    found = list(findings(out))
    assert found, "nothing to look at"
    for _, x, original in found:
        change = (x - original).reshape(8, 8)
        if constraint == "light":
            assert np.ptp(change) <= 1e-5
        else:
            rows, columns = np.flatnonzero(change.any(1)), np.flatnonzero(change.any(0))
            if constraint == "occlusion":
                assert np.ptp(rows) < 3 and np.ptp(columns) < 3
            else:
                assert (change <= 1e-6).all() and (change < 0).sum() <= 5 * 4


# --- what does not fit ----------------------------------------------------------------------------


def refused(*args):
    done = grapeshot(*args, status=2)
    assert done.stdout == "" and len(done.stderr.strip().splitlines()) == 1
    return done.stderr


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--tau", "-1"], "--tau must be from 0 to 1"),
        (["--seed", "-1"], "must be at least 0"),
        (["--integer", "--grid", "0.3"], "holds values that are no multiples of 0.3"),
        (["--export-retraining", str(MLP)], "cannot be made a folder"),
        (["--l2", "0"], "--l2 must be above 0"),
        (["--low", "1", "--high", "0"], "--low must be below --high"),
        (["--low", "0", "--high", "0.5"], "holds values outside of --low 0 to --high 0.5"),
        (["--strategy", "5"], "no strategy is called '5'; known: 1, 2, 3, 4, random, none"),
        (["--criterion", "kmnc"], "criterion kmnc needs reference statistics"),
        (["--criterion", "x"], "no criterion is called 'x'"),
        (["--iterations", "0"], "--iterations must be at least 1"),
        (["--against", "int4"], "no variant is called 'int4'; known: float16, bfloat16, int8, pruned"),
        (["--constraint", "x"], "no constraint is called 'x'; known: none, light, occlusion, blackout, l2"),
        (["--labels", str(X)], "labels for 40 rows"),
        (["--stats", "nowhere.npz"], "nowhere.npz: no such file"),
    ],
)
def test_an_option_that_does_not_fit_is_one_sentence(flags, text, images, tmp_path):
    said = refused("diff", MLP, "--data", images / "x.npy", *flags, "--out", tmp_path / "run")
    assert text in said


def test_images_of_another_size_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((3, 28, 28), np.float32))
    said = refused("diff", MLP, "--data", tmp_path / "x.npy", "--out", tmp_path / "run")
    assert "2352 values in 3 rows" in said and "has 64 inputs a row" in said
