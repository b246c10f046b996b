"""Cases of If: the condition is the same for all rows, and known when the network is read."""

import numpy as np
from case_tools import cast, ints, node, several, w
from onnx import TensorProto, helper, numpy_helper


def branch(nodes, result, constants=None, name="branch"):
    tensors = [numpy_helper.from_array(np.asarray(v), k) for k, v in (constants or {}).items()]
    outputs = [helper.make_tensor_value_info(r, TensorProto.FLOAT, None) for r in result.split()]
    for i, each in enumerate(nodes):
        each.name = f"{name}_{each.op_type}_{i}"
    return helper.make_graph(nodes, name, [], outputs, tensors)


def choose(condition, result, then, other):
    return node("If", condition, result, then_branch=then, else_branch=other)


def relu_or_mul(weight):
    """x is a tensor of the graph around."""
    then = branch([node("Relu", "x", "t")], "t", name="then")
    other = branch([node("Mul", "x k", "e")], "e", {"k": weight}, name="else")
    return then, other


for truth in (True, False):
    for opset in (7, 11, 13, 16, 19, 21):
        nodes = [choose("c", "y", *relu_or_mul(w(4)))]
        several("If", f"initializer-{truth}", nodes, (3, 4), {"c": np.array(truth)}, opset)
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s i", "n", axis=0),
        node("Equal", "n m", "c"),
        choose("c", "a", *relu_or_mul(w(4))),
        node("Add", "a b"),
    ]
    constants = {"i": np.int64(0), "m": np.int64(3 if truth else 2), "b": w(3, 1)}
    several("If", f"of-a-shape-{truth}", nodes, (3, 4), constants, 13)
    # A branch reads constants of the graph around, and hands on a tensor as it is.
    then = branch([node("MatMul", "x k", "t0"), node("Relu", "t0", "t")], "t", name="then")
    other = branch([node("Identity", "h", "e")], "e", name="else")
    nodes = [node("Mul", "x x", "h"), choose("c", "y", then, other)]
    constants = {"c": np.array([truth]), "k": w(4, 4)}
    several("If", f"outer-tensors-{truth}", nodes, (3, 4), constants, 13)
    # Two results, of two shapes.
    then = branch([node("Relu", "x", "t"), node("Neg", "x", "u")], "t u", name="then")
    other = branch([node("Neg", "x", "e"), node("Abs", "x", "f")], "e f", name="else")
    nodes = [choose("c", "a b", then, other), node("Sub", "a b")]
    several("If", f"two-results-{truth}", nodes, (3, 4), {"c": np.array(truth)}, 13)
    # As exporters write squeeze(1): only where that axis has length 1.
    then = branch([node("Squeeze", "x q", "t")], "t", name="then")
    other = branch([node("Identity", "x", "e")], "e", name="else")
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s one", "n", axis=0),
        node("Equal", "n one", "c"),
        choose("c", "a", then, other),
        node("Mul", "a k"),
    ]
    constants = {"one": np.int64(1), "q": ints(1), "k": w(4)}
    shape = (3, 1 if truth else 2, 4)
    several("If", f"squeeze-{truth}", nodes, shape, constants, 13, affine=True)
    for inner in (True, False):
        deep = choose("d", "t", *relu_or_mul(w(4)))
        then = branch([deep], "t", name="outer_then")
        other = branch([node("Neg", "x", "e")], "e", name="outer_else")
        nodes = [choose("c", "y", then, other)]
        constants = {"c": np.array(truth), "d": np.array(inner)}
        several("If", f"nested-{truth}-{inner}", nodes, (2, 4), constants, 13)
nodes = [
    node("Cast", "n", "c", to=TensorProto.BOOL),
    choose("c", "y", *relu_or_mul(w(4))),
]
several("If", "cast-condition", nodes, (2, 4), {"n": np.int64(2)}, 13)
then = branch([node("Constant", "", "t", value_float=2.0)], "t", name="then")
other = branch([node("Constant", "", "e", value_float=3.0)], "e", name="else")
nodes = [choose("c", "a", then, other), node("Mul", "x a")]
several("If", "constants", nodes, (2, 4), {"c": np.array(False)}, 13, affine=True)
# Nodes of the graph around that only a branch reads.
then = branch([node("Add", "h g", "t")], "t", name="then")
other = branch([node("Sub", "h g", "e")], "e", name="else")
nodes = [
    node("Mul", "x k", "h"),
    node("Constant", "", "i", value_ints=[1, 2]),
    cast("i", "g"),
    choose("c", "y", then, other),
]
several("If", "captured", nodes, (3, 2), {"c": np.array(True), "k": w(2)}, 13, affine=True)
