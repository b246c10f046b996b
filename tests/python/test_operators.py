"""Every operator against ONNX Runtime: a batch of rows against the rows one by one."""

import dataclasses
import json
import subprocess
import sys

import node_cases
import numpy as np
import onnx
import pytest
from case_tools import net, node, w
from conftest import ROOT
from lowering_cases import LOWERED
from network_cases import NETWORKS
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from operator_cases import CASES
from program import needs_program

sys.path.insert(0, str(ROOT / "tools"))
import nets

pytestmark = needs_program
ALL = [case for cases in CASES.values() for case in cases]
STEPS = {"Sign", "Round", "Floor", "Ceil", "Cast", "CastLike", "QuantizeLinear", "DynamicQuantizeLinear", "BitCast"}  # a surrogate may stand in there


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("operators")


def operators():
    done = nets.grapeshot("list", "operators", "--json")
    assert done.returncode == 0, done.stderr
    return [row["name"] for row in json.loads(done.stdout)["operators"]]


def reference(model, x, path=None):
    """The outputs [N, K] of every row alone; from onnx itself where ONNX Runtime cannot run it.

    path: where the model lies, when some of its weights lie beside it.
    """
    try:
        if b"DFT" in model:
            raise NotImplementedError("ONNX Runtime is off by more than is allowed here")
        return nets.Reference(path or model, x.shape[1:], fused=False)(x)
    except Exception:
        evaluator = ReferenceEvaluator(onnx.load_from_string(model))
        name = evaluator.input_names[0]
        rows = [[np.reshape(y, -1) for y in evaluator.run(None, {name: row})] for row in x]
        return np.stack([np.concatenate(row) for row in rows])


def write(case, out):
    """Writes the model, with the files beside it in a folder of their own; its path."""
    if case.files:
        out.mkdir()
        out = out / "model"
    for name, data in case.files.items():
        (out.parent / name).parent.mkdir(exist_ok=True)
        (out.parent / name).write_bytes(data)
    path = out.with_suffix(".onnx")
    path.write_bytes(case.model)
    return path


def wrong_steps(x, gradient, y):
    """What is wrong with the gradient of a network that is affine in its input, or None."""
    step = (gradient[:-1] * np.diff(x.reshape(len(x), -1), axis=0)).sum(1)
    if np.allclose(step, np.diff(y), rtol=1e-3, atol=1e-3 * (1 + np.abs(y).max())):
        return None
    return f"the gradient predicts {step}, it is {np.diff(y)}"


def wrong_slopes(model, x, gradient, weights):
    """What is wrong with the gradient of all outputs, weighted and added, or None.

    It is compared with finite differences, away from kinks: where the slopes to both sides agree.
    """
    direction = np.random.default_rng(5).standard_normal(x.shape).astype(np.float32)
    ours = (gradient * direction.reshape(len(x), -1)).sum(1)
    # Kinks on both sides within a step can look like none: what is wrong is so at a smaller one, too.
    for step in (np.float32(1 / 128), np.float32(1 / 1024)):
        y = [reference(model, x + sign * step * direction) @ weights for sign in (-1, 0, 1)]
        slope, turn = (y[2] - y[0]) / (2 * step), (y[2] - 2 * y[1] + y[0]) / step
        smooth = np.isfinite(slope) & (np.abs(turn) < 0.03 * (1 + np.abs(slope)))
        # The steps drown in what float32 rounds away of large numbers.
        smooth &= (np.abs(x).reshape(len(x), -1).max(1) < 100) & (np.abs(y[1]) < 1000)
        wrong = smooth & ~(np.abs(ours - slope) < 0.03 * (1 + np.abs(slope)))
        if not wrong.any():
            return None
    return f"the slopes are {ours}, differences give {slope}"


def summed(case, count):
    """The case with a single output, all of its `count` outputs weighted and added; the weights.

    None if it has several tensors as outputs.
    """
    model = onnx.load_from_string(case.model)
    graph = model.graph
    if len(graph.output) > 1 or case.files or model.opset_import[0].version < 9:
        return None
    inner = graph.output[0].name
    weights = np.random.default_rng(count).uniform(0.5, 2, count)
    graph.node.extend(
        [
            node("Reshape", f"{inner} sum_flat", "sum_row"),
            node("MatMul", "sum_row sum_weights", "weighted_sum"),
        ]
    )
    constants = {
        "sum_flat": np.array([1, -1]),
        "sum_weights": weights[:, None].astype(np.float32),
    }
    for name, value in constants.items():
        graph.initializer.append(numpy_helper.from_array(value, name))
        if model.ir_version < 4:
            value = graph.initializer[-1]
            graph.input.append(
                helper.make_tensor_value_info(name, value.data_type, list(value.dims))
            )
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info("weighted_sum", TensorProto.FLOAT, None))
    made = dataclasses.replace(case, name=f"{case.name}-summed", model=model.SerializeToString())
    return made, weights


class Probe:
    """net_probe: the library behind the program, for many small networks in one process."""

    def __init__(self, folder):
        self.folder, self.count, self.process = folder, 0, None

    def __call__(self, case):
        """What is wrong with the case, or None."""
        self.count += 1
        out = self.folder / f"case{self.count}"
        path = write(case, out)
        try:
            expected = reference(case.model, case.x, str(path) if case.files else None)
        except Exception as e:
            return f"no reference runs it: {e}"
        k = self.count % expected.shape[1]
        y, as_read, gradient, wrong = self.run(path, case.x, out, k)
        if wrong:
            return wrong
        for name, ours in (("lowered", y), ("as read", as_read)):
            if ours.shape != expected.shape or nets.worst(ours, expected) > 1:
                return f"{name}:\n{ours}\nexpected:\n{expected}"
        wrong = wrong_steps(case.x, gradient, expected[:, k]) if case.affine else None
        return wrong or self.gradient_of_all(case, expected)

    def gradient_of_all(self, case, expected):
        """The gradient of all outputs at once, where each output alone could hide some."""
        given = summed(case, expected.shape[1])
        if given is None:
            return None
        made, weights = given
        out, x = self.folder / f"summed{self.count}", case.x
        if not case.affine:
            if STEPS & {n.op_type for n in onnx.load_from_string(case.model).graph.node}:
                return None
            # Whole and half numbers lie at kinks.
            x = x + np.random.default_rng(4).uniform(-0.1, 0.1, x.shape).astype(np.float32)
        _, _, gradient, wrong = self.run(write(made, out), x, out, 0)
        if wrong or case.affine:
            return wrong or wrong_steps(x, gradient, expected @ weights)
        return wrong_slopes(case.model, x, gradient, weights)

    def run(self, path, x, out, k):
        """The outputs, those of the graph as read, the gradient of output k; or what is wrong."""
        data = out.with_suffix(".npy")
        np.save(data, x)
        answer = self.ask(f"{path}\t{data}\t{out}\t{k}\n")
        if answer != "ok":
            return None, None, None, answer
        return *(np.load(f"{out}.{letter}.npy") for letter in "yug"), None

    def ask(self, line):
        if self.process is None:
            self.process = subprocess.Popen(
                [nets.program().with_name("net_probe")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                bufsize=1,
            )
        self.process.stdin.write(line)
        answer = self.process.stdout.readline().rstrip("\n")
        if answer:
            return answer
        status, self.process = self.process.wait(), None
        return f"net_probe ended with status {status}"

    def close(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()
            self.process.stdout.close()


@pytest.fixture(scope="session")
def probe(folder):
    if not nets.program().with_name("net_probe").exists():
        pytest.skip("net_probe is not built")
    made = Probe(folder)
    yield made
    made.close()


def test_every_operator_has_cases_and_every_case_an_operator():
    assert {op: len(cases) for op, cases in CASES.items() if len(cases) < 2} == {}
    assert set(operators()) == set(CASES)
    assert len({case.name for case in ALL}) == len(ALL)


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_operator(case, probe):
    assert probe(case) is None


@pytest.mark.parametrize("case", NETWORKS, ids=lambda case: case.name)
def test_network(case, probe):
    assert probe(case) is None


@pytest.mark.parametrize("case", LOWERED, ids=lambda case: case.name)
def test_lowering_keeps_the_outputs(case, probe):
    assert probe(case) is None


def test_the_program_says_what_the_library_says(folder):
    for i, case in enumerate(ALL[::60] + LOWERED[::10] + NETWORKS[::7]):
        path = write(case, folder / f"program{i}")
        expected = reference(case.model, case.x, str(path) if case.files else None)
        assert nets.worst(nets.run(path, case.x).y, expected) <= 1, case.name


# --- the onnx package's own cases --------------------------------------------------------------------


def test_cases_of_the_onnx_package(probe):
    cases, expected, reasons = node_cases.fitting(operators())
    wrong = {case.name: why for case in cases if (why := probe(case))}
    for case in cases:
        first = reference(case.model, case.x[:1])[0]
        values = np.nan_to_num(expected[case.name].astype(np.float64), posinf=0, neginf=0)
        near = 1e-4 + 1e-6 * np.abs(values).max(initial=0)  # sums of large terms around 0
        like = {"rtol": 1e-3, "atol": near, "equal_nan": True}
        assert np.allclose(first, expected[case.name], **like), case.name
    print(f"{len(cases)} networks; cases left out: {dict(reasons)}")
    assert sorted(wrong) == []
    assert len(cases) >= 750
    assert set(reasons) <= set(node_cases.REASONS)


# --- what is refused ---------------------------------------------------------------------------------

IMAGE = (1, 2, 5, 5)
KERNEL = {"k": w(2, 2, 3, 3)}
BN = dict(zip("sbmv", (w(2), w(2), w(2), w(2) ** 2), strict=True))
REFUSED = {
    "auto_pad of an unknown kind": (
        net([node("Conv", "x k", auto_pad="SOME")], IMAGE, KERNEL),
        "auto_pad is 'SOME'",
    ),
    "a statistic that is read": (
        net([node("BatchNormalization", "x s b m v", "a i"), node("Reshape", "a i")], IMAGE, BN, 8),
        "'i', which is not computed",
    ),
    "batch normalization in training": (
        net([node("BatchNormalization", "x s b m v", training_mode=1)], IMAGE, BN, 15),
        "training_mode",
    ),
    "batch normalization a place": (
        net([node("BatchNormalization", "x s b m v", spatial=0)], IMAGE, BN, 8),
        "spatial=0",
    ),
    "dropout in training": (
        net([node("Dropout", "x r t")], (3,), {"r": np.float32(0.5), "t": np.array(True)}),
        "training_mode",
    ),
    "a constant text": (
        net([node("Constant", "", "c", value_string="text"), node("Add", "x c")], (3,)),
        "constants",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_done_is_refused_by_name(what, folder):
    model, text = REFUSED[what]
    path = folder / "refused.onnx"
    path.write_bytes(model)
    with pytest.raises(nets.Refused) as refused:
        nets.run(path, w(2, 100))
    message = str(refused.value)
    assert refused.value.status == 2, message
    assert "refused.onnx: node 'the_" in message and text in message
    assert message.count("\n") == 0


def test_unsupported_operators_are_all_named_at_once(folder):
    nodes = [
        node("RandomNormalLike", "x", "a"),
        node("Relu", "a", "b"),
        node("Hardmax", "b", "c"),
        node("RandomNormalLike", "c"),
    ]
    nodes[2].domain = "com.example"
    path = folder / "unknown.onnx"
    path.write_bytes(net(nodes, (2, 3), opset=12))
    with pytest.raises(nets.Refused) as refused:
        nets.run(path, w(2, 6))
    message = str(refused.value)
    assert refused.value.status == 2
    assert "2 operators are not supported at opset 12" in message
    assert (
        "RandomNormalLike (node 'the_RandomNormalLike')" in message
        and "com.example.Hardmax (node 'the_Hardmax_2')" in message
    )


@pytest.mark.parametrize("op", ["Add", "Gemm", "BatchNormalization", "Reshape"])
def test_an_operator_is_refused_below_the_opset_that_is_implemented(op, folder):
    path = folder / f"old-{op}.onnx"
    path.write_bytes(net([node(op, "x x")], (2, 3), opset=4))
    with pytest.raises(
        nets.Refused, match=rf"not supported at opset 4: {op} \(node 'the_{op}'\)"
    ) as refused:
        nets.run(path, w(2, 6))
    assert refused.value.status == 2


@pytest.mark.parametrize("op", CASES)
def test_missing_inputs_are_an_error_not_a_crash(op, probe):
    """A damaged file: the operator has no input, or only the first."""
    data = probe.folder / "missing.npy"
    np.save(data, w(2, 32))
    for inputs in ("", "x"):
        path = probe.folder / f"missing-{op}.onnx"
        nodes = [node(op, inputs, "a"), node("Add", "a x")]
        path.write_bytes(net(nodes, (1, 2, 4, 4), opset=13))
        answer = probe.ask(f"{path}\t{data}\t{probe.folder}/missing\t0\n")
        assert "net_probe" not in answer, f"{inputs or 'no input'}: {answer}"


# --- gradients ---------------------------------------------------------------------------------------


def test_the_list_says_through_which_operators_gradients_flow(probe):
    done = json.loads(nets.grapeshot("list", "operators", "--json").stdout)["operators"]
    wrong = {}
    for row in done:
        sizes = []
        for case in CASES[row["name"]]:
            kinds = {n.op_type for n in onnx.load_from_string(case.model).graph.node}
            # Other layers may have a way round an operator.
            if row["gradient"] or kinds <= {row["name"].rpartition(".")[2], "Cast"}:
                probe.count += 1
                out = probe.folder / f"flow{probe.count}"
                _, _, gradient, answer = probe.run(write(case, out), case.x, out, 0)
                sizes.append(0.0 if answer else float(np.abs(np.nan_to_num(gradient)).max()))
            if row["gradient"] and sizes and sizes[-1] > 0:
                break
        if bool(row["gradient"]) != (max(sizes, default=0.0) > 0):
            wrong[row["name"]] = sizes[:3]
    assert sorted(wrong) == []
