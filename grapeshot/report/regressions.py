import base64
import gzip
import os
import pathlib

import numpy as np
import onnxruntime
import pytest


def find_model(path):
    """The file where it was, or of its name in the folder that GRAPESHOT_MODELS names."""
    folder = os.environ.get("GRAPESHOT_MODELS")
    place = pathlib.Path(folder) / pathlib.Path(path).name if folder else pathlib.Path(path)
    assert place.exists(), f"{place}: no such model; GRAPESHOT_MODELS names the folder of models"
    return place


SESSIONS = {}


def session_of(path):
    if path not in SESSIONS:
        place = find_model(path)
        zipped = place.read_bytes()[:2] == b"\x1f\x8b"
        model = gzip.decompress(place.read_bytes()) if zipped else str(place)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        SESSIONS[path] = onnxruntime.InferenceSession(
            model, options, providers=["CPUExecutionProvider"]
        )
    return SESSIONS[path]


def outputs(path, x):
    """All outputs, flat, for a flat input that holds the model's inputs one after the other."""
    session, feeds, begin = session_of(path), {}, 0
    for given in session.get_inputs():
        shape = [d if isinstance(d, int) and d > 0 else 1 for d in given.shape]
        end = begin + int(np.prod(shape))
        dtype = np.float64 if given.type == "tensor(double)" else np.float32
        feeds[given.name] = x[begin:end].reshape(shape).astype(dtype)
        begin = end
    assert begin == x.size, f"{path}: takes {begin} inputs, the counterexample has {x.size}"
    return np.concatenate([np.ravel(y) for y in session.run(None, feeds)]).astype(np.float64)


def holds(row, y):
    terms, bound = row
    return sum(coefficient * y[output] for output, coefficient in terms) <= bound


@pytest.mark.parametrize("finding", [pytest.param(f, id=f["name"]) for f in FINDINGS])
def test_counterexample_is_none_any_more(finding):
    if finding["no_test"]:
        pytest.skip(finding["no_test"])
    x = np.frombuffer(base64.b64decode(finding["input"]), "<f4")
    y = outputs(finding["model"], x)
    assert np.isfinite(y).all(), f"{finding['name']}: an output is NaN or infinite"
    broken = [case for case in finding["cases"] if all(holds(row, y) for row in case)]
    assert not broken, f"{finding['name']}: {finding['what']}; outputs {y.tolist()[:20]}"
