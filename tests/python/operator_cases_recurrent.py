"""Cases of LSTM, GRU and RNN."""

import itertools

import numpy as np
from case_tools import ints, net, node, one, several, w, whole

STEPS, BATCH, WIDTH, UNITS = 5, 2, 3, 4
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
# Of both directions; a gate that is unbounded makes states explode.
ACTIVATIONS = {
    "LSTM": ["Sigmoid", "Relu", "Tanh", "Sigmoid", "Tanh", "Relu"],
    "GRU": ["Sigmoid", "Relu", "Sigmoid", "Sigmoid"],
    "RNN": ["Relu", "Sigmoid"],
}
SEQUENCE = (STEPS, BATCH, WIDTH)


def weights(op, directions=1, *, bias=True):
    rows = GATES[op] * UNITS
    made = [w(directions, rows, WIDTH), w(directions, rows, UNITS)]
    return [*made, w(directions, 2 * rows)] if bias else made


def lengths(*values):
    return np.array(values, np.int32)


def case(op, name, *constants, outputs="y", opset=14, shape=SEQUENCE, **attributes):
    """A network of one node; with `outputs` such as "y h c" all of them are its output, one after the other."""
    names = [f"c{i}" if c is not None else "_" for i, c in enumerate(constants)]
    given = {f"c{i}": c for i, c in enumerate(constants) if c is not None}
    attributes = {"hidden_size": UNITS, **attributes}
    nodes = [node(op, " ".join(["x", *names]), outputs, **attributes)]
    if outputs != "y":
        parts = [name for name in outputs.split() if name != "_"]
        nodes[0].output[:] = ["" if o == "_" else f"{o}_" for o in outputs.split()]
        nodes += [node("Reshape", f"{p}_ flat", f"{p}_flat") for p in parts]
        nodes.append(node("Concat", " ".join(f"{p}_flat" for p in parts), "y", axis=0))
        given["flat"] = ints(-1)
    several(op, name, nodes, shape, given, opset)


def outputs_of(op):
    return "y h c" if op == "LSTM" else "y h"


for op in GATES:
    state = [w(1, BATCH, UNITS)] * (2 if op == "LSTM" else 1)
    case(op, "plain", *weights(op, bias=False), opset=7)
    case(op, "bias", *weights(op), outputs=outputs_of(op))
    case(op, "state", *weights(op), None, *state, outputs=outputs_of(op), opset=22)
    case(op, "last-state-alone", *weights(op), outputs="_ h")
    for direction, layout in itertools.product(("forward", "reverse", "bidirectional"), (0, 1)):
        count = 2 if direction == "bidirectional" else 1
        begin = w(BATCH, count, UNITS) if layout else w(count, BATCH, UNITS)
        for short, lens in (("", None), ("-short", lengths(3, 5))):
            if layout and (direction != "forward" or lens is not None):
                continue
            case(
                *(op, f"{direction}-{layout}{short}", *weights(op, count), lens, begin),
                outputs=outputs_of(op),
                shape=(BATCH, STEPS, WIDTH) if layout else SEQUENCE,
                direction=direction,
                layout=layout,
            )
    functions = ACTIVATIONS[op]
    case(op, "activations", *weights(op), activations=functions[: len(functions) // 2])
    both = {"direction": "bidirectional", "activations": functions}
    case(op, "activations-of-both", *weights(op, 2), **both)
    case(op, "clip", *[3 * c for c in weights(op)], outputs=outputs_of(op), clip=0.4)
    # The state that it begins with depends on the row as well, or alone.
    constants = {f"c{i}": c for i, c in enumerate(weights(op))} | {
        "row": ints(1, -1),
        "cut": w(STEPS * BATCH * WIDTH, BATCH * UNITS),
        "to": ints(1, BATCH, UNITS),
    }
    head = [
        node("Reshape", "x row", "flat"),
        node("MatMul", "flat cut", "state"),
        node("Reshape", "state to", "h0"),
    ]
    both = [*head, node(op, "x c0 c1 c2 _ h0", hidden_size=UNITS)]
    several(op, "state-of-the-row", both, SEQUENCE, constants)
    alone = [*head, node(op, "sequence c0 c1 c2 _ h0", hidden_size=UNITS)]
    several(op, "state-of-the-row-alone", alone, SEQUENCE, {**constants, "sequence": w(*SEQUENCE)})

for name, begin in (("", None), ("-state", w(1, BATCH, UNITS))):
    case("LSTM", f"peepholes{name}", *weights("LSTM"), None, begin, begin, w(1, 3 * UNITS), outputs="y h c")
case("LSTM", "peepholes-clip", *weights("LSTM"), None, None, None, w(1, 3 * UNITS), outputs="y h c", clip=0.5)
case("LSTM", "input-forget", *weights("LSTM"), outputs="y h c", input_forget=1)
case("LSTM", "clip-cell", *[4 * c for c in weights("LSTM")], outputs="y h c", clip=0.9)
for direction, count in (("forward", 1), ("bidirectional", 2)):
    case(
        *("GRU", f"linear-before-reset-{direction}", *weights("GRU", count)),
        outputs="y h",
        direction=direction,
        linear_before_reset=1,
    )
case("GRU", "linear-before-reset-plain", *weights("GRU", bias=False), linear_before_reset=1)

# Weights that depend on the row: row by row.
computed = [node("Reshape", "x to", "w"), node("RNN", "x w r", hidden_size=WIDTH)]
whole(
    "RNN",
    "weights-of-a-row",
    net(computed, (WIDTH, 1, WIDTH), {"to": ints(1, WIDTH, WIDTH), "r": w(1, WIDTH, WIDTH)}),
    (WIDTH, 1, WIDTH),
)
