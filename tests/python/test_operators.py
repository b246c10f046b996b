"""Every operator against ONNX Runtime: a batch of rows against the rows one by one."""

import json
import subprocess
import sys

import node_cases
import numpy as np
import onnx
import pytest
from conftest import ROOT
from lowering_cases import LOWERED
from network_cases import NETWORKS
from onnx.reference import ReferenceEvaluator
from operator_cases import CASES, net, node, w
from program import needs_program

sys.path.insert(0, str(ROOT / "tools"))
import nets

pytestmark = needs_program
ALL = [case for cases in CASES.values() for case in cases]


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


class Probe:
    """net_probe: the library behind the program, for many small networks in one process."""

    def __init__(self, folder):
        self.folder, self.count, self.process = folder, 0, None

    def __call__(self, case):
        """What is wrong with the case, or None."""
        self.count += 1
        out = self.folder / f"case{self.count}"
        model, data, k = write(case, out), out.with_suffix(".npy"), self.count
        try:
            expected = reference(case.model, case.x, str(model) if case.files else None)
        except Exception as e:
            return f"no reference runs it: {e}"
        np.save(data, case.x)
        k %= expected.shape[1]
        answer = self.ask(f"{model}\t{data}\t{out}\t{k}\n")
        if answer != "ok":
            return answer
        y, as_read, gradient = (np.load(f"{out}.{letter}.npy") for letter in "yug")
        for name, ours in (("lowered", y), ("as read", as_read)):
            if ours.shape != expected.shape or nets.worst(ours, expected) > 1:
                return f"{name}:\n{ours}\nexpected:\n{expected}"
        if case.affine:
            flat = case.x.reshape(len(case.x), -1)
            step = (gradient[:-1] * np.diff(flat, axis=0)).sum(1)
            if not np.allclose(step, np.diff(expected[:, k]), rtol=1e-3, atol=1e-3):
                return f"the gradient predicts {step}, it is {np.diff(expected[:, k])}"
        return None

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
        like = {"rtol": 1e-3, "atol": 1e-4, "equal_nan": True}
        assert np.allclose(first, expected[case.name], **like), case.name
    print(f"{len(cases)} networks; cases left out: {dict(reasons)}")
    assert wrong == {}
    assert len(cases) >= 750
    assert set(reasons) <= set(node_cases.REASONS)


# --- what is refused ---------------------------------------------------------------------------------

IMAGE = (1, 2, 5, 5)
KERNEL = {"k": w(2, 2, 3, 3)}
BN = dict(zip("sbmv", (w(2), w(2), w(2), w(2) ** 2), strict=True))
REFUSED = {
    "convolution with computed weights": (
        net(
            [node("Reshape", "x s", "k"), node("Conv", "x k")],
            (1, 2, 2, 2),
            {"s": np.array([1, 2, 2, 2])},
        ),
        "weights that depend on the input",
    ),
    "auto_pad of an unknown kind": (
        net([node("Conv", "x k", auto_pad="SOME")], IMAGE, KERNEL),
        "auto_pad is 'SOME'",
    ),
    "max pooling whose indices are read": (
        net([node("MaxPool", "x", "a i", kernel_shape=[2, 2]), node("Reshape", "a i")], IMAGE),
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
    "dropout whose mask is read": (
        net([node("Dropout", "x", "a m"), node("Mul", "a m")], (3,), opset=7),
        "'m', which is not computed",
    ),
    "a constant text": (
        net([node("Constant", "", "c", value_string="text"), node("Add", "x c")], (3,)),
        "constants",
    ),
    "a shape that is computed": (
        net([node("Reshape", "x x")], (3,)),
        "depends on the network's input",
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
        node("Det", "x", "a"),
        node("Relu", "a", "b"),
        node("Hardmax", "b", "c"),
        node("Det", "c"),
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
        "Det (node 'the_Det')" in message
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
