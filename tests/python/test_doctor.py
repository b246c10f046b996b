"""What `doctor` explains, what `fuzz` says once about a model, and several outputs of `run`."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from program import BREAKABLE, DIGITS, MLP, grapeshot, grapeshot_json, needs_program

pytestmark = needs_program
FLOAT = TensorProto.FLOAT

SPEC = """(declare-const X_0 Real) (declare-const X_1 Real) (declare-const X_2 Real)
(declare-const X_3 Real) (declare-const Y_0 Real) (declare-const Y_1 Real)
(assert (>= X_0 0)) (assert (<= X_0 2)) (assert (>= X_1 0)) (assert (<= X_1 1))
(assert (>= X_2 0)) (assert (<= X_2 255)) (assert (>= X_3 1)) (assert (<= X_3 1))
(assert (<= Y_0 -1))
"""


def save(path, nodes, outputs, shape=(4,), constants=()):
    """A network x -> outputs; `nodes` are (op, inputs, outputs, attributes)."""
    graph = helper.make_graph(
        [helper.make_node(op, i.split(), o.split(), **a) for op, i, o, a in nodes],
        "net",
        [helper.make_tensor_value_info("x", FLOAT, shape)],
        [helper.make_tensor_value_info(o, FLOAT, None) for o in outputs],
        [numpy_helper.from_array(value, name) for name, value in constants],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), path)
    return path


@pytest.fixture
def patch(tmp_path):
    """Two of four numbers, from the place on that the first one names."""
    integers = [("zero", [0]), ("one", [1]), ("two", [2])]
    nodes = [
        ("Slice", "x zero one", "first", {}),
        ("Cast", "first", "start", {"to": TensorProto.INT64}),
        ("Add", "start two", "end", {}),
        ("Slice", "x start end", "y", {}),
    ]
    constants = [(name, np.array(value)) for name, value in integers]
    return save(tmp_path / "patch.onnx", nodes, ["y"], constants=constants)


def test_doctor_names_what_runs_row_by_row(patch):
    report = grapeshot_json("doctor", patch, status=0)
    assert len(report["islands"]) == 1 and "(Slice)" in report["islands"][0]
    assert report["runs_as_one_batch"]
    assert "no batch axis" in report["batch_axis"]
    text = grapeshot("doctor", patch, status=0).stdout
    assert "1 nodes run row by row, since a shape depends on the row's values" in text


def test_fuzz_says_once_what_runs_row_by_row(patch, tmp_path):
    (tmp_path / "p.vnnlib").write_text(SPEC)
    done = grapeshot("fuzz", patch, tmp_path / "p.vnnlib", "--candidates", 200, "--out",
                     tmp_path / "run")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("nodes run row by row") == 1


def test_doctor_explains_inputs_in_a_specification(patch, tmp_path):
    (tmp_path / "p.vnnlib").write_text(SPEC)
    report = grapeshot_json("doctor", patch, tmp_path / "p.vnnlib", status=0)
    assert report["range"] == {
        "low": 0.0, "high": 255.0, "fixed_inputs": 1, "widths_spread": 255.0}  # fmt: skip
    assert any("unnormalised" in note and "--scale ani" in note for note in report["notes"])
    fine = grapeshot_json("doctor", MLP, BREAKABLE, status=0)
    assert not any("unnormalised" in note for note in fine["notes"])


def test_doctor_says_where_no_gradient_passes(tmp_path):
    nodes = [
        ("ArgMax", "x", "i", {"axis": 0, "keepdims": 1}),
        ("Cast", "i", "y", {"to": FLOAT}),
    ]
    path = save(tmp_path / "index.onnx", nodes, ["y"])
    report = grapeshot_json("doctor", path, status=0)
    assert not report["gradient"]["reaches_inputs"]
    assert "(ArgMax)" in report["gradient"]["cut_by"][0]
    assert report["gradient"]["masked_inputs"] == 4
    assert any(note.startswith("masked: no gradient reaches") for note in report["notes"])


def test_doctor_says_that_gradients_explode_and_saturate(tmp_path):
    large = [("big", np.float32(1e6))]
    path = save(tmp_path / "big.onnx", [("Mul", "x big", "y", {})], ["y"], constants=large)
    notes = grapeshot_json("doctor", path, status=0)["notes"]
    assert any(note.startswith("exploding") for note in notes)
    nodes = [("Mul", "x big", "m", {}), ("Sigmoid", "m", "y", {})]
    path = save(tmp_path / "flat.onnx", nodes, ["y"], constants=large)
    notes = grapeshot_json("doctor", path, status=0)["notes"]
    assert any(note.startswith("zero or saturated: in 16 of 16") for note in notes)


def test_doctor_compares_with_what_another_runtime_computed(tmp_path):
    x = np.random.default_rng(1).random((5, 64), np.float32)
    np.save(tmp_path / "x.npy", x)
    grapeshot("run", MLP, "--data", "x.npy", "--out", "y.npy", cwd=tmp_path, status=0)
    flags = ["--data", "x.npy", "--expected", "y.npy"]
    assert grapeshot_json("doctor", MLP, *flags, cwd=tmp_path, status=0)["parity"] < 1e-6
    y = np.load(tmp_path / "y.npy")
    y[3, 2] += 0.01
    np.save(tmp_path / "y.npy", y)
    report = grapeshot_json("doctor", MLP, *flags, cwd=tmp_path, status=1)
    assert report["problems"][0].startswith("outputs differ from the expected ones by 0.00")


def test_doctor_counts_work_and_times_it():
    report = grapeshot_json("doctor", DIGITS / "attention.onnx", status=0)
    assert report["operators"]["LayerNormalization"] > 0 and report["operators"]["Softmax"] > 0
    assert report["macs_per_row"] > report["parameters"]
    assert 0 < report["milliseconds"]["rows_1"] < report["milliseconds"]["rows_64"] * 2
    assert "is open and taken as 1" in report["batch_axis"]


def test_run_writes_several_outputs_side_by_side_and_apart(tmp_path):
    nodes = [
        ("Relu", "x", "a", {}),
        ("ReduceSum", "x", "b", {"keepdims": 0}),
    ]
    save(tmp_path / "two.onnx", nodes, ["b", "a"])
    x = np.float32([[1, -2, 3, 4], [0, 0, -1, 1]])
    np.save(tmp_path / "x.npy", x)
    report = grapeshot_json(
        "run", "two.onnx", "--data", "x.npy", "--out", "y.npy", cwd=tmp_path, status=0
    )
    expected = np.concatenate([x.sum(1, keepdims=True), np.maximum(x, 0)], 1)
    assert np.array_equal(np.load(tmp_path / "y.npy"), expected)
    assert report["parts"] == ["y_0.npy", "y_1.npy"]
    assert np.array_equal(np.load(tmp_path / "y_0.npy"), expected[:, :1])
    assert np.array_equal(np.load(tmp_path / "y_1.npy"), expected[:, 1:])
