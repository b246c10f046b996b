#!/usr/bin/env python3
"""Makes examples/waveforms: a small 1-D convolution network that tells sounds apart, and test sounds.

usage: make_waveform_model.py [--out FOLDER]   write the files
       make_waveform_model.py --check          make them again elsewhere and compare

Four kinds of sound, 256 samples each, all with noise: a tone, a chirp that rises, a chirp that falls,
a burst of noise. Sounds and the mask must agree byte for byte, the network in structure and in its
outputs to 1e-3, as in make_example_models.py.
"""

import argparse
import pathlib
import sys
import tempfile

import numpy as np
import torch
from onnx import TensorProto, helper
from torch import nn
from torch.nn import functional as F

import example_nets
from make_example_models import differences, run

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "examples" / "waveforms"
SAMPLES = 256
KINDS = ["tone", "rising", "falling", "burst"]
TRAINING, DATA_ROWS = 800, 40
FROZEN = 48  # samples at the start that the mask holds fixed


def sounds(count, seed):
    """(x [count, 256] in [-1, 1], labels [count]), the kinds in turn."""
    rng = np.random.RandomState(seed)
    t = np.arange(SAMPLES) / SAMPLES
    labels = np.arange(count) % len(KINDS)
    x = np.empty((count, SAMPLES))
    for row, kind in enumerate(labels):
        first = rng.uniform(6, 20)
        last = first + rng.uniform(10, 20)
        middle, width = rng.uniform(0.3, 0.7), rng.uniform(0.15, 0.4)
        envelope = np.exp(-0.5 * ((t - middle) / width) ** 2)
        if KINDS[kind] == "burst":
            x[row] = envelope * np.convolve(rng.randn(SAMPLES), np.ones(3) / 3, "same")
        else:
            if KINDS[kind] == "tone":
                last = first = (first + last) / 2
            if KINDS[kind] == "falling":
                first, last = last, first
            phase = rng.uniform(0, 2 * np.pi)
            x[row] = envelope * np.sin(phase + 2 * np.pi * (first * t + (last - first) * t**2 / 2))
        x[row] *= rng.uniform(0.3, 0.8) / np.abs(x[row]).max()
        x[row] += 0.02 * rng.randn(SAMPLES)
    return np.clip(np.round(x * 4096) / 4096, -1, 1), labels.astype(np.int64)


class Waves(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(1, 8, 9, stride=2, padding=4)
        self.conv2 = nn.Conv1d(8, 16, 9, stride=4, padding=4)
        self.conv3 = nn.Conv1d(16, 16, 5, stride=4, padding=2)
        self.fc = nn.Linear(16 * 8, len(KINDS))

    def forward(self, x):
        x = x.view(-1, 1, SAMPLES)
        for conv in (self.conv1, self.conv2, self.conv3):
            x = F.relu(conv(x))
        return self.fc(x.flatten(1))


def make_net(data):
    net = example_nets.train(Waves, data, seed=6, epochs=30, rate=4e-3)
    g = example_nets.Graph([1, 1, SAMPLES], opset=13)
    for name in ("conv1", "conv2", "conv3"):
        layer = getattr(net, name)
        g.conv(name, layer, pads=[layer.padding[0]] * 2)
        g.add("Relu")
    g.add("Flatten", axis=1)
    g.gemm("fc", net.fc)
    outputs = helper.make_tensor_value_info("output", TensorProto.FLOAT, [1, len(KINDS)])
    return g.model("waveforms", outputs)


def make(out):
    model = make_net(sounds(TRAINING, seed=0))
    data = model.SerializeToString(deterministic=True)
    x, y = sounds(DATA_ROWS, seed=1)
    right = run(data, x).argmax(1) == y
    print(f"waves.onnx: {len(data)} bytes, {right.mean():.1%} of test sounds right", flush=True)
    (out / "data").mkdir(parents=True, exist_ok=True)
    (out / "waves.onnx").write_bytes(data)
    np.save(out / "data" / "X.npy", x.astype(np.float32))
    np.save(out / "data" / "y.npy", y)
    np.save(out / "data" / "frozen.npy", (np.arange(SAMPLES) < FROZEN).astype(np.uint8))


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
