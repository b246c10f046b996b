"""Cases of Loop, Scan, sequences and optionals: on all rows at once, and where rows decide."""

import numpy as np
from case_tools import cast, ints, node, several, to_int, w, whole_numbers
from onnx import TensorProto, helper, numpy_helper
from operator_cases_if import branch, choose, relu_or_mul

FLOAT, BOOL, INT64 = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64


def body(nodes, inputs, outputs, constants=None, name="body"):
    """A subgraph; ports are names with b, i or s for a truth, a whole number or a sequence, else float."""
    kinds = {"b": BOOL, "i": INT64}

    def port(text):
        label, _, kind = text.partition(":")
        if kind == "s":
            return helper.make_tensor_sequence_value_info(label, FLOAT, None)
        return helper.make_tensor_value_info(label, kinds.get(kind, FLOAT), [] if kind else None)

    tensors = [numpy_helper.from_array(np.asarray(v), k) for k, v in (constants or {}).items()]
    for i, each in enumerate(nodes):
        each.name = f"{name}_{each.op_type}_{i}"
    ports = [[port(p) for p in text.split()] for text in (inputs, outputs)]
    return helper.make_graph(nodes, name, *ports, tensors)


# --- Loop ---------------------------------------------------------------------------------------

STEP = [node("MatMul", "s k", "m"), node("Tanh", "m", "t"), node("Identity", "go", "go2")]
for opset in (11, 13, 16, 21):
    again = body([*STEP], "i:i go:b s", "go2:b t")
    nodes = [node("Loop", "n go0 x", "y", body=again)]
    constants = {"n": np.int64(3), "go0": np.array(True), "k": w(4, 4)}
    several("Loop", "carried", nodes, (3, 4), constants, opset)
# What every round gives is stacked; a tensor of the graph around is read as it is.
again = body([*STEP, node("Add", "t x", "u")], "i:i go:b s", "go2:b t u")
nodes = [node("Loop", "n go0 x", "a b", body=again), node("Add", "b a")]
several("Loop", "stacked", nodes, (3, 4), {"n": np.int64(3), "go0": np.array(True), "k": w(4, 4)})
# No round at all.
again = body([*STEP], "i:i go:b s", "go2:b t")
nodes = [node("Loop", "n go0 x", "y", body=again)]
for name, n, go in (("no-rounds", 0, True), ("no-condition", 3, False)):
    constants = {"n": np.int64(n), "go0": np.array(go), "k": w(4, 4)}
    several("Loop", name, nodes, (3, 4), constants, affine=True)
# While the sum is small: how often, every row says itself.
grow = [
    node("Mul", "s two", "t"),
    node("ReduceSum", "t", "total", keepdims=0),
    node("Less", "total most", "go2"),
]
more = body(grow, "i:i go:b s", "go2:b t", {"two": np.float32(2), "most": np.float32(100)})
nodes = [node("Abs", "x", "a"), node("Loop", "_ go0 a", "y", body=more)]
several("Loop", "while-the-row-says", nodes, (3, 2), {"go0": np.array(True)})
# The number of rounds comes from the row.
nodes = [
    node("ReduceMax", "x", "top", keepdims=0),
    node("Clip", "top zero five", "c"),
    to_int("c", "n"),
    node("Loop", "n _ x", "y", body=body(list(STEP), "i:i go:b s", "go2:b t")),
]
constants = {"zero": np.float32(0), "five": np.float32(5), "k": w(4, 4)}
several("Loop", "rounds-of-the-row", nodes, (3, 4), constants, draw=whole_numbers)
# The number of a round picks a slice; a branch within a loop.
inner = choose("flag", "v", *relu_or_mul(w(4)))
pick = [
    node("Gather", "x i", "g", axis=0),
    node("Mod", "i two", "odd"),
    cast("odd", "flag", BOOL),
    inner,
    node("Add", "s g", "t0"),
    node("ReduceMean", "v", "r", keepdims=0),
    node("Add", "t0 r", "t"),
    node("Identity", "go", "go2"),
]
pick = body(pick, "i:i go:b s", "go2:b t", {"two": np.int64(2)})
nodes = [node("Loop", "n _ z", "y", body=pick)]
several("Loop", "slices-and-branches", nodes, (3, 4), {"n": np.int64(3), "z": w(4)})
# A sequence grows from round to round.
grow = [node("SequenceInsert", "q x", "q2"), node("Identity", "go", "go2")]
grow = body(grow, "i:i go:b q:s", "go2:b q2:s")
nodes = [
    node("SequenceConstruct", "c", "q0"),
    node("Loop", "n _ q0", "q", body=grow),
    node("ConcatFromSequence", "q", axis=0),
]
several("Loop", "sequence", nodes, (2, 3), {"n": np.int64(2), "c": w(2, 3)}, affine=True)

# A loop in a branch, whose own input has the name of a tensor of the branch.
again = body(list(STEP), "i:i go:b s", "go2:b t")
loops = branch([node("Neg", "x", "s"), node("Loop", "n go0 s", "v", body=again)], "v", name="then")
other = branch([node("Neg", "x", "e")], "e", name="else")
nodes = [node("If", "c", "y", then_branch=loops, else_branch=other)]
constants = {"c": np.array(True), "n": np.int64(2), "go0": np.array(True), "k": w(4, 4)}
several("Loop", "in-a-branch", nodes, (3, 4), constants)

# --- Scan ---------------------------------------------------------------------------------------

CELL = [node("Add", "h e", "p"), node("Tanh", "p", "h2"), node("Mul", "h2 k", "o")]
for opset in (9, 11, 16, 19, 21):
    scan = body(list(CELL), "h e", "h2 o", {"k": w(3)})
    nodes = [node("Scan", "h0 x", "h o", body=scan, num_scan_inputs=1), node("Add", "o h")]
    several("Scan", "cell", nodes, (5, 3), {"h0": w(3)}, opset)
for axes in (
    {"scan_input_axes": [1], "scan_output_axes": [1]},
    {"scan_input_directions": [1]},
    {"scan_output_directions": [1]},
    {"scan_input_axes": [-1], "scan_output_axes": [-1], "scan_input_directions": [1]},
):
    scan = body(list(CELL), "h e", "h2 o", {"k": w(3)})
    nodes = [node("Scan", "h0 x", "h y", body=scan, num_scan_inputs=1, **axes)]
    several("Scan", f"{axes}", nodes, (3, 3), {"h0": w(3)}, 13)
# A state that comes from the row, two sequences, one of them constant.
scan = body([node("Mul", "e f", "p"), node("Add", "h p", "h2")], "h e f", "h2")
nodes = [
    node("ReduceMean", "x", "h0", axes=[0], keepdims=0),
    node("Scan", "h0 x c", body=scan, num_scan_inputs=2),
]
several("Scan", "two-sequences", nodes, (4, 3), {"c": w(4, 3)}, 13, affine=True)
# What a step computes depends on the row in its shape: row by row.
picked = [
    cast("e", "n", BOOL),
    node("If", "n", "v", **dict(zip(("then_branch", "else_branch"), relu_or_mul(w(1)), strict=True))),
    node("ReduceSum", "v", "r", keepdims=0),
    node("Add", "h r", "h2"),
]
nodes = [node("Scan", "h0 x", body=body(picked, "h e", "h2"), num_scan_inputs=1)]
several("Scan", "branches-of-the-row", nodes, (4,), {"h0": w()}, 13, draw=whole_numbers)

# --- If, where the row decides --------------------------------------------------------------------

nodes = [
    node("ReduceSum", "x", "s", keepdims=0),
    node("Greater", "s z", "c"),
    choose("c", "y", *relu_or_mul(w(4))),
]
for opset in (9, 11, 13):
    several("If", "of-the-row", nodes, (3, 4), {"z": np.float32(0)}, opset)

# --- sequences ------------------------------------------------------------------------------------

PARTS = [node("SplitToSequence", "x p", "q", axis=1)]
nodes = [*PARTS, node("ConcatFromSequence", "q", axis=0)]
several("SplitToSequence", "equal", nodes, (2, 6), {"p": np.int64(2)}, affine=True)
several("SplitToSequence", "list", nodes, (2, 6), {"p": ints(3, 3)}, affine=True)
nodes = [node("SplitToSequence", "x", "q", axis=0, keepdims=0), node("SequenceAt", "q i", "y")]
for place in (0, -1):
    several("SplitToSequence", f"single{place}", nodes, (3, 2), {"i": np.int64(place)}, affine=True)
    several("SequenceAt", f"place{place}", nodes, (3, 2), {"i": np.int64(place)}, affine=True)
for opset in (11, 13):
    for new in (0, 1):
        nodes = [
            node("Relu", "x", "a"),
            node("SequenceConstruct", "x a c", "q"),
            node("ConcatFromSequence", "q", axis=-1, new_axis=new),
        ]
        several("ConcatFromSequence", f"new{new}", nodes, (2, 3), {"c": w(2, 3)}, opset)
        several("SequenceConstruct", f"new{new}", nodes, (2, 3), {"c": w(2, 3)}, opset)
for where in (" i", ""):
    nodes = [
        node("SequenceEmpty", "", "q0"),
        node("SequenceInsert", "q0 x", "q1"),
        node("SequenceInsert", f"q1 c{where}", "q2"),
        node("ConcatFromSequence", "q2", axis=0),
    ]
    given = {"c": w(2, 3), **({"i": np.int64(0)} if where else {})}
    for op in ("SequenceEmpty", "SequenceInsert"):
        several(op, f"place{where}", nodes, (2, 3), given, affine=True)
    nodes = [
        *PARTS,
        node("SequenceErase", f"q{where}", "r"),
        node("SequenceLength", "r", "n"),
        cast("n", "l"),
        node("ConcatFromSequence", "r", "a", axis=1),
        node("Add", "a l"),
    ]
    given = {"p": np.int64(2), **({"i": np.int64(1)} if where else {})}
    for op in ("SequenceErase", "SequenceLength"):
        several(op, f"place{where}", nodes, (2, 6), given, affine=True)
square = body([node("Mul", "e k", "a"), node("Tanh", "a", "o")], "e k", "o")
for opset in (17, 19):
    nodes = [
        *PARTS,
        node("SequenceMap", "q c", "r", body=square),
        node("ConcatFromSequence", "r", axis=0),
    ]
    several("SequenceMap", "tensor", nodes, (2, 6), {"p": np.int64(2), "c": w(2)}, opset)

# --- optionals --------------------------------------------------------------------------------------

for opset in (15, 18):
    nodes = [node("Optional", "x", "o"), node("OptionalGetElement", "o", "a"), node("Relu", "a")]
    for op in ("Optional", "OptionalGetElement"):
        several(op, "tensor", nodes, (2, 3), {}, opset)
    nodes = [
        node("Optional", "x", "o"),
        node("OptionalHasElement", "o", "b"),
        cast("b", "f"),
        node("Add", "x f"),
    ]
    several("OptionalHasElement", "tensor", nodes, (2, 3), {}, opset, affine=True)
