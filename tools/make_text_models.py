#!/usr/bin/env python3
"""Makes examples/text: a transformer and an LSTM that tell sentences apart, with sentences to try.

usage: make_text_models.py [--out FOLDER]   write the files
       make_text_models.py --check          make them again elsewhere and compare

Words, labels and masks must agree exactly; what was trained to 1e-3 of what it gives, since another processor may
round differently while training.
"""

import argparse
import pathlib
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
import torch

import text_nets
from make_example_models import without_weights
from text_nets import PADDING, TOKENS, UNKNOWN, WIDTH, Lstm, Transformer

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "examples" / "text"
HELD_OUT = 5  # every fifth sentence tests
ROWS = 24  # test sentences that are shipped


def run(model, x):
    """Scores [N, classes] in ONNX Runtime for flat rows, one at a time."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    cut = TOKENS * WIDTH
    out = []
    for row in x.astype(np.float32):
        parts = {"embeddings": row[:cut].reshape(1, TOKENS, WIDTH), "mask": row[None, cut:]}
        out.append(session.run(None, {i.name: parts[i.name] for i in session.get_inputs()})[0])
    return np.concatenate(out)


def embedded(ids, table, masked):
    """Rows of a network's inputs for word numbers [N, TOKENS]."""
    flat = table[ids].reshape(len(ids), -1)
    return np.concatenate([flat, ids != PADDING], 1).astype(np.float32) if masked else flat


def make(out):
    order = np.random.RandomState(0).permutation(len(known := text_nets.sentences()))
    shuffled = [known[i] for i in order]
    training = [s for i, s in enumerate(shuffled) if i % HELD_OUT]
    testing = shuffled[::HELD_OUT]
    words = text_nets.vocabulary(training)
    ids, labels = text_nets.numbered(training, words)
    test_ids, test_labels = text_nets.numbered(testing, words)
    torch.manual_seed(1)
    embedding = torch.nn.Embedding(len(words), WIDTH, padding_idx=PADDING, dtype=torch.float64)
    nets = {}
    nets["transformer"] = text_nets.train(Transformer, ids, labels, embedding, 2, 12, 4e-3)
    embedding.requires_grad_(False)
    nets["lstm"] = text_nets.train(Lstm, ids, labels, embedding, 3, 25, 1e-2)
    table = embedding.weight.detach().numpy().astype(np.float32)
    written = {
        "transformer": text_nets.transformer_onnx(nets["transformer"]),
        "lstm": text_nets.lstm_onnx(nets["lstm"]),
    }
    right = np.ones(len(test_ids), bool)
    out.mkdir(parents=True, exist_ok=True)
    for name, model in written.items():
        data = model.SerializeToString(deterministic=True)
        (out / f"{name}.onnx").write_bytes(data)
        x = embedded(test_ids, table, name == "transformer")
        mine = run(data, x).argmax(1) == test_labels
        print(f"{name}.onnx: {len(data)} bytes, {mine.mean():.1%} of {len(mine)} test sentences right")
        right &= mine
    # Those that are shipped: half of the words known, read rightly by both.
    plain = ((test_ids == UNKNOWN).sum(1) * 2 <= (test_ids != PADDING).sum(1)) & right
    rows = np.flatnonzero(plain)[:ROWS]
    np.save(out / "vocabulary.npy", table)
    (out / "words.txt").write_text("\n".join(words) + "\n")
    lines = [f"{text_nets.MODULES[testing[r][1]]}: {' '.join(testing[r][0])}" for r in rows]
    (out / "sentences.txt").write_text("\n".join(lines) + "\n")
    for name in written:
        np.save(out / f"{name}_x.npy", embedded(test_ids[rows], table, name == "transformer"))
    np.save(out / "labels.npy", test_labels[rows])
    padding = np.repeat(test_ids[rows] == PADDING, WIDTH, axis=1)
    np.save(out / "lstm_frozen.npy", padding.astype(np.uint8))


def differences(made, kept):
    """Sentences, one for each file that is not as it was committed."""
    for name in sorted({p.name for f in (made, kept) for p in f.iterdir()}):
        if not (made / name).is_file() or not (kept / name).is_file():
            yield f"{name}: {'no longer made' if (kept / name).is_file() else 'not committed'}"
            continue
        new, old = (made / name).read_bytes(), (kept / name).read_bytes()
        if new == old:
            continue
        if name.endswith(".onnx"):
            models = [onnx.load_from_string(data) for data in (new, old)]
            if without_weights(models[0]) != without_weights(models[1]):
                yield f"{name}: another structure"
                continue
            x = np.load(kept / name.replace(".onnx", "_x.npy"))
            a, b = run(new, x), run(old, x)
        elif name in ("vocabulary.npy", "transformer_x.npy", "lstm_x.npy"):
            a, b = np.load(made / name), np.load(kept / name)
        else:
            yield f"{name}: differs"
            continue
        worst = (np.abs(a - b) / (1 + np.abs(b))).max() if a.shape == b.shape else np.inf
        print(f"{name}: not the same bytes; differs by {worst:.2g} (relative)")
        if worst > 1e-3:
            yield f"{name}: differs by {worst:.2g}"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=pathlib.Path, default=FOLDER)
    parser.add_argument(
        "--check", action="store_true", help="compare with --out instead of writing there"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    with tempfile.TemporaryDirectory() as scratch:
        out = pathlib.Path(scratch) if arguments.check else arguments.out
        make(out)
        if arguments.check:
            found = list(differences(out, arguments.out))
            print("\n".join(found) or "as committed")
            sys.exit(bool(found))


if __name__ == "__main__":
    main()
