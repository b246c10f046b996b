"""What tests of `fuzz --data` share: digits that the network gets right, ONNX Runtime's opinion, what a run left."""

import csv
import json

import pytest
from program import DIGITS, MLP, grapeshot_json

np = pytest.importorskip("numpy")

X, Y = DIGITS / "data" / "X.npy", DIGITS / "data" / "y.npy"


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """The first 12 digits, which the network gets right, and their labels."""
    folder = tmp_path_factory.mktemp("digits")
    x, y = np.load(X), np.load(Y)
    right = [i for i in range(40) if predict(MLP, x[i : i + 1]).argmax() == y[i]][:12]
    np.save(folder / "x.npy", x[right].astype(np.float32))
    np.save(folder / "y.npy", y[right])
    return folder / "x.npy", folder / "y.npy"


def predict(model, x):
    """[N, K] in ONNX Runtime, row by row."""
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    port = session.get_inputs()[0]
    shape = [1, *[d if isinstance(d, int) else 1 for d in port.shape[1:]]]
    rows = [row.astype(np.float32).reshape(shape) for row in x]
    return np.concatenate([session.run(None, {port.name: row})[0].reshape(1, -1) for row in rows])


def findings(out):
    for folder in sorted((out / "findings").iterdir()):
        about = json.loads((folder / "finding.json").read_text())
        x, original = (np.load(folder / name).ravel() for name in ("input.npy", "original.npy"))
        yield folder, about, x, original


def instances(out):
    with open(out / "instances.csv") as file:
        return list(csv.DictReader(file))


def run(model, *args, out, seconds=30, candidates=4000, **rest):
    return grapeshot_json(
        "fuzz", model, "--threads", 1, "--seconds", seconds, "--candidates", candidates, "--out", out, *args, **rest
    )
