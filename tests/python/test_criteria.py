"""Coverage criteria beside their definitions, written again with NumPy and SciPy.

The network has small whole numbers for weights and inputs, so that its activations are exact however they are
summed, and a value that agrees agrees to the last neuron.
"""

import itertools
import json

import pytest
import test_sequence_criteria
from program import DIGITS, MLP, grapeshot, grapeshot_json, needs_program

np = pytest.importorskip("numpy")
onnx = pytest.importorskip("onnx")

pytestmark = needs_program

SIDE, CHANNELS, HIDDEN, CLASSES = 5, 3, 6, 3


class Net:
    """Convolution, ReLU, two linear layers: as an ONNX file, and as arithmetic."""

    def __init__(self, path, seed=3):
        rng = np.random.default_rng(seed)
        self.path = path
        self.w1 = rng.integers(-2, 3, (CHANNELS, 1, 2, 2)).astype(np.float32)
        self.b1 = rng.integers(-2, 3, CHANNELS).astype(np.float32)
        self.w2 = rng.integers(-2, 3, (CHANNELS * 16, HIDDEN)).astype(np.float32)
        self.b2 = rng.integers(-9, 10, HIDDEN).astype(np.float32)
        self.w3 = rng.integers(-2, 3, (HIDDEN, CLASSES)).astype(np.float32)
        self.b3 = rng.integers(-2, 3, CLASSES).astype(np.float32)
        self.save()

    def save(self):
        helper, FLOAT = onnx.helper, onnx.TensorProto.FLOAT
        constants = {n: getattr(self, n) for n in ("w1", "b1", "w2", "b2", "w3", "b3")}
        nodes = [
            helper.make_node("Conv", ["x", "w1", "b1"], ["conv"]),
            helper.make_node("Relu", ["conv"], ["first"]),
            helper.make_node("Flatten", ["first"], ["flat"]),
            helper.make_node("Gemm", ["flat", "w2", "b2"], ["linear"]),
            helper.make_node("Relu", ["linear"], ["second"]),
            helper.make_node("Gemm", ["second", "w3", "b3"], ["y"]),
        ]
        graph = helper.make_graph(
            nodes,
            "net",
            [helper.make_tensor_value_info("x", FLOAT, [1, 1, SIDE, SIDE])],
            [helper.make_tensor_value_info("y", FLOAT, [1, CLASSES])],
            [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
        model.ir_version = 8
        onnx.save(model, self.path)

    def layers(self, x):
        """Whole layers [N, channels, space] or [N, units] of the taps that count: ReLUs and outputs."""
        n = len(x)
        image = x.reshape(n, SIDE, SIDE)
        conv = np.zeros((n, CHANNELS, 4, 4), np.float32)
        for a, b in itertools.product(range(2), range(2)):
            conv += self.w1[None, :, 0, a, b, None, None] * image[:, None, a : a + 4, b : b + 4]
        first = np.maximum(conv + self.b1[None, :, None, None], 0)
        second = np.maximum(first.reshape(n, -1) @ self.w2 + self.b2, 0)
        return [first.reshape(n, CHANNELS, 16), second, second @ self.w3 + self.b3]


def means(layers):
    return [a.mean(2) if a.ndim == 3 else a for a in layers]


def largest(layers):
    return [np.abs(a).max(2) if a.ndim == 3 else np.abs(a) for a in layers]


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    return Net(tmp_path_factory.mktemp("criteria") / "net.onnx")


def inputs(net, n, seed):
    x = np.random.default_rng(seed).integers(0, 4, (n, 1, SIDE, SIDE)).astype(np.float32)
    path = net.path.parent / f"x{seed}.npy"
    np.save(path, x)
    return x, path


@pytest.fixture(scope="module")
def reference(net):
    """200 inputs and their statistics."""
    x, path = inputs(net, 200, 1)
    out = net.path.parent / "stats.npz"
    grapeshot("profile", net.path, "--data", path, "--out", out, status=0)
    return x, out


@pytest.fixture(scope="module")
def tried(net):
    """60 inputs, some beyond what the reference has: every one is a batch of its own."""
    x, path = inputs(net, 60, 2)
    x[::7] *= 2
    np.save(path, x)
    return x, path


# --- the definitions ------------------------------------------------------------------------------

K, TOP, SECTIONS, TAU = 3, 2, 97, 0.4


def nc(net, x, reference):
    fired = [(a > TAU).any(0) for a in largest(net.layers(x))]
    return np.concatenate(fired).mean()


def nc_scaled(net, x, reference):
    fired = []
    for a in net.layers(x):
        flat = a.reshape(len(a), -1)
        low, high = flat.min(1, keepdims=True), flat.max(1, keepdims=True)
        scaled = (flat - low) / np.where(high > low, high - low, 1)
        neurons = scaled.reshape(a.shape)
        fired.append(((neurons.mean(2) if a.ndim == 3 else neurons) > TAU).any(0))
    return np.concatenate(fired).mean()


def kmnc(net, x, reference):
    hit = total = 0
    for a, known in zip(means(net.layers(x)), means(net.layers(reference)), strict=True):
        for j in range(a.shape[1]):
            low, high = known[:, j].min(), known[:, j].max()
            inside = a[(a[:, j] >= low) & (a[:, j] <= high), j]
            share = (inside - low) / (high - low) if high > low else inside * 0
            hit += len(set(np.minimum(np.floor(share * SECTIONS), SECTIONS - 1)))
            total += SECTIONS
    return hit / total


def beyond(net, x, reference, below, sigma=0.5):
    hit = total = 0
    for a, known in zip(means(net.layers(x)), means(net.layers(reference)), strict=True):
        spread = sigma * known.std(0)
        hit += (a > known.max(0) + spread).any(0).sum()
        total += a.shape[1]
        if below:
            hit += (a < known.min(0) - spread).any(0).sum()
            total += a.shape[1]
    return hit / total


def nbc(net, x, reference):
    return beyond(net, x, reference, True)


def snac(net, x, reference):
    return beyond(net, x, reference, False)


def top_sets(a, sign):
    """Per input the TOP most (least) active neurons, the lower index first among equals."""
    return [frozenset(np.argsort(-sign * row, kind="stable")[:TOP]) for row in a]


def among(net, x, sign):
    hit = total = 0
    for a in means(net.layers(x)):
        hit += len(frozenset().union(*top_sets(a, sign)))
        total += a.shape[1]
    return hit / total


def tknc(net, x, reference):
    return among(net, x, 1)


def bknc(net, x, reference):
    return among(net, x, -1)


def tknp(net, x, reference):
    return len(set(zip(*(top_sets(a, 1) for a in means(net.layers(x))), strict=True)))


BUCKETS, UPPER = 400, 40.0


def buckets(values):
    values = np.asarray(values, float)
    values = values[(values > 0) & (values <= UPPER)]
    return len(set(np.ceil(values / UPPER * BUCKETS))) / BUCKETS


def traces(net, x):
    layers = net.layers(x)
    return layers[1].astype(float), layers[-1].argmax(1)


def lsa(net, x, reference):
    stats = pytest.importorskip("scipy.stats")
    known, known_class = traces(net, reference)
    tried, tried_class = traces(net, x)
    out = []
    for row, c in zip(tried, tried_class, strict=True):
        own = known[known_class == c]
        kept = own.var(0) >= 1e-5
        out.append(-stats.gaussian_kde(own[:, kept].T).logpdf(row[kept])[0])
    return buckets(out)


def dsa(net, x, reference):
    known, known_class = traces(net, reference)
    tried, tried_class = traces(net, x)
    out = []
    for row, c in zip(tried, tried_class, strict=True):
        own, others = known[known_class == c], known[known_class != c]
        distance = np.linalg.norm(own - row, axis=1)
        nearest = own[distance.argmin()]
        out.append(distance.min() / np.linalg.norm(others - nearest, axis=1).min())
    return buckets(out)


def mdsa(net, x, reference):
    known, known_class = traces(net, reference)
    tried, tried_class = traces(net, x)
    out = []
    for row, c in zip(tried, tried_class, strict=True):
        own = known[known_class == c]
        off = row - own.mean(0)
        out.append(np.sqrt(off @ np.linalg.pinv(np.cov(own.T)) @ off))
    return buckets(out)


SIGN_RATIO, VALUE_RATIO = 0.4, 1.5


def pairs(net, x, condition, decision):
    layers = means(net.layers(x))
    covered, total = set(), 0
    for k, (a, b) in enumerate(itertools.pairwise(layers)):
        total += a.shape[1] * b.shape[1]

        def changed(layer, i):
            now, before = layer[i], layer[i - 1]
            sign = (now > 0) != (before > 0)
            most, least = np.maximum(abs(now), abs(before)), np.minimum(abs(now), abs(before))
            return {"s": sign, "v": ~sign & (most >= VALUE_RATIO * least) & (most != least)}

        for i in range(1, len(x)):
            here, there = changed(a, i), changed(b, i)
            for alpha in np.flatnonzero(here[condition]):
                others = here["s"].sum() - here["s"][alpha]
                if others <= SIGN_RATIO * (a.shape[1] - 1):
                    covered |= {(k, alpha, beta) for beta in np.flatnonzero(there[decision])}
    return len(covered) / total


def ss(net, x, reference):
    return pairs(net, x, "s", "s")


def sv(net, x, reference):
    return pairs(net, x, "s", "v")


def vs(net, x, reference):
    return pairs(net, x, "v", "s")


def vv(net, x, reference):
    return pairs(net, x, "v", "v")


DISTANCE = 150.0


def ann(net, x, reference):
    kept = []
    for y in net.layers(x)[-1].astype(float):
        if all(((y - other) ** 2).sum() > DISTANCE for other in kept):
            kept.append(y)
    return len(kept)


def nlc(net, x, reference):
    total = 0.0
    for a in means(net.layers(x)):
        kept, value = [a[0].astype(float)], 0.0
        for row in a[1:].astype(float):  # a batch is one input; one that lowers the value is left out
            trial = np.abs(np.cov(np.array([*kept, row]).T, bias=True)).mean()
            if trial > value:
                value = trial
                kept.append(row)
        total += value
    return total


DEFINITIONS = {
    "nc": nc,
    "nc-scaled": nc_scaled,
    "kmnc": kmnc,
    "nbc": nbc,
    "snac": snac,
    "tknc": tknc,
    "tknp": tknp,
    "bknc": bknc,
    "lsa": lsa,
    "dsa": dsa,
    "mdsa": mdsa,
    "ss": ss,
    "sv": sv,
    "vs": vs,
    "vv": vv,
    "ann": ann,
    "nlc": nlc,
}
FLAGS = ["--tau", TAU, "--sections", SECTIONS, "--sigma", 0.5, "--top-neurons", TOP, "--buckets", BUCKETS]
FLAGS += ["--upper-bound", UPPER, "--distance", DISTANCE, "--sign-ratio", SIGN_RATIO, "--value-ratio", VALUE_RATIO]


def listed():
    return [row["name"] for row in grapeshot_json("list", "criteria", status=0)["criteria"]]


def test_every_criterion_has_a_definition_here():
    assert set(listed()) == {*DEFINITIONS, *test_sequence_criteria.DEFINITIONS}


@pytest.fixture(scope="module")
def measured(net, reference, tried):
    names = ",".join(DEFINITIONS)
    flags = ["--criteria", names, "--stats", reference[1], *FLAGS]
    return grapeshot_json("coverage", net.path, "--data", tried[1], *flags, status=0)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_value_is_that_of_the_definition(name, net, reference, tried, measured):
    expected = DEFINITIONS[name](net, tried[0], reference[0])
    assert 0 < expected, "the inputs leave nothing to compare"
    assert measured["criteria"][name]["value"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_curve_has_the_value_after_every_number_of_inputs(name, net, reference, tried, measured):
    curve = measured["curve"]
    assert curve["inputs"] == list(range(1, 61))
    assert curve[name] == sorted(curve[name])
    for n in (1, 7, 30):
        expected = DEFINITIONS[name](net, tried[0][:n], reference[0])
        assert curve[name][n - 1] == pytest.approx(expected, rel=1e-6, abs=1e-12), n


def test_the_report_says_what_it_cost(measured):
    assert measured["inputs"] == 60 and measured["neurons"] == CHANNELS + HIDDEN + CLASSES
    for row in measured["criteria"].values():
        assert row["seconds"] > 0 and row["peak_mib"] >= 0 and row["kept_mib"] > 0 and row["us_per_input"] > 0


def test_a_curve_goes_to_a_csv_and_the_table_to_a_person(net, tried, tmp_path):
    curve = tmp_path / "curve.csv"
    done = grapeshot(
        "coverage", net.path, "--data", tried[1], "--criteria", "nc,tknp", "--curve", curve, status=0
    )
    assert "60 inputs, 12 neurons in 3 layers" in done.stdout
    rows = curve.read_text().splitlines()
    assert rows[0] == "inputs,nc,tknp" and len(rows) == 61 and rows[-1].startswith("60,")


def test_statistics_are_an_npz_that_numpy_reads(net, reference):
    x, path = reference
    stats = np.load(path)
    about = json.loads(bytes(stats["about"]))
    assert about["rows"] == 200 and about["layer"] == "second"
    assert about["taps"] == ["conv", "first", "linear", "second", "y"]
    layers = means(net.layers(x))
    np.testing.assert_array_equal(stats["low_1"], layers[0].min(0))
    np.testing.assert_array_equal(stats["high_3"], layers[1].max(0))
    np.testing.assert_allclose(stats["deviation_4"], layers[2].std(0), rtol=1e-5)
    np.testing.assert_array_equal(stats["traces"], layers[1])
    np.testing.assert_array_equal(stats["predicted"], layers[2].argmax(1))


def test_the_same_data_give_the_same_statistics_byte_for_byte(net, reference, tmp_path):
    _, first = reference
    again = tmp_path / "again.npz"
    data = net.path.parent / "x1.npy"
    grapeshot("profile", net.path, "--data", data, "--out", again, status=0)
    assert again.read_bytes() == first.read_bytes()


def test_another_layer_can_be_traced(net, tmp_path):
    _, data = inputs(net, 50, 5)
    out = tmp_path / "stats.npz"
    said = grapeshot_json("profile", net.path, "--data", data, "--out", out, "--layer", "first", status=0)
    assert said["layer"] == "first" and np.load(out)["traces"].shape == (50, CHANNELS)


# --- every criterion can drive a campaign ---------------------------------------------------------


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_criterion_drives_and_the_others_are_reported(name, net, reference, tmp_path):
    _, data = inputs(net, 8, 6)
    others = "nc,tknc,ann"
    said = grapeshot_json(
        *("fuzz", net.path, "--data", data, "--eps", 0.01, "--criterion", name, "--criteria", others),
        *("--stats", reference[1], "--candidates", 2000, "--threads", 1, "--quiet", "--keep-going"),
        *("--out", tmp_path / "run"),
    )
    assert list(said["coverage"])[0] == name
    assert {"nc", "tknc", "ann"} <= set(said["coverage"])
    assert all(value >= 0 for value in said["coverage"].values())


@pytest.mark.parametrize("name", ["mlp", "cnn_bn", "resnet", "attention"])
def test_inputs_that_statistics_were_made_of_are_within_their_ranges(name, tmp_path):
    """Also one by one, where other sums are taken in another order than in a batch."""
    model, data = DIGITS / f"{name}.onnx", DIGITS / "data" / "X.npy"
    stats = tmp_path / "stats.npz"
    grapeshot("profile", model, "--data", data, "--out", stats, status=0)
    said = grapeshot_json("coverage", model, "--data", data, "--stats", stats, "--criteria", "nbc,snac", status=0)
    assert [row["value"] for row in said["criteria"].values()] == [0, 0]


# --- what does not fit ----------------------------------------------------------------------------


def refused(*args):
    done = grapeshot(*args, status=2)
    assert done.stdout == "" and len(done.stderr.strip().splitlines()) == 1
    return done.stderr


def test_statistics_of_another_model_are_refused(reference, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((3, 64), np.float32))
    said = refused("coverage", MLP, "--data", tmp_path / "x.npy", "--criteria", "kmnc", "--stats", reference[1])
    assert "the statistics are of another model than" in said


def test_missing_statistics_are_asked_for(net, tried):
    said = refused("coverage", net.path, "--data", tried[1], "--criteria", "kmnc")
    assert "kmnc needs reference statistics" in said and "grapeshot profile" in said


@pytest.mark.parametrize("tau", ["-1", "nan", "inf"])
def test_a_threshold_out_of_range_is_refused(tau, net, tried):
    assert "--tau" in refused("coverage", net.path, "--data", tried[1], f"--tau={tau}")


def test_images_of_another_size_are_refused(net, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((3, 28, 28), np.float32))
    said = refused("coverage", net.path, "--data", tmp_path / "x.npy")
    assert "2352 values in 3 rows" in said and "has 25 inputs a row" in said


def test_best_input_is_for_neuron_coverage(net, tried):
    said = refused("coverage", net.path, "--data", tried[1], "--criteria", "tknc", "--coverage", "best-input")
    assert "criterion tknc: --coverage best-input is for nc and nc-scaled" in said


def test_an_unknown_criterion_or_layer_lists_the_known_ones(net, tried, tmp_path):
    assert "known: nc, nc-scaled, kmnc" in refused("coverage", net.path, "--data", tried[1], "--criteria", "x")
    said = refused(
        "profile", net.path, "--data", tried[1], "--out", tmp_path / "s.npz", "--layer", "third"
    )
    assert "has no layer 'third'; known: first, second, y" in said


@pytest.mark.parametrize("damage", ["text", "cut", "other"])
def test_a_file_that_holds_no_statistics_is_refused(damage, net, tried, reference, tmp_path):
    bad = tmp_path / "bad.npz"
    if damage == "text":
        bad.write_text("hello")
    elif damage == "cut":
        bad.write_bytes(reference[1].read_bytes()[:-200])
    else:
        np.savez(bad, a=np.zeros(3))
    said = refused("coverage", net.path, "--data", tried[1], "--criteria", "kmnc", "--stats", bad)
    assert "bad.npz: " in said


def test_a_model_without_neurons_has_none_to_cover(tmp_path):
    helper, FLOAT = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["y"])],
        "net",
        [helper.make_tensor_value_info("x", FLOAT, [1, 2])],
        [helper.make_tensor_value_info("y", FLOAT, [1, 2])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    onnx.save(model, tmp_path / "neg.onnx")
    np.save(tmp_path / "x.npy", np.ones((3, 2), np.float32))
    said = grapeshot_json("coverage", tmp_path / "neg.onnx", "--data", tmp_path / "x.npy", status=0)
    assert said["neurons"] == 0 and said["criteria"]["nc"]["value"] == 0
    refusal = refused(
        "profile", tmp_path / "neg.onnx", "--data", tmp_path / "x.npy", "--out", tmp_path / "s.npz"
    )
    assert "has no layer whose neurons could be counted" in refusal
