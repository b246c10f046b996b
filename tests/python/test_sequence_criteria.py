"""Criteria of recurrent layers and of attention beside their definitions, written again with NumPy."""

import json

import pytest
from program import grapeshot, grapeshot_json, needs_program

np = pytest.importorskip("numpy")
onnx = pytest.importorskip("onnx")
from case_tools import node  # noqa: E402

pytestmark = needs_program

STEPS, WIDTH, UNITS, HEADS, DEPTH, CELLS = 6, 3, 4, 2, 2, 7
DEFINITIONS = {}  # name -> function of (net, tried, reference); test_criteria.py looks at the names


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def save(path, nodes, constants, shape):
    helper, FLOAT = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", FLOAT, shape)],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)])
    model.ir_version = 8
    onnx.save(model, path)


class Recurrent:
    """An LSTM in both directions, a GRU from the end on top of it, a layer."""

    def __init__(self, path):
        draw = np.random.default_rng(1)
        self.path = path

        def w(*shape):
            return draw.standard_normal(shape).astype(np.float32)

        self.w = {"wl": w(2, 4 * UNITS, WIDTH), "rl": w(2, 4 * UNITS, UNITS), "bl": w(2, 8 * UNITS)}
        self.w |= {"wg": w(1, 3 * UNITS, 2 * UNITS), "rg": w(1, 3 * UNITS, UNITS), "bg": w(1, 6 * UNITS)}
        nodes = [
            node("LSTM", "x wl rl bl", "a", direction="bidirectional", hidden_size=UNITS),
            node("Transpose", "a", "b", perm=[0, 2, 1, 3]),
            node("Reshape", "b joined", "c"),
            node("GRU", "c wg rg bg", "_ last", direction="reverse", hidden_size=UNITS),
            node("Reshape", "last flat", "d"),
            node("Gemm", "d out", "y"),
        ]
        nodes[3].output[0] = ""
        more = {"joined": np.array([STEPS, 1, 2 * UNITS]), "flat": np.array([1, UNITS]), "out": w(UNITS, 3)}
        save(path, nodes, self.w | more, [STEPS, 1, WIDTH])

    def lstm(self, x, direction):
        w, r = self.w["wl"][direction], self.w["rl"][direction]
        bias = self.w["bl"][direction].reshape(2, -1).sum(0)
        h, c, states = np.zeros((len(x), UNITS)), np.zeros((len(x), UNITS)), []
        for t in range(STEPS)[:: -1 if direction else 1]:
            i, o, f, g = np.split(x[:, t] @ w.T + h @ r.T + bias, 4, axis=1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            states.append(h)
        return states

    def gru(self, x):
        w, r, b = self.w["wg"][0], self.w["rg"][0], self.w["bg"][0]
        h, states = np.zeros((len(x), UNITS)), []
        for t in reversed(range(STEPS)):
            z, s, a = np.split(x[:, t] @ w.T + b[: 3 * UNITS], 3, axis=1)
            rz, rs, ra = np.split(r, 3)
            bz, bs, ba = np.split(b[3 * UNITS :], 3)
            z, s = sigmoid(z + h @ rz.T + bz), sigmoid(s + h @ rs.T + bs)
            h = (1 - z) * np.tanh(a + (s * h) @ ra.T + ba) + z * h
            states.append(h)
        return states

    def layers(self, x):
        """Hidden states [N, steps, units] in the order in which they come about."""
        x = x.reshape(len(x), STEPS, WIDTH).astype(float)
        forward, back = self.lstm(x, 0), self.lstm(x, 1)
        both = np.concatenate([np.array(forward), np.array(back)], 2).transpose(1, 0, 2)
        in_place = np.concatenate([np.array(forward), np.array(back[::-1])], 2).transpose(1, 0, 2)
        return [both, np.array(self.gru(in_place)).transpose(1, 0, 2)]


def hidden(net, x, reference):
    covered, total = set(), 0
    for k, (a, known) in enumerate(zip(net.layers(x), net.layers(reference), strict=True)):
        for u in range(a.shape[2]):
            low, high = known[:, :, u].min(), known[:, :, u].max()
            total += CELLS + CELLS**2
            for states in a[:, :, u]:
                cells = np.minimum(np.floor((states - low) / (high - low) * CELLS), CELLS - 1)
                cells[(states < low) | (states > high)] = -1
                covered |= {(k, u, c) for c in cells if c >= 0}
                steps = zip(cells, cells[1:], strict=False)
                covered |= {(k, u, *step) for step in steps if min(step) >= 0}
    return len(covered) / total


class Attention:
    """Two heads, then a layer of one head that reads what they give, and a softmax that is no attention."""

    def __init__(self, path):
        draw = np.random.default_rng(2)
        self.path = path

        def w(*shape):
            return draw.standard_normal(shape).astype(np.float32)

        self.w = {name: w(WIDTH, HEADS * DEPTH) for name in ("q", "k", "v")} | {"z": w(STEPS, 3)}
        nodes = [
            *(node("MatMul", f"x {n}", f"{n}_") for n in "qkv"),
            *(node("Reshape", f"{n}_ heads", f"{n}__") for n in "qkv"),
            node("Transpose", "q__", "queries", perm=[0, 2, 1, 3]),
            node("Transpose", "k__", "keys", perm=[0, 2, 3, 1]),
            node("Transpose", "v__", "values", perm=[0, 2, 1, 3]),
            node("MatMul", "queries keys", "scores"),
            node("Softmax", "scores", "weights", axis=-1),
            node("MatMul", "weights values", "mixed"),
            node("Transpose", "mixed", "turned", perm=[0, 2, 1, 3]),
            node("Reshape", "turned flat", "tokens"),
            node("Transpose", "tokens", "back", perm=[0, 2, 1]),
            node("MatMul", "tokens back", "alike"),
            node("Softmax", "alike", "second", axis=-1),
            node("Dropout", "second", "kept"),
            node("MatMul", "kept tokens", "again"),
            node("ReduceSum", "again axis", "sums", keepdims=0),
            node("Softmax", "sums", "decoy", axis=-1),
            node("MatMul", "decoy z", "y"),
        ]
        sizes = {"heads": np.array([1, STEPS, HEADS, DEPTH]), "flat": np.array([1, STEPS, -1])}
        save(path, nodes, self.w | sizes | {"axis": np.array([2])}, [1, STEPS, WIDTH])

    def layers(self, x):
        """Attention weights [N, heads, queries, keys]."""
        x = x.reshape(len(x), STEPS, WIDTH).astype(float)
        q, k, v = (
            (x @ self.w[n]).reshape(-1, STEPS, HEADS, DEPTH).transpose(0, 2, 1, 3) for n in "qkv"
        )
        first = softmax(q @ k.transpose(0, 1, 3, 2))
        tokens = (first @ v).transpose(0, 2, 1, 3).reshape(-1, STEPS, HEADS * DEPTH)
        return [first, softmax(tokens @ tokens.transpose(0, 2, 1))[:, None]]


def softmax(a):
    e = np.exp(a - a.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(net, x, reference):
    covered, total = set(), 0
    for k, p in enumerate(net.layers(x)):
        total += p.shape[1] * (2 * STEPS - 1) * CELLS
        spread = -(p * np.log(p)).sum(-1) / np.log(STEPS)
        cell = np.minimum(np.floor(spread * CELLS), CELLS - 1)
        offset = p.argmax(-1) - np.arange(STEPS)
        for h in range(p.shape[1]):
            covered |= {(k, h, *pair) for pair in zip(offset[:, h].flat, cell[:, h].flat, strict=True)}
    return len(covered) / total


DEFINITIONS |= {"hidden": hidden, "attention": attention}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("sequences")


def inputs(folder, n, seed, scale=1):
    x = (scale * np.random.default_rng(seed).standard_normal((n, STEPS * WIDTH))).astype(np.float32)
    path = folder / f"x{seed}.npy"
    np.save(path, x)
    return x, path


class Setting:
    """A net, its reference inputs with their statistics, and 40 others, some of them beyond."""

    def __init__(self, net, folder):
        self.net = net
        self.reference, path = inputs(folder, 90, 1)
        self.stats = folder / f"{net.path.stem}.npz"
        self.said = grapeshot("profile", net.path, "--data", path, "--out", self.stats, status=0).stdout
        self.x, self.data = inputs(folder, 40, 4, 1.5)


@pytest.fixture(scope="module")
def settings(folder):
    return {
        "hidden": Setting(Recurrent(folder / "recurrent.onnx"), folder),
        "attention": Setting(Attention(folder / "attention.onnx"), folder),
    }


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_value_is_that_of_the_definition_after_every_number_of_inputs(name, settings):
    s = settings[name]
    flags = ["--criteria", f"{name},nc", "--stats", s.stats, "--cells", CELLS]
    measured = grapeshot_json("coverage", s.net.path, "--data", s.data, *flags, status=0)
    curve = measured["curve"][name]
    assert curve == sorted(curve) and len(curve) == 40
    for n in (1, 2, 9, 40):
        assert curve[n - 1] == pytest.approx(DEFINITIONS[name](s.net, s.x[:n], s.reference), rel=1e-9), n
    assert 0.1 < curve[-1] < 1


def test_statistics_hold_the_ranges_of_states(settings):
    s = settings["hidden"]
    stats = np.load(s.stats)
    assert json.loads(bytes(stats["about"]))["states"] == ["a", "#left out/#3/4"]
    for i, known in enumerate(s.net.layers(s.reference)):
        flat = known.reshape(-1, known.shape[2])
        for array, expected in (("low", flat.min(0)), ("high", flat.max(0)), ("deviation", flat.std(0))):
            np.testing.assert_allclose(stats[f"state_{array}_{i}"], expected, atol=1e-5)
    assert "states" not in json.loads(bytes(np.load(settings["attention"].stats)["about"]))


def test_units_of_recurrent_layers_are_neurons(settings):
    """The largest |a| of a unit, and its mean, over the steps."""
    s = settings["hidden"]
    flags = ["--criteria", "nc,nbc", "--tau", 0.7, "--stats", s.stats]
    said = grapeshot_json("coverage", s.net.path, "--data", s.data, *flags, status=0)
    assert [tap["neurons"] for tap in said["taps"]] == [2 * UNITS, UNITS, 3]
    layers, known = (s.net.layers(x) for x in (s.x, s.reference))
    layers[1], known[1] = layers[1][:, ::-1], known[1][:, ::-1]
    out = np.load(s.stats)
    w = onnx.load(s.net.path).graph.initializer[-1]
    y = [a[1][:, 0] @ onnx.numpy_helper.to_array(w) for a in (layers, known)]
    fired = [(np.abs(a).max(1) > 0.7).any(0) for a in layers] + [(np.abs(y[0]) > 0.7).any(0)]
    assert said["criteria"]["nc"]["value"] == pytest.approx(np.concatenate(fired).mean())
    means = [[a.mean(1) for a in layers] + [y[0]], [a.mean(1) for a in known] + [y[1]]]
    beyond = sum((a > b.max(0)).any(0).sum() + (a < b.min(0)).any(0).sum() for a, b in zip(*means, strict=True))
    assert beyond > 0
    assert said["criteria"]["nbc"]["value"] == pytest.approx(beyond / (2 * (3 * UNITS + 3)))
    np.testing.assert_allclose(out["low_0"], known[0].mean(1).min(0), atol=1e-6)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_criterion_drives_a_campaign(name, settings, tmp_path):
    s = settings[name]
    args = ["fuzz", s.net.path, "--data", s.data, "--eps", 0.1, "--criterion", name, "--criteria", "nc"]
    args += ["--stats", s.stats, "--candidates", 3000, "--threads", 1, "--quiet", "--keep-going"]
    said = grapeshot_json(*args, "--out", tmp_path / "run")
    assert list(said["coverage"]) == [name, "nc"] and said["corpus_size"] > 40
    before = DEFINITIONS[name](s.net, s.x, s.reference)
    assert said["coverage"][name] > before / 2


def test_a_model_without_such_layers_is_refused_in_one_sentence(settings, tmp_path):
    for name, model, what in (
        ("hidden", settings["attention"].net.path, "recurrent layer"),
        ("attention", settings["hidden"].net.path, "attention"),
    ):
        data = settings[name].data
        for command in (
            ("coverage", model, "--data", data, "--criteria", name),
            ("fuzz", model, "--data", data, "--eps", 1, "--criterion", name, "--out", tmp_path / name),
        ):
            done = grapeshot(*command, status=2)
            assert len(done.stderr.strip().splitlines()) == 1 and done.stdout == ""
            assert f"{model.name}: has no {what}" in done.stderr
            assert f"which criterion {name} looks at" in done.stderr


def test_statistics_without_states_and_cells_out_of_range_are_refused(settings, tmp_path):
    s = settings["hidden"]
    old = dict(np.load(s.stats))
    about = json.loads(bytes(old["about"]))
    del about["states"]
    old["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    np.savez(tmp_path / "old.npz", **old)
    args = ["coverage", s.net.path, "--data", s.data, "--criteria", "hidden"]
    done = grapeshot(*args, "--stats", tmp_path / "old.npz", status=2)
    assert "know no states of layer 'a' of 8 units; make them again" in done.stderr
    assert "--cells must be from 1 to 1000" in grapeshot(*args, "--cells", 0, status=2).stderr
    assert "needs reference statistics" in grapeshot(*args, status=2).stderr
