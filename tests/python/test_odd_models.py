"""Models that once came out wrong or ended the program, each named after what was wrong."""

import re
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from conftest import ROOT
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from program import grapeshot, needs_program

sys.path.insert(0, str(ROOT / "tools"))
import nets

pytestmark = needs_program
N = helper.make_node
FLOAT = TensorProto.FLOAT
draw = np.random.default_rng(3)


def f32(*shape):
    return draw.standard_normal(shape).astype(np.float32)


def build(nodes, shape, tensors, opset=17):
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", FLOAT, shape)],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in tensors.items()],
    )
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def pooled(name="s"):
    return N("ReduceMean", ["x"], [name], axes=[0, 2, 3], keepdims=0)


def statistics(channels):
    zeros, ones = np.zeros(channels, np.float32), np.ones(channels, np.float32)
    return {"b": ones, "m": zeros, "v": ones}


def casts(middle, to):
    return [N("Cast", ["x"], ["a"], to=to), *middle, N("Cast", ["d"], ["y"], to=FLOAT)]


def stray_relu():
    node = N("Conv", ["x", "w"], ["y"], kernel_shape=[1, 1])
    node.attribute.append(helper.make_attribute("relu", 1))
    return [node]


SAME = {
    "a normalization whose scale depends on the row": (
        [pooled(), N("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"])],
        (1, 3, 4, 4), statistics(3)),
    "a bias that depends on the row before a normalization": (
        [pooled(), N("Conv", ["x", "w", "s"], ["c"]),
         N("BatchNormalization", ["c", "b", "b", "m", "v"], ["y"])],
        (1, 3, 6, 6), {"w": f32(3, 3, 3, 3), **statistics(3)}),
    "a bias that depends on the row before a sum": (
        [pooled(), N("Conv", ["x", "w", "s"], ["c"], pads=[1] * 4), N("Add", ["c", "x"], ["y"])],
        (1, 8, 6, 6), {"w": f32(8, 8, 3, 3)}),
    "weights that depend on the row before Relu": (
        [N("Conv", ["img", "x"], ["c"]), N("Relu", ["c"], ["y"])],
        (8, 8, 3, 3), {"img": f32(1, 8, 6, 6)}),
    "a first layer whose bias depends on the row": (
        [pooled(), N("Conv", ["x", "w", "s"], ["y"])], (1, 3, 6, 6), {"w": f32(3, 3, 3, 3)}),
    "a layer in float64": (
        casts([N("MatMul", ["a", "w"], ["c"]), N("Add", ["c", "b"], ["d"])], TensorProto.DOUBLE),
        (1, 4), {"w": f32(4, 5).astype(np.float64), "b": f32(5).astype(np.float64)}),
    "a convolution in float64": (
        casts([N("Conv", ["a", "w"], ["d"])], TensorProto.DOUBLE),
        (1, 3, 6, 6), {"w": f32(5, 3, 3, 3).astype(np.float64)}),
    "a slice with the largest step": (
        [N("Slice", ["x", "s", "e", "a", "t"], ["y"])],
        (1, 4), {"s": [0], "e": [4], "a": [1], "t": [2**63 - 1]}),
}  # fmt: skip


def reference(model, shape, x):
    try:
        return nets.Reference(model, shape, fused=False)(x)
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        evaluator = ReferenceEvaluator(onnx.load_from_string(model))
        return np.stack([evaluator.run(None, {"x": row})[0].reshape(-1) for row in x])


@pytest.mark.parametrize("name", SAME)
def test_it_agrees_with_onnx_runtime(name, tmp_path):
    nodes, shape, tensors = SAME[name]
    model = build(nodes, shape, tensors)
    path = tmp_path / "net.onnx"
    path.write_bytes(model)
    x = draw.standard_normal((3, *shape)).astype(np.float32)
    expected = reference(model, shape, x)
    ours = nets.run(path, x, output=0)
    assert nets.worst(ours.y, expected) <= 1
    # float64 records history in its own way; the two gradients are of the same function.
    wide = nets.run(path, x, "--float64", output=0)
    assert np.allclose(ours.gradient, wide.gradient, rtol=1e-3, atol=1e-4)


def test_a_stray_attribute_is_not_taken_for_one_of_ours(tmp_path):
    path = tmp_path / "net.onnx"
    path.write_bytes(build(stray_relu(), (1, 1, 2, 2), {"w": np.ones((1, 1, 1, 1), np.float32)}))
    x = -np.ones((2, 1, 1, 2, 2), np.float32)
    assert np.array_equal(nets.run(path, x).y, x.reshape(2, 4))


def test_a_first_output_may_be_left_out(tmp_path):
    nodes = [N("TopK", ["x", "k"], ["", "i"], axis=1), N("Cast", ["i"], ["y"], to=FLOAT)]
    path = tmp_path / "net.onnx"
    path.write_bytes(build(nodes, (1, 3), {"k": [2]}))
    assert nets.run(path, np.float32([[[1, 3, 2]]])).y.tolist() == [[1.0, 2.0]]


REFUSED = {
    "an infinite region of interest": (
        [N("Resize", ["x", "r", "", "s"], ["y"], mode="linear",
           coordinate_transformation_mode="tf_crop_and_resize")],
        (1, 1), {"r": np.float32([0, np.inf, 1, np.inf]), "s": [1, 1000]}, 0, ""),
    "the smallest integer over -1": (
        [N("Div", ["a", "b"], ["c"]), N("Cast", ["c"], ["d"], to=FLOAT), N("Add", ["x", "d"], ["y"])],
        (1, 1), {"a": [-(2**63)], "b": [-1]}, None, ""),
    "a kernel without pixels": (
        [N("Conv", ["x", "w"], ["y"], kernel_shape=[3, 3])],
        (1, 1, 6, 6), {"w": np.ones((1, 1, 0, 0), np.float32)}, 2, r"node '#0' \(Conv"),
    "a convolution with too large a result": (
        [N("Conv", ["x", "w"], ["y"])],
        (1, 1, 4096, 4096), {"w": np.ones((500, 1, 1, 1), np.float32)}, 2, r"\(Conv.*more than"),
    "a product with too large a result": (
        [N("MatMul", ["x", "w"], ["y"])],
        (1 << 22, 1), {"w": np.ones((1, 500), np.float32)}, 2, r"\(MatMul.*more than"),
    "a transposed convolution with too large a shape": (
        [N("ConvTranspose", ["x", "w"], ["y"], output_shape=[1 << 33])],
        (1, 1, 4), {"w": np.ones((1, 1, 3), np.float32)}, 2, r"\(ConvTranspose.*impossible"),
    "a response normalization over too many channels": (
        [N("LRN", ["x"], ["y"], size=1 << 14)], (1, 1, 512, 512), {}, 2, r"\(LRN.*more than"),
    "an axis padded twice": (
        [N("Pad", ["x", "p", "", "a"], ["y"])],
        (1, 4), {"p": [1, 1, 0, 0], "a": [1, 1]}, 2, "named twice"),
    "an axis resized twice": (
        [N("Resize", ["x", "", "", "s"], ["y"], axes=[1, 1])],
        (1, 4), {"s": [10**11, 4]}, 2, "named twice"),
    "an initializer without a name": (
        [N("Relu", ["x"], ["y"])], (1, 2), {"": np.ones(2, np.float32)}, 2, "has no name"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_it_ends_in_one_sentence(name, tmp_path):
    nodes, shape, tensors, status, words = REFUSED[name]
    path = tmp_path / "net.onnx"
    path.write_bytes(build(nodes, shape, tensors, 18))
    done = grapeshot("doctor", path)
    assert done.returncode in ((0, 1, 2) if status is None else (status,)), done.stderr
    if status == 2:
        assert done.stderr.count("\n") == 1 and "net.onnx" in done.stderr
        assert re.search(words, done.stderr), done.stderr


def test_a_row_with_another_width_of_output_is_refused(tmp_path):
    """Both rows of the first run have three numbers, this one has one."""
    nodes = [
        N("Gather", ["x", "z"], ["g"], axis=1), N("Floor", ["g"], ["fl"]),
        N("Sub", ["three", "fl"], ["e"]), N("Reshape", ["e", "one"], ["e1"]),
        N("Cast", ["e1"], ["e2"], to=TensorProto.INT64),
        N("Slice", ["x", "zero", "e2", "one"], ["y"]),
    ]  # fmt: skip
    tensors = {"z": np.array(0), "three": np.float32(3), "one": [1], "zero": [0]}
    path = tmp_path / "vary.onnx"
    path.write_bytes(build(nodes, (1, 3), tensors))
    np.save(tmp_path / "x.npy", np.float32([[2, 7, 9]]))
    done = grapeshot("run", path, "--data", tmp_path / "x.npy", "--out", tmp_path / "y.npy")
    assert done.returncode == 2
    assert "vary.onnx: the shape of the output depends on the input" in done.stderr


def test_a_name_that_a_branch_writes_twice(tmp_path):
    body = helper.make_graph(
        [N("Sin", ["x"], ["a"]), N("Cos", ["x"], ["a"]), N("Add", ["a", "x"], ["o"])],
        "branch", [], [helper.make_tensor_value_info("o", FLOAT, [1, 4])],
    )  # fmt: skip
    nodes = [N("If", ["c"], ["y"], then_branch=body, else_branch=body)]
    path = tmp_path / "branch.onnx"
    path.write_bytes(build(nodes, (1, 4), {"c": np.array(True)}))
    done = grapeshot("doctor", path, status=2)
    assert "branch.onnx: node '#1' writes 'a'" in done.stderr
    assert onnx.load(path).graph.node[0].op_type == "If"
