#!/usr/bin/env python3
"""Makes examples/digits: five small networks, their VNN-LIB files, instances.csv and a test set.

usage: make_example_models.py [--out FOLDER]   write the files
       make_example_models.py --check          make them again elsewhere and compare
       make_example_models.py --attack         also say which instances a plain PGD breaks

Specifications and test data must agree byte for byte; models in structure, and in their outputs to
1e-3, since another processor may round differently while training.
"""

import argparse
import pathlib
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
import torch
from sklearn.datasets import load_digits

import example_nets
import example_specs

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "examples" / "digits"
TRAINING = 1437  # the other 360 pictures test
TIMEOUT_S = 30
DATA_ROWS = 64


def digits():
    """(train x, train y, test x, test y): x [N, 64] in [0, 1], multiples of 1/16."""
    raw = load_digits()
    order = np.random.RandomState(0).permutation(len(raw.data))
    x, y = raw.data[order] / 16, raw.target[order].astype(np.int64)
    return x[:TRAINING], y[:TRAINING], x[TRAINING:], y[TRAINING:]


def run(model, x):
    """Outputs [N, 10] of a model in ONNX Runtime, row by row (a batch of 1 may be baked in)."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    shape = [1] + list(given.shape[1:])
    rows = [session.run(None, {given.name: row.reshape(shape)})[0] for row in x.astype(np.float32)]
    return np.concatenate(rows)


def make(out):
    """Writes everything below `out`; gives {net name: torch module} and [(net, file, Spec)]."""
    train_x, train_y, test_x, test_y = digits()
    spread = train_x.std(axis=0)
    nets, specs = {}, []
    (out / "vnnlib").mkdir(parents=True, exist_ok=True)
    (out / "data").mkdir(exist_ok=True)
    for name, make_net in example_nets.NETS.items():
        nets[name], model = make_net((train_x, train_y))
        data = model.SerializeToString(deterministic=True)
        (out / f"{name}.onnx").write_bytes(data)
        right = run(data, test_x).argmax(1) == test_y
        print(
            f"{name}.onnx: {len(data)} bytes, {right.mean():.1%} of test pictures right",
            flush=True,
        )
        for net, kind, rows, radius in example_specs.INSTANCES:
            if net == name:
                assert right[list(rows)].all(), f"{name}: a picture of {rows} is not recognised"
                pictures = [(test_x[r], int(test_y[r])) for r in rows]
                spec = example_specs.KINDS[kind](pictures, spread, radius)
                numbers = "_".join(str(r) for r in rows)
                file = f"vnnlib/{name}_{kind}_{numbers}_radius_{radius}.vnnlib"
                (out / file).write_text(example_specs.text(spec))
                specs.append((name, file, spec))
    rows = "".join(f"{name}.onnx,{file},{TIMEOUT_S}\n" for name, file, _ in specs)
    (out / "instances.csv").write_text(rows)
    np.save(out / "data" / "X.npy", test_x[:DATA_ROWS].astype(np.float32))
    np.save(out / "data" / "y.npy", test_y[:DATA_ROWS])
    return nets, specs


def without_weights(model):
    """The model with every float weight's values removed: what is left must be equal."""
    for weight in model.graph.initializer:
        if weight.data_type == onnx.TensorProto.FLOAT:
            weight.ClearField("raw_data")
            weight.ClearField("float_data")
    return model


def differences(made, kept, inputs=None):
    """Sentences, one for each file that is not as it was committed; models are compared on the rows
    inputs(name)."""
    names = {p.relative_to(f).as_posix() for f in (made, kept) for p in f.rglob("*") if p.is_file()}
    if inputs is None:
        digit_rows = np.load(made / "data" / "X.npy")
        inputs = lambda _: digit_rows  # noqa: E731
    for name in sorted(names):
        if not (made / name).is_file() or not (kept / name).is_file():
            yield f"{name}: {'no longer made' if (kept / name).is_file() else 'not committed'}"
            continue
        new, old = (made / name).read_bytes(), (kept / name).read_bytes()
        if new == old:
            continue
        if not name.endswith(".onnx"):
            yield f"{name}: differs"
        elif without_weights(onnx.load_from_string(new)) != without_weights(
            onnx.load_from_string(old)
        ):
            yield f"{name}: another structure"
        else:
            a, b = (run(model, inputs(name)) for model in (new, old))
            worst = (np.abs(a - b) / (1 + np.abs(b))).max()
            print(f"{name}: not the same bytes; outputs differ by {worst:.2g} (relative)")
            if worst > 1e-3:
                yield f"{name}: outputs differ by {worst:.2g}"


def float32_bounds(case):
    """The box of a case in float32, rounded inwards (frozen pixels are exact)."""
    lo, hi = (np.array([float(v) for v in side]) for side in (case.lo, case.hi))
    lo32, hi32 = lo.astype(np.float32), hi.astype(np.float32)
    lo32 = np.where(lo32 < lo, np.nextafter(lo32, np.float32(2)), lo32)
    hi32 = np.where(hi32 > hi, np.nextafter(hi32, np.float32(-1)), hi32)
    return lo32, hi32


def matrix(case):
    """[16, 11]: A and b with A y + b <= 0 where the case holds; the last row is repeated."""
    rows = []
    for op, left, right in case.atoms:
        row = np.zeros(11)
        for term, factor in ((left, 1), (right, -1)) if op == "<=" else ((left, -1), (right, 1)):
            if term.startswith("Y_"):
                row[int(term[2:])] += factor
            else:
                row[10] += factor * float(term)
        rows.append(row)
    return np.array(rows + [rows[-1]] * (16 - len(rows)))


def attack(net, spec, restarts=180, steps=40):
    """Sign-step PGD, a row per case and restart: (inputs [N, 64] float32, cases, best margin)."""
    rng = np.random.RandomState(0)
    which = np.arange(max(restarts, len(spec.cases))) % len(spec.cases)
    bounds = [float32_bounds(c) for c in spec.cases]
    lo, hi = (
        torch.tensor(np.array([b[k] for b in bounds])[which], dtype=torch.float64) for k in (0, 1)
    )
    a = torch.tensor(np.array([matrix(c) for c in spec.cases])[which])
    x = lo + torch.tensor(rng.random_sample(lo.shape)) * (hi - lo)
    best, best_x = torch.full((len(x),), np.inf, dtype=torch.float64), x.clone()
    for t in range(steps):
        x.requires_grad_(True)
        margin = (torch.einsum("nmk,nk->nm", a[:, :, :10], net(x)) + a[:, :, 10]).amax(1)
        (gradient,) = torch.autograd.grad(margin.sum(), x)
        x, margin = x.detach(), margin.detach()
        better = margin < best
        best, best_x = torch.where(better, margin, best), torch.where(better[:, None], x, best_x)
        x = x - (hi - lo) * 0.25 * 0.92**t * gradient.sign()
        x = torch.maximum(torch.minimum(x, hi), lo)
    hits = (best <= 0).nonzero()[:50, 0].numpy()
    return best_x.numpy()[hits].astype(np.float32), which[hits], best.min().item()


def report_attacks(nets, specs, out):
    broken = 0
    for name, file, spec in specs:
        x, which, best = attack(nets[name], spec)
        held = 0
        if len(x):
            y = run((out / f"{name}.onnx").read_bytes(), x)
            for row, case in zip(range(len(x)), (spec.cases[k] for k in which), strict=True):
                lo, hi = float32_bounds(case)
                inside = ((x[row] >= lo) & (x[row] <= hi)).all()
                held += bool(inside and example_specs.margins(case, y[row : row + 1])[0] <= 0)
        broken += held > 0
        print(
            f"{'broken' if held else 'stands'} {file}: best margin {best:.3g},"
            f" {held} of {len(x)} hold in ONNX Runtime",
            flush=True,
        )
    print(f"plain PGD breaks {broken} of {len(specs)} instances")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=pathlib.Path, default=FOLDER)
    parser.add_argument(
        "--check", action="store_true", help="compare with --out instead of writing there"
    )
    parser.add_argument("--attack", action="store_true", help="run a plain PGD on every instance")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    with tempfile.TemporaryDirectory() as scratch:
        out = pathlib.Path(scratch) if arguments.check else arguments.out
        nets, specs = make(out)
        if arguments.attack:
            report_attacks(nets, specs, out)
        if arguments.check:
            found = list(differences(out, arguments.out))
            print("\n".join(found) or "as committed")
            sys.exit(bool(found))


if __name__ == "__main__":
    main()
