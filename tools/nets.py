"""Networks run by grapeshot and by ONNX Runtime: what the checks of parity and of operators share."""

import dataclasses
import gzip
import json
import math
import os
import pathlib
import subprocess
import tempfile

import numpy as np
import onnxruntime

ROOT = pathlib.Path(__file__).resolve().parents[1]
TOLERANCE = 1e-4  # |difference| <= TOLERANCE * (1 + |y|)


def program():
    """The binary of the build folder in GRAPESHOT_BUILD, build/release without it."""
    build = pathlib.Path(os.environ.get("GRAPESHOT_BUILD", ROOT / "build/release"))
    path = build.resolve() / "grapeshot"
    if not path.exists():
        raise SystemExit(f"{path} is not there: ./dev build makes it")
    return path


def grapeshot(*arguments):
    """Runs the program with one thread; the finished process."""
    command = [str(program()), *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)


class Refused(Exception):
    """The program ended with an error; the text is what it said."""

    def __init__(self, done):
        super().__init__(done.stderr.strip() or f"exit status {done.returncode}")
        self.status = done.returncode


@dataclasses.dataclass
class Run:
    y: np.ndarray  # [N, K]
    gradient: np.ndarray | None  # [N, D] of one output
    report: dict  # what --json prints


def run(model, x, *flags, output=None):
    """The network on the inputs x [N, ...]; with the gradient of output number `output` when given."""
    with tempfile.TemporaryDirectory() as folder:
        data, out, gradient = (f"{folder}/{name}.npy" for name in "xyg")
        np.save(data, x)
        more = [] if output is None else ["--gradient", gradient, "--output", output]
        done = grapeshot("run", model, "--data", data, "--out", out, "--json", *more, *flags)
        if done.returncode:
            raise Refused(done)
        return Run(
            np.load(out), None if output is None else np.load(gradient), json.loads(done.stdout)
        )


def read_bytes(path):
    """A file's content, unpacked when it is gzip."""
    data = pathlib.Path(path).read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def session(model, fused=True):
    """ONNX Runtime with one thread."""
    options = onnxruntime.SessionOptions()
    if not fused:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


class Reference:
    """ONNX Runtime with one thread, one row at a time.

    A row is all inputs, flattened and joined in the order of the graph; so are its outputs.
    """

    def __init__(self, model, shape=None, fused=True):
        """`model`: serialised, or its path where weights lie beside it.

        shape: of the only input, where the model leaves it open.
        fused: ONNX Runtime may join operators (1.32 computes MatMul(Transpose(x), vector) wrongly).
        """
        self.session = session(model, fused)
        given = self.session.get_inputs()
        self.names = [port.name for port in given]
        self.shapes = [
            [d if isinstance(d, int) and d > 0 else 1 for d in port.shape] for port in given
        ]
        if shape is not None and len(given) == 1:
            self.shapes = [list(shape)]
        self.shape = self.shapes[0] if len(given) == 1 else [sum(map(math.prod, self.shapes))]

    def __call__(self, x):
        """[N, K] for x [N, ...]."""
        return np.stack([self.row(row) for row in x])

    def row(self, row):
        return np.concatenate([np.reshape(y, -1) for y in self.session.run(None, self.feed(row))])

    def feed(self, row):
        """The inputs of one row by their names."""
        flat, feed, begin = row.astype(np.float32).reshape(-1), {}, 0
        for name, shape in zip(self.names, self.shapes, strict=True):
            end = begin + math.prod(shape)
            feed[name] = flat[begin:end].reshape(shape)
            begin = end
        assert begin == flat.size, f"{flat.size} numbers for {begin} inputs"
        return feed


def worst(y, expected):
    """The largest difference in units of what is allowed; at most 1 is fine."""
    if y.shape != expected.shape:
        raise AssertionError(f"shape {y.shape}, expected {expected.shape}")
    y, expected = y.astype(np.float64), expected.astype(np.float64)
    off = np.abs(y - expected) / (TOLERANCE * (1 + np.abs(expected)))
    off[(y == expected) | (np.isnan(y) & np.isnan(expected))] = 0
    return float(np.nan_to_num(off, nan=np.inf).max(initial=0))
