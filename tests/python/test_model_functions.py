"""Functions that a model defines: written out where they are called."""

import sys

import numpy as np
import onnx
import pytest
from case_tools import node, w
from conftest import ROOT
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from program import needs_program

sys.path.insert(0, str(ROOT / "tools"))
import nets

pytestmark = needs_program
OPSET, HOME = 18, "home.made"


def call(op, inputs, outputs, **attributes):
    made = node(op, inputs, outputs, **attributes)
    made.domain = HOME
    return made


def with_reference(made, attribute, ref, kind=onnx.AttributeProto.FLOAT):
    made.attribute.append(onnx.AttributeProto(name=attribute, ref_attr_name=ref, type=kind))
    return made


def function(name, inputs, outputs, nodes, attributes=(), defaults=(), opset=OPSET):
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(HOME, 1)]
    made = helper.make_function(
        HOME, name, inputs.split(), outputs.split(), nodes, opsets, list(attributes)
    )
    made.attribute_proto.extend(defaults)
    return made


def model(nodes, functions, shape=(2, 3), constants=None):
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in (constants or {}).items()],
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(HOME, 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=9)


SCALED = function(
    "Scaled", "a", "b", [with_reference(node("LeakyRelu", "a", "b"), "alpha", "slope")], ["slope"]
)
TWICE = function(
    "Twice", "a b", "c", [call("Scaled", "a", "t", slope=0.5), node("Add", "t b", "t2"), node("Neg", "t2", "c")]
)
DEFAULT = function(
    "Default", "a", "b", [with_reference(node("Elu", "a", "b"), "alpha", "steep")],
    defaults=[helper.make_attribute("steep", 0.3)],
)  # fmt: skip
PASSES = function("Passes", "a b", "b c", [node("Relu", "a", "c")])
LEFT_OUT = function("LeftOut", "a lo hi", "b", [node("Clip", "a lo hi", "b")])
BRANCH = function(
    "Branch", "a c", "b",
    [node("If", "c", "b",
          then_branch=helper.make_graph([call("Scaled", "a", "t", slope=0.2)], "then", [],
                                        [helper.make_tensor_value_info("t", 1, None)]),
          else_branch=helper.make_graph([node("Neg", "a", "e")], "else", [],
                                        [helper.make_tensor_value_info("e", 1, None)]))],
)  # fmt: skip
MODELS = {
    "an attribute of the call": ([call("Scaled", "x", "y", slope=0.25)], [SCALED], {}),
    "the same function twice": (
        [call("Scaled", "x", "h", slope=0.25), call("Scaled", "h", "y", slope=2.0)], [SCALED], {}),
    "a function that calls another": ([call("Twice", "x k", "y")], [SCALED, TWICE], {"k": w(3)}),
    "a default": ([call("Default", "x", "h"), call("Default", "h", "y", steep=2.0)], [DEFAULT], {}),
    "an output that is an input": (
        [node("Exp", "x", "e"), call("Passes", "x e", "p q"), node("Add", "p q", "y")], [PASSES], {}),
    "an input that is left out": ([call("LeftOut", "x _ m", "y")], [LEFT_OUT], {"m": np.float32(0.2)}),
    "a call in a branch": ([call("Branch", "x c", "y")], [SCALED, BRANCH], {"c": np.array(True)}),
}  # fmt: skip


@pytest.mark.parametrize("what", MODELS)
def test_a_call_means_the_functions_nodes(what, tmp_path):
    nodes, functions, constants = MODELS[what]
    made = model(nodes, functions, constants=constants)
    path = tmp_path / "net.onnx"
    path.write_bytes(made.SerializeToString())
    x = w(3, 2, 3)
    if what == "an output that is an input":  # which ONNX Runtime does not load
        expected = np.stack([ReferenceEvaluator(made).run(None, {"x": row})[0] for row in x]).reshape(3, -1)
    else:
        expected = nets.Reference(str(path), (2, 3))(x)
    assert nets.worst(nets.run(path, x).y, expected) <= 1


def refusal(path, made):
    path.write_bytes(made.SerializeToString())
    with pytest.raises(nets.Refused) as refused:
        nets.run(path, w(1, 2, 3))
    assert refused.value.status == 2 and str(refused.value).count("\n") == 0
    return str(refused.value)


def test_a_function_that_calls_itself_is_refused(tmp_path):
    again = function("Again", "a", "b", [call("Again", "a", "b")])
    message = refusal(tmp_path / "net.onnx", model([call("Again", "x", "y")], [again]))
    assert "functions call each other more than 32 deep" in message


def test_a_small_file_of_many_nodes_is_refused(tmp_path):
    """Each function calls the one before eight times."""
    functions = [function("F0", "a", "b", [node("Neg", "a", "b")])]
    for k in range(1, 8):
        names = ["a", *(f"t{i}" for i in range(7)), "b"]
        calls = [call(f"F{k - 1}", names[i], names[i + 1]) for i in range(8)]
        functions.append(function(f"F{k}", "a", "b", calls))
    message = refusal(tmp_path / "net.onnx", model([call("F7", "x", "y")], functions))
    assert "functions mean more than 262144 nodes" in message


def test_a_call_with_too_many_inputs_is_refused(tmp_path):
    message = refusal(tmp_path / "net.onnx", model([call("Scaled", "x x", "y")], [SCALED]))
    assert "has 2 inputs and 1 outputs, the function Scaled has 1 and 1" in message


def test_a_function_of_another_opset_is_refused(tmp_path):
    other = function("Other", "a", "b", [node("Neg", "a", "b")], opset=13)
    message = refusal(tmp_path / "net.onnx", model([call("Other", "x", "y")], [other]))
    assert "the function Other is of opset 13, the model of opset 18" in message
