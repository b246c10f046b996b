"""--memory is honoured: a campaign's peak stays near it, whatever the network's passes would take."""

import onnx
import onnx.helper as oh
import onnx.numpy_helper
import numpy as np
import pytest
from program import grapeshot_json

SIDE, CHANNELS = 96, 64
BASE_MIB = 205  # LibTorch and other libraries, the network, the rows of a batch


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    """A convolutional network whose gradient pass takes some 20 MiB a row, and a specification that holds."""
    folder = tmp_path_factory.mktemp("memory")
    rng = np.random.default_rng(0)
    tensor = lambda name, *shape: onnx.numpy_helper.from_array(  # noqa: E731
        rng.normal(0, 0.05, shape).astype(np.float32), name
    )
    weights = [tensor("a", CHANNELS, 1, 3, 3), tensor("b", CHANNELS, CHANNELS, 3, 3), tensor("c", 2, CHANNELS)]
    nodes = [
        oh.make_node("Conv", ["x", "a"], ["p"], pads=[1] * 4),
        oh.make_node("Sigmoid", ["p"], ["q"]),
        oh.make_node("Conv", ["q", "b"], ["r"], pads=[1] * 4),
        oh.make_node("Sigmoid", ["r"], ["s"]),
        oh.make_node("GlobalAveragePool", ["s"], ["t"]),
        oh.make_node("Flatten", ["t"], ["u"]),
        oh.make_node("Gemm", ["u", "c"], ["y"], transB=1),
    ]
    info = oh.make_tensor_value_info
    graph = oh.make_graph(
        nodes,
        "wide",
        [info("x", onnx.TensorProto.FLOAT, [1, 1, SIDE, SIDE])],
        [info("y", onnx.TensorProto.FLOAT, [1, 2])],
        weights,
    )
    model = folder / "wide.onnx"
    onnx.save(oh.make_model(graph, opset_imports=[oh.make_opsetid("", 13)], ir_version=8), model)
    lines = [f"(declare-const X_{i} Real)" for i in range(SIDE * SIDE)]
    lines += ["(declare-const Y_0 Real)", "(declare-const Y_1 Real)"]
    lines += [f"(assert (>= X_{i} 0))\n(assert (<= X_{i} 1))" for i in range(SIDE * SIDE)]
    lines.append("(assert (>= Y_0 1e6))")
    spec = folder / "wide.vnnlib"
    spec.write_text("\n".join(lines) + "\n")
    return model, spec


def peak(problem, tmp_path, *options):
    done = grapeshot_json(
        *("fuzz", *problem, "--seconds", "3", "--threads", "2", "--out", tmp_path / "run", *options),
        status=0,
    )
    assert done["candidates"] > 0
    return done["peak_rss_mib"]


def test_the_peak_stays_near_what_was_allowed(problem, tmp_path):
    ballast = np.ones(80_000_000)  # 610 MiB of the parent's memory are not the program's
    small = peak(problem, tmp_path / "small", "--memory", "64")
    assert small < BASE_MIB + 64, small
    large = peak(problem, tmp_path / "large", "--memory", "2048")
    assert large > small + 100, (small, large)  # the limit made the difference
    del ballast
