"""Networks for sequences: operators that go step by step, and fuzzing embeddings of words with a token mask."""

import json
import re
import subprocess
import sys

import numpy as np
import onnx
import pytest
from case_tools import net, node, w
from conftest import ROOT
from onnx import helper
from program import MLP, grapeshot, grapeshot_json, needs_program, tree

sys.path.insert(0, str(ROOT / "tools"))
import make_text_models as made
import nets

TEXT = ROOT / "examples" / "text"
NETS = ("transformer", "lstm")
TOKENS, WIDTH = 20, 16
CUT = TOKENS * WIDTH
LABELS = np.load(TEXT / "labels.npy")
X = {name: np.load(TEXT / f"{name}_x.npy") for name in NETS}
PADDING = X["transformer"][:, CUT:] == 0  # [N, TOKENS]

pytestmark = needs_program


# --- operators ------------------------------------------------------------------------------------


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_batch_first_is_steps_first_turned(op, gates, direction, tmp_path):
    """ONNX Runtime has no layout 1; what it gives for layout 0 between two Transposes is what that means."""
    batch, steps, width, units, count = 3, 4, 2, 5, 1 + (direction == "bidirectional")
    constants = {"w": w(count, gates * units, width), "r": w(count, gates * units, units)}
    constants |= {"b": w(count, 2 * gates * units), "h": w(batch, count, units)}
    turned = constants | {"h": constants["h"].transpose(1, 0, 2).copy()}
    shape, known = (batch, steps, width), {"direction": direction, "hidden_size": units}
    x = w(6, *shape)
    for output, perm in ((0, [2, 0, 1, 3]), (1, [1, 0, 2])):
        names = " ".join(["_"] * output + ["y"])
        ours = net([node(op, "x w r b _ h", names, layout=1, **known)], shape, constants, 14)
        if output:
            ours = onnx.load_from_string(ours)
            ours.graph.node[0].output[0] = ""
            ours = ours.SerializeToString()
        theirs = [
            node("Transpose", "x", "a", perm=[1, 0, 2]),
            node(op, "a w r b _ h", names.replace("y", "c"), **known),
            node("Transpose", "c", perm=perm),
        ]
        if output:
            theirs[1].output[0] = ""
        (tmp_path / "ours.onnx").write_bytes(ours)
        expected = nets.Reference(net(theirs, shape, turned, 14), shape, fused=False)(x)
        assert nets.worst(nets.run(tmp_path / "ours.onnx", x).y, expected) <= 1


WEIGHTS = {"w": w(1, 4, 3), "r": w(1, 4, 1), "s": np.array([9], np.int32)}
WEIGHTS["e"] = np.zeros((0, 1, 3), np.float32)
REFUSED = {
    "an activation": (dict(activations=["Sigmoid", "Elu", "Tanh"]), "x w r", "'Elu' is not one of Sigmoid, Tanh"),
    "too few activations": (dict(activations=["Sigmoid"]), "x w r", "activations are 1, not 3"),
    "a direction": (dict(direction="sideways"), "x w r", "direction is 'sideways'"),
    "weights of one direction": (dict(direction="bidirectional"), "x w r", "W has 1"),
    "a layout": (dict(layout=2), "x w r", "layout is 2"),
    "weights that do not fit": ({}, "x r r", "do not fit 3 inputs and 4 gates"),
    "a number of units": (dict(hidden_size=7), "x w r", "hidden_size is 7, R has 1 units"),
    "lengths": ({}, "x w r _ s", "sequence_lens are not 1 numbers from 0 to 2"),
    "no steps": ({}, "e w r", "a sequence of 0 steps is not one of 1 to 65536"),
    "a clip": (dict(clip=-1.0), "x w r", "clip is -1"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_layer_that_cannot_be_is_refused_by_name(what, tmp_path):
    attributes, inputs, text = REFUSED[what]
    path = tmp_path / "refused.onnx"
    path.write_bytes(net([node("LSTM", inputs, **attributes)], (2, 1, 3), WEIGHTS, 14))
    with pytest.raises(nets.Refused, match=re.escape(text)) as refused:
        nets.run(path, w(1, 6))
    assert refused.value.status == 2 and "refused.onnx: node 'the_LSTM' (LSTM" in str(refused.value)


# --- the example ------------------------------------------------------------------------------------


def scores(name, x):
    return made.run((TEXT / f"{name}.onnx").read_bytes(), x)


@pytest.mark.parametrize("name", NETS)
def test_a_network_is_valid_and_reads_what_is_shipped_rightly(name, tmp_path):
    onnx.checker.check_model(onnx.load(TEXT / f"{name}.onnx"), full_check=True)
    expected = scores(name, X[name])
    assert (expected.argmax(1) == LABELS).all() and len(set(LABELS)) == 3
    out = tmp_path / "y.npy"
    grapeshot("run", TEXT / f"{name}.onnx", "--data", TEXT / f"{name}_x.npy", "--out", out, status=0)
    np.testing.assert_allclose(np.load(out), expected, rtol=1e-4, atol=1e-4)


def test_sentences_words_and_arrays_belong_together():
    words = (TEXT / "words.txt").read_text().split()
    table = np.load(TEXT / "vocabulary.npy")
    lines = (TEXT / "sentences.txt").read_text().splitlines()
    assert len(words) == len(table) and len(lines) == len(LABELS) == len(X["lstm"]) >= 20
    for line, label, x, padding in zip(lines, LABELS, X["lstm"], PADDING, strict=True):
        module, sentence = line.split(": ")
        assert made.text_nets.MODULES[label] == module
        ids = [words.index(word) if word in words else 1 for word in sentence.split()]
        assert padding.sum() == TOKENS - len(ids)
        ids += [0] * (TOKENS - len(ids))
        np.testing.assert_array_equal(x, table[ids].ravel())
    np.testing.assert_array_equal(X["transformer"][:, :CUT], X["lstm"])
    np.testing.assert_array_equal(np.load(TEXT / "lstm_frozen.npy"), np.repeat(PADDING, WIDTH, axis=1))
    assert sum(p.stat().st_size for p in TEXT.iterdir()) < 250_000


def test_the_script_makes_what_is_committed():
    script = ROOT / "tools" / "make_text_models.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_work_of_a_layer_counts_both_matrices_at_every_step():
    said = grapeshot_json("doctor", TEXT / "lstm.onnx")
    units, classes = 16, 3
    assert said["macs_per_row"] == TOKENS * 2 * 4 * units * (WIDTH + units) + 2 * units * classes


# --- fuzzing ----------------------------------------------------------------------------------------

CHANGES = {
    "transformer": ["--mask", "mask", "--drop", 2],
    "lstm": ["--frozen", TEXT / "lstm_frozen.npy"],
}
EPS = 0.15


def fuzz(name, out, *more, changes=None, eps=EPS, **rest):
    args = ["fuzz", TEXT / f"{name}.onnx", "--data", TEXT / f"{name}_x.npy", "--labels", TEXT / "labels.npy"]
    args += ["--eps", eps, *(CHANGES[name] if changes is None else changes), "--quiet", "--threads", 1]
    return grapeshot(*args, "--out", out, *more, **rest)


def inputs_of(run):
    """(row of the data, input) of every finding, and their reports."""
    reports = [json.loads(p.read_text()) for p in sorted(run.glob("findings/*/finding.json"))]
    return [(r["instance"], np.load(run / "findings" / r["id"] / "input.npy").ravel()) for r in reports], reports


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    for name in NETS:
        fuzz(name, out / name, "--candidates", 8000, "--per-instance", 20, "--keep-going", status=1)
    return out


@pytest.mark.parametrize("name", NETS)
def test_sentences_break_with_padding_untouched_and_bits_that_are_bits(name, runs):
    found, _ = inputs_of(runs / name)
    broken = {row for row, _ in found}
    assert len(broken) >= 8
    y = scores(name, np.array([x for _, x in found]))
    for (row, x), outputs in zip(found, y, strict=True):
        label = LABELS[row]
        assert outputs[label] <= np.delete(outputs, label).max()  # in ONNX Runtime
        before = X[name][row]
        assert np.abs(x - before)[:CUT].max() <= np.float32(EPS)
        padding = np.repeat(PADDING[row], WIDTH)
        np.testing.assert_array_equal(x[:CUT][padding], before[:CUT][padding])
        bits = x[CUT:]
        assert set(bits) <= {0.0, 1.0}
        if name == "transformer":
            assert (bits[PADDING[row]] == 0).all() and (bits == 0).sum() - PADDING[row].sum() <= 2
    done = grapeshot("replay", runs / name, status=0)
    assert f"{len(found)} of {len(found)} findings confirmed" in done.stdout


def test_tokens_are_dropped_alone_and_while_others_move(runs):
    found, reports = inputs_of(runs / "transformer")
    dropped = [report["dropped_inputs"] for report in reports]
    for (row, x), bits in zip(found, dropped, strict=True):
        assert bits == [CUT + int(t) for t in np.flatnonzero((x[CUT:] == 0) & ~PADDING[row])]
    assert min(map(len, dropped)) == 0 and max(map(len, dropped)) == 2
    moved = [np.any(x[:CUT] != X["transformer"][row, :CUT]) for row, x in found]
    assert any(bits and not m for bits, m in zip(dropped, moved, strict=True))
    assert any(bits and m for bits, m in zip(dropped, moved, strict=True))
    assert "mask" in {report["mutation"] for report in reports}


def test_a_finding_stands_only_with_its_own_bits(runs, tmp_path):
    """Its property.vnnlib fixes them: a fraction, another token or padding that moves is outside."""
    _, reports = inputs_of(runs / "transformer")
    report = next(r for r in reports if r["dropped_inputs"])
    place = runs / "transformer" / "findings" / report["id"]
    x = np.load(place / "input.npy").ravel()
    check = ["check", TEXT / "transformer.onnx", place / "property.vnnlib"]
    assert grapeshot(*check, place / "input.npy", status=0)
    kept = int(np.flatnonzero(x[CUT:] == 1)[0])
    padding = int(np.flatnonzero(PADDING[report["instance"]])[0])
    for i, value in ((report["dropped_inputs"][0], 0.5), (CUT + kept, 0.0), (padding * WIDTH, 0.01)):
        other = x.copy()
        other[i] = value
        np.save(tmp_path / "x.npy", other)
        assert f"X_{i} = " in grapeshot(*check, tmp_path / "x.npy", status=1).stdout


def test_masks_alone_break_a_sentence_and_none_when_none_may_be_dropped(tmp_path):
    fuzz("transformer", tmp_path / "some", "--mutations", "mask", "--candidates", 4000, status=1)
    found, _ = inputs_of(tmp_path / "some")
    assert found
    for row, x in found:
        np.testing.assert_array_equal(x[:CUT], X["transformer"][row, :CUT])
    changes = ["--mask", "mask", "--drop", 0]
    fuzz("transformer", tmp_path / "none", "--candidates", 4000, changes=changes, status=1)
    for row, x in inputs_of(tmp_path / "none")[0]:
        np.testing.assert_array_equal(x[CUT:], X["transformer"][row, CUT:])


def test_a_campaign_that_is_resumed_ends_as_one_that_was_not(tmp_path):
    fuzz("transformer", tmp_path / "whole", "--candidates", 3000, status=1)
    fuzz("transformer", tmp_path / "parts", "--candidates", 1000)
    grapeshot("resume", tmp_path / "parts", "--candidates", 3000, "--quiet")
    fuzz("transformer", tmp_path / "again", "--candidates", 3000, status=1)
    inputs = [
        {k: v for k, v in tree(tmp_path / p / "findings").items() if k.endswith("input.npy")}
        for p in ("whole", "parts", "again")
    ]
    assert inputs[0] and inputs[0] == inputs[1] == inputs[2]


def test_findings_are_put_into_words(tmp_path):
    """With a radius wide enough that other words are nearest; padding keeps its own."""
    words = ["--vocabulary", TEXT / "vocabulary.npy", "--words", TEXT / "words.txt"]
    fuzz("transformer", tmp_path / "words", "--candidates", 1500, *words, eps=2, status=1)
    names, table = (TEXT / "words.txt").read_text().split(), np.load(TEXT / "vocabulary.npy").astype(float)
    found, reports = inputs_of(tmp_path / "words")
    kinds = set()
    for (row, x), report in zip(found, reports, strict=True):

        def nearest(x):
            distance = np.linalg.norm(x[:CUT].reshape(TOKENS, 1, WIDTH) - table, axis=2)
            return [names[i] for i in distance.argmin(1)]

        was, now = nearest(X["transformer"][row].astype(float)), nearest(x.astype(float))
        dropped = (x[CUT:] == 0) & ~PADDING[row]
        expected = [
            {"token": t, "was": was[t], "is": None if dropped[t] else now[t]}
            for t in range(TOKENS)
            if dropped[t] or was[t] != now[t]
        ]
        assert report["tokens"] == expected
        kinds |= {None if each["is"] is None else str for each in expected}
    assert kinds == {None, str}


# --- what does not fit ----------------------------------------------------------------------------


@pytest.fixture
def odd(tmp_path):
    x = X["transformer"].copy()
    x[3, CUT + 1] = 0.5
    np.save(tmp_path / "half.npy", x)
    np.save(tmp_path / "short.npy", np.zeros(7))
    np.save(tmp_path / "two.npy", np.full(CUT, 2.0))
    lone = [
        helper.make_node("Relu", ["a"], ["y"]),
        helper.make_node("Relu", ["m"], ["z"]),
    ]
    ports = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [1, k]) for n, k in (("a", 4), ("m", 3))]
    outs = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in "yz"]
    model = helper.make_model(helper.make_graph(lone, "g", ports, outs), opset_imports=[helper.make_opsetid("", 14)])
    model.ir_version = 8
    onnx.save(model, tmp_path / "lone.onnx")
    np.save(tmp_path / "seven.npy", np.ones((2, 7), np.float32))
    return tmp_path


def test_what_does_not_fit_is_refused_in_one_sentence(odd):
    transformer, lstm = TEXT / "transformer.onnx", TEXT / "lstm.onnx"
    x, lx, table = TEXT / "transformer_x.npy", TEXT / "lstm_x.npy", TEXT / "vocabulary.npy"
    for args, text in (
        ((transformer, "--data", odd / "half.npy", "--mask", "mask"), "half.npy: row 3: bit 1 of the mask 'mask' is 0.5"),
        ((transformer, "--data", x, "--mask", "tokens"), "has no input 'tokens', which --mask names; its inputs: embeddings, mask"),
        ((lstm, "--data", lx, "--mask", "embeddings"), "no other input has a shape that begins with that of the mask"),
        ((odd / "lone.onnx", "--data", odd / "seven.npy", "--mask", "m"), "its 3 bits belong to no tokens"),
        ((lstm, "--data", lx, "--frozen", odd / "short.npy"), "short.npy: 7 values; one for each of 320 inputs, or of 24 rows"),
        ((lstm, "--data", lx, "--frozen", odd / "two.npy"), "two.npy: holds other values than 0 (free) and 1 (frozen)"),
        ((transformer, "--data", x, "--mask", "mask", "--drop", -1), "--drop must be at least 0"),
        ((lstm, "--data", lx, "--mutations", "descent,mask"), "mutation mask needs --mask"),
        ((lstm, "--data", lx, "--weights", "mask=1"), "mutation mask needs --mask"),
        ((transformer, "--data", x, "--drop", 2), "--drop requires --mask"),
        ((lstm, "--data", lx, "--vocabulary", odd / "short.npy"), "short.npy: is not of shape [V, E]"),
        ((lstm, "--data", lx, "--vocabulary", odd / "seven.npy"), "embeddings of 7 numbers; "),
        ((lstm, "--data", lx, "--vocabulary", table, "--words", TEXT / "sentences.txt"), "sentences.txt: 24 words; "),
    ):
        done = grapeshot("fuzz", *args, "--eps", 0.1, "--out", odd / "run", status=2)
        assert text in done.stderr and done.stdout == "", done.stderr
        assert not (odd / "run").exists()
    done = grapeshot("fuzz", MLP, odd / "no.vnnlib", "--mask", "x", status=2)
    assert "--mask requires --data" in done.stderr


def test_one_row_freezes_all_and_what_is_no_float32_is_the_nearest(tmp_path):
    x = X["lstm"].astype(np.float64) + 1e-12
    np.save(tmp_path / "x.npy", x)
    frozen = np.zeros(CUT)
    frozen[: CUT // 2] = 1
    np.save(tmp_path / "frozen.npy", frozen)
    args = ["fuzz", TEXT / "lstm.onnx", "--data", tmp_path / "x.npy", "--eps", 0.3, "--frozen", tmp_path / "frozen.npy"]
    grapeshot(*args, "--candidates", 2000, "--threads", 1, "--quiet", "--out", tmp_path / "run", status=1)
    found, reports = inputs_of(tmp_path / "run")
    for (row, found_x), report in zip(found, reports, strict=True):
        np.testing.assert_array_equal(found_x[: CUT // 2], x[row, : CUT // 2].astype(np.float32))
        assert report["nearest_float32_inputs"]
    grapeshot("replay", tmp_path / "run", status=0)
