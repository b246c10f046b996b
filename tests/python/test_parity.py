"""Outputs and input gradients of whole networks against ONNX Runtime: tools/parity.py on each.

All models of the shared benchmarks only with GRAPESHOT_PARITY=full in the environment; without it
one of each kind of network.
"""

import json
import os
import subprocess
import sys

import numpy as np
import onnx
import pytest
from conftest import ROOT
from onnx import helper, numpy_helper
from program import needs_program

sys.path.insert(0, str(ROOT / "tools"))
import boxes
import exact
import nets
import parity
import slopes
import speed

pytestmark = needs_program

EXAMPLES, *SHARED = parity.default_folders()
SHIPPED = boxes.find_models([EXAMPLES])
MLP = EXAMPLES / "digits" / "mlp.onnx"
CHOSEN = (
    "2022_carvana_unet_2022/onnx/unet_simp_small",  # counts where ArgMax equals a mask
    "2022_collins_rul_cnn/onnx/NN_rul_small_window_20",
    "2022_nn4sys/onnx/mscn_128d",
    "2022_oval21/onnx/cifar_base_kw",
    "2023_dist_shift/onnx/mnist_concat",
    "2023_ml4acopf/onnx/14_ieee_ml4acopf",
    "2023_ml4acopf/onnx/300_ieee_ml4acopf",  # amplifies rounding
    "2023_vit/onnx/pgd_2_3_16",
    "2023_yolo/onnx/TinyYOLO",
    "2024_cgan_2023/onnx/cGAN_imgSz32_nCh_3_nonlinear_activations",
    "2024_cora/onnx/mnist-point",
    "2024_lsnc/onnx/quadrotor2d_state",
    "2024_ml4acopf_2024/onnx/14_ieee_ml4acopf-linear-residual",  # Floor
    "2024_nn4sys_2023/onnx/pensieve_small_parallel",
    "2024_safenlp/onnx/medical/perturbations_0",
    "2024_traffic_signs_recognition_2023/onnx/3_30_30_QConv_16_3_QConv_32_2_Dense_43_ep_30",
    "2025_acasxu_2023/onnx/ACASXU_run2a_1_2_batch_2000",
    "2025_cctsdb_yolo_2023/onnx/patch-1",  # where inputs go depends on a cast to integers
    "2025_cersyve/onnx/lane_keep_pretrain_inv",
)
FULL = os.environ.get("GRAPESHOT_PARITY") == "full"


def stem(path):
    return path.as_posix().removesuffix(".gz").removesuffix(".onnx")


def shared_models():
    if not SHARED:
        return []
    if FULL:
        return boxes.find_models(SHARED)
    files = [f"{name}.onnx" for name in CHOSEN]
    paths = (SHARED[0] / file for file in files)
    return [[p if p.exists() else p.with_name(p.name + ".gz")] for p in paths]


def name(copies):
    return os.path.relpath(stem(copies[0]), ROOT.parent)


@pytest.fixture(scope="session")
def results(request):
    """Of the selected models, computed side by side."""
    ours = (item for item in request.session.items if item.module is sys.modules[__name__])
    models = (item.callspec.params.get("model") for item in ours if hasattr(item, "callspec"))
    # Without ../shared its test has one unset parameter and is skipped.
    chosen = [model for model in models if isinstance(model, list)]
    return {result.model: result for result in parity.check_all(chosen)}


def assert_parity(result):
    print(parity.line(result))
    assert result.failures == []
    assert result.difference <= 1 and result.lowering <= 1 and result.rows >= 16
    steps = ("bnn", "QConv", "linear-residual")
    if any(part in result.model for part in steps):
        assert result.gradient == "surrogate"
    elif "cctsdb" in result.model or "unet" in result.model:
        assert result.gradient == "none"
    else:
        assert result.gradient == "compared" and result.usable >= 4
    if result.excuses.amplified:
        assert "118_ieee" in result.model or "300_ieee" in result.model


@pytest.mark.parametrize("model", SHIPPED, ids=name)
def test_shipped_network(model, results):
    assert_parity(results[str(model[0])])


@pytest.mark.shared
@pytest.mark.parametrize("model", shared_models(), ids=name)
def test_benchmark_network(model, results):
    assert_parity(results[str(model[0])])


def test_networks_are_found():
    assert len(SHIPPED) == 8
    if SHARED and FULL:
        models = shared_models()
        assert len(models) == 193 and sum(map(len, models)) == 253


# --- the script --------------------------------------------------------------------------------------


def run_script(*arguments):
    command = [sys.executable, ROOT / "tools" / "parity.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_script_prints_a_table_and_writes_json(tmp_path):
    (tmp_path / "copy.onnx").write_bytes(MLP.read_bytes())
    report = tmp_path / "parity.json"
    done = run_script(MLP, tmp_path / "copy.onnx", "--no-timing", "--json", report)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "digits/mlp" in done.stdout and "1 of 1 models agree" in done.stdout
    assert "2 files, 1 distinct: 1 load, 1 run as one batch" in done.stdout
    report = json.loads(report.read_text())
    (result,) = report["models"]
    assert result["failures"] == [] and result["usable"] > 0 and result["milliseconds"] == {}
    assert len(result["copies"]) == 1 and len(report["summary"]) >= 3


def test_the_script_fails_on_a_network_that_cannot_be_run(tmp_path):
    model = onnx.load(MLP)
    next(n for n in model.graph.node if n.op_type == "Relu").op_type = "Bernoulli"
    onnx.save(model, tmp_path / "other.onnx")
    done = run_script(tmp_path, "--no-timing")
    assert done.returncode == 1 and "Bernoulli" in done.stdout, done.stdout + done.stderr
    assert "1 files, 1 distinct: 0 load" in done.stdout


def test_times_stand_beside_those_of_onnx_runtime(monkeypatch):
    monkeypatch.setattr(speed, "PASSES", 1)
    times = speed.measure(MLP)
    assert set(times) == {"rows_1", "rows_64", "row", "singles", "batch"}
    assert all(value > 0 for value in times.values())
    assert times["row"] < times["singles"]
    assert any("1 models accept a batch" in text for text in speed.summary([("mlp", times)]))


def test_a_network_that_sums_over_its_rows_accepts_no_batch():
    nodes = [helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0)]
    model = network(nodes, {}, 3, [])
    reference = nets.Reference(model.SerializeToString())
    feeds = [reference.feed(row) for row in np.ones((64, 3))]
    assert speed.batched(model.SerializeToString(), reference, feeds) is None


# --- what has to fail --------------------------------------------------------------------------------


def damage(monkeypatch, applies=lambda flags: True, size=3e-4):
    """Outputs off by `size`, gradients by 1 %, in runs with flags to which that applies."""
    run = nets.run

    def off(*arguments, **more):
        done = run(*arguments, **more)
        if applies({a for a in arguments if isinstance(a, str)}):
            done.y = done.y + size * (1 + abs(done.y))
            if done.gradient is not None:
                done.gradient = done.gradient * 1.01
        return done

    monkeypatch.setattr(nets, "run", off)


def test_a_difference_is_a_failure(monkeypatch):
    damage(monkeypatch)
    result = parity.check([MLP])
    assert set(result.failures) == {"outputs", "lowering", "gradient"}
    # The float64 evaluation of the onnx package takes no part in the damage.
    assert len(result.excuses.refused) == result.rows


def test_a_difference_of_the_graph_as_read_is_a_failure(monkeypatch):
    damage(monkeypatch, lambda flags: "--unlowered" in flags)
    assert parity.check([MLP]).failures == ["lowering"]


@pytest.mark.shared
def test_a_difference_is_a_failure_where_rounding_is_amplified(monkeypatch):
    damage(monkeypatch, lambda flags: "--float64" not in flags, size=3e-2)
    model = SHARED[0] / "2023_ml4acopf" / "onnx" / "300_ieee_ml4acopf.onnx.gz"
    result = parity.check([model], 4)
    assert "outputs" in result.failures and len(result.excuses.refused) == 4


@pytest.mark.shared
def test_a_network_with_other_weights_is_a_failure(monkeypatch, tmp_path):
    path = SHARED[0] / "2025_acasxu_2023" / "onnx" / "ACASXU_run2a_1_2_batch_2000.onnx"
    model = onnx.load(path)
    weights = model.graph.initializer[-1]
    weights.CopyFrom(numpy_helper.from_array(1.01 * numpy_helper.to_array(weights), weights.name))
    onnx.save(model, tmp_path / "other.onnx")
    run, other = nets.run, tmp_path / "other.onnx"
    monkeypatch.setattr(nets, "run", lambda _, *more, **rest: run(other, *more, **rest))
    assert "outputs" in parity.check([path]).failures


# --- excuses -----------------------------------------------------------------------------------------


def network(nodes, constants, inputs, outputs):
    """A graph from x [1, inputs] to y [1, *outputs]."""
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, inputs])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, outputs)],
        [numpy_helper.from_array(np.array(v, np.float32), k) for k, v in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def ask(tmp_path, model, x, y, expected):
    """What exact.excuse() says when the program's float32 outputs were y."""
    onnx.save(model, tmp_path / "net.onnx")
    reference = nets.Reference(model.SerializeToString())
    x, y, expected = (np.array(v, np.float64) for v in (x, y, expected))
    return exact.excuse(tmp_path / "net.onnx", model, reference, x, [y], expected)


def test_amplified_rounding_is_excused_up_to_four_times_that_of_onnx_runtime(tmp_path):
    nodes = [
        helper.make_node("Add", ["x", "big"], ["h"]),
        helper.make_node("Sub", ["h", "big"], ["y"]),
    ]
    model = network(nodes, {"big": [[1e5]]}, 1, [1, 1])
    truth, theirs = [[0.25]] * 4, [[0.251]] * 4
    off = 1e-3 * np.array([[2], [3.5], [4.5], [-8]])
    found = ask(tmp_path, model, truth, truth + off, theirs)
    assert found.amplified == [0, 1] and set(found.refused) == {2, 3}
    assert abs(found.ratio - 3.5) < 1e-6 and found.steps == []


@pytest.mark.parametrize("kind", ["Greater", "ArgMax", "Sign", "Cast"])
def test_a_step_is_excused_only_where_rounding_decides_it(tmp_path, kind):
    # The arguments are rounded to some 0.00006, x is less than that or 1 away from the step.
    rounded = [
        helper.make_node("Add", ["x", "big"], ["h"]),
        helper.make_node("Sub", ["h", "big"], ["z"]),
    ]
    cast = [helper.make_node("Cast", ["s"], ["y"], to=onnx.TensorProto.FLOAT)]
    steps = {
        "Greater": [helper.make_node("Greater", ["z", "zero"], ["s"]), *cast],
        "ArgMax": [
            helper.make_node("Concat", ["z", "zero"], ["c"], axis=1),
            helper.make_node("ArgMax", ["c"], ["s"], axis=1),
            *cast,
        ],
        "Sign": [helper.make_node("Sign", ["z"], ["y"])],
        "Cast": [
            helper.make_node("Add", ["z", "one"], ["c"]),
            helper.make_node("Cast", ["c"], ["s"], to=onnx.TensorProto.INT64),
            *cast,
        ],
    }
    constants = {"big": [[1e3]], "zero": [[0]], "one": [[1]]}
    model = network(rounded + steps[kind], constants, 1, [1, 1])
    x = np.array([[2e-5], [1.0]])
    expected = nets.Reference(model.SerializeToString())(x)
    found = ask(tmp_path, model, x, expected + 1, expected)
    assert found.steps == [0] and set(found.refused) == {1} and found.amplified == []


def test_an_evaluation_that_is_not_there_excuses_nothing(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise TypeError("no such operator")

    monkeypatch.setattr(exact, "ReferenceEvaluator", refuse)
    model = network([helper.make_node("Sign", ["x"], ["y"])], {}, 1, [1, 1])
    found = ask(tmp_path, model, [[1e-9]], [[-1]], [[1]])
    assert found.steps == found.amplified == [] and "no such operator" in found.unproven


# --- boxes and paths ---------------------------------------------------------------------------------


def test_boxes_of_a_specification_with_alternatives():
    text = """(declare-const X_0 Real) ; (assert (<= X_0 -7))
      (assert (>= X_0 -1)) (assert (<= X_0 1.5))
      (assert (or (and (>= X_1 0) (<= X_1 1) (<= X_0 0)) (and (<= 4 X_1) (>= 5 X_1) (>= X_0 1))))
      (assert (or (<= Y_0 Y_1) (and (>= Y_0 2) (= X_2 3))))
      (assert (= X_2 3))"""
    source, draw = boxes.Boxes(text, 3), np.random.default_rng(0)
    found = {tuple(map(tuple, np.transpose(source.box(draw)))) for _ in range(40)}
    assert found == {((-1, 0), (0, 1), (3, 3)), ((1, 1.5), (4, 5), (3, 3))}


def test_an_input_without_bounds_is_an_error():
    with pytest.raises(ValueError, match="no box"):
        boxes.Boxes("(assert (<= X_0 1))", 1).box(np.random.default_rng(0))


def test_paths_of_gradients():
    nodes = [
        helper.make_node("Split", ["x"], ["a", "b", "c"], axis=1),
        helper.make_node("Cast", ["a"], ["i"], to=onnx.TensorProto.INT64),
        helper.make_node("Cast", ["i"], ["j"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Floor", ["b"], ["f"]),
        helper.make_node("Concat", ["j", "f", "c"], ["y"], axis=1),
    ]
    model = network(nodes, {}, 3, [1, 3])
    reference = nets.Reference(model.SerializeToString())
    for free, kinds in ((0, set()), (1, {"surrogate"}), (2, {"smooth"})):
        assert slopes.paths(model, reference, np.arange(3) == free) == kinds
