"""ONNX files that cannot be what their author meant, and what the message must say about each."""

import itertools
import os

import numpy as np
import onnx
from case_tools import cast, ints, net, node, to_int, w
from onnx import TensorProto, helper

BAD = {}  # file name -> (what writes it, regular expressions that the message must match)


def bad(name, write, *words):
    """write: the bytes, or a function of the file's path."""
    assert name not in BAD
    BAD[name] = (write, words)


def of(name, nodes, shape, constants=None, *words, opset=13):
    """A network from x (float32, `shape`) to y."""
    bad(name, net(nodes, shape, constants, opset), *words)


def altered(change, nodes=None, constants=None, opset=13):
    """A sound network with something changed in its ModelProto."""
    nodes = nodes or [node("Gemm", "x k c", "a"), node("Relu", "a")]
    given = {"k": w(4, 3), "c": w(3)} if constants is None else constants
    made = onnx.load_from_string(net(nodes, (1, 4), given, opset))
    change(made)
    return made.SerializeToString()


# --- shapes that contradict --------------------------------------------------------------------------

MATRIX, IMAGE = (1, 4), (1, 2, 5, 5)
GEMM, CONV = node("Gemm", "x k c"), node("Conv", "x k")
of("gemm-weights", [GEMM], MATRIX, {"k": w(5, 3), "c": w(3)}, "node 'the_Gemm'")
of("gemm-bias", [GEMM], MATRIX, {"k": w(4, 3), "c": w(5)}, "node 'the_Gemm'")
of("matmul", [node("MatMul", "x k")], MATRIX, {"k": w(5, 3)}, "node 'the_MatMul'")
of("add", [node("Add", "x k")], MATRIX, {"k": w(3)}, "node 'the_Add'")
RESHAPE = [node("Reshape", "x s")]
of("reshape-to-more", RESHAPE, MATRIX, {"s": ints(1, 5)}, "node 'the_Reshape'", "5")
of("reshape-to-a-fraction", RESHAPE, MATRIX, {"s": ints(-1, 3)}, "node 'the_Reshape'")
of("reshape-two-unknown", RESHAPE, MATRIX, {"s": ints(-1, -1)}, "node 'the_Reshape'")
of("reshape-negative", RESHAPE, MATRIX, {"s": ints(-2, -2)}, "node 'the_Reshape'")
of("conv-channels", [CONV], IMAGE, {"k": w(3, 3, 3, 3)}, "node 'the_Conv'")
of("conv-bias", [node("Conv", "x k c")], IMAGE, {"k": w(3, 2, 3, 3), "c": w(4)}, "the_Conv")
of("conv-rank", [CONV], IMAGE, {"k": w(3, 2, 3)}, "node 'the_Conv'")
of("conv-large-kernel", [CONV], IMAGE, {"k": w(3, 2, 6, 6)}, "node 'the_Conv'")
SEQUENCE, CELLS = (5, 2, 3), {"k": w(1, 16, 3), "r": w(1, 16, 4)}
of("lstm-bias", [node("LSTM", "x k r b")], SEQUENCE, {**CELLS, "b": w(1, 40)}, "the_LSTM", "B of shape")
PEEPHOLES = node("LSTM", "x k r b")
PEEPHOLES.input.extend(["", "", "", "p"])
of("lstm-peepholes", [PEEPHOLES], SEQUENCE, {**CELLS, "b": w(1, 32), "p": w(1, 60)}, "the_LSTM", "P of shape")
STATE = node("LSTM", "x k r b")
STATE.input.extend(["", "i"])
of("lstm-state", [STATE], SEQUENCE, {**CELLS, "b": w(1, 32), "i": w(1, 4, 2)}, "the_LSTM", "initial_h of shape")
for key, value in (("group", 0), ("group", 3), ("strides", [0, 1]), ("dilations", [1, 0]),
                   ("pads", [1, 1]), ("pads", [-9] * 4), ("strides", [-1, 1])):  # fmt: skip
    for op, k in (("Conv", w(3, 2, 3, 3)), ("ConvTranspose", w(2, 3, 3, 3))):
        if not (op == "ConvTranspose" and key == "pads" and len(value) == 4):
            name = f"{op}-{key}-{value}".replace(" ", "")
            of(name, [node(op, "x k", **{key: value})], IMAGE, {"k": k}, f"node 'the_{op}'")
for name, given in {
    "no-kernel": {},
    "zero-kernel": {"kernel_shape": [0, 2]},
    "large-kernel": {"kernel_shape": [9, 9]},
    "zero-stride": {"kernel_shape": [2, 2], "strides": [0, 0]},
    "kernel-of-one-axis": {"kernel_shape": [2]},
}.items():
    for op in ("MaxPool", "AveragePool"):
        of(f"{op}-{name}", [node(op, "x", **given)], IMAGE, {}, f"node 'the_{op}'")
STATISTICS = {"s": w(3), "b": w(3), "m": w(3), "v": w(3) ** 2}
of("statistics", [node("BatchNormalization", "x s b m v")], IMAGE, STATISTICS, "the_BatchNorm")
of("concat", [node("Concat", "x k", axis=1)], (2, 3), {"k": w(3, 3)}, "node 'the_Concat'")
of("concat-axis", [node("Concat", "x x", axis=7)], (2, 3), {}, "node 'the_Concat'", "axis")
for perm in ([0], [0, 0], [0, 2], [0, -1]):
    name = f"perm-{perm}".replace(" ", "")
    of(name, [node("Transpose", "x", perm=perm)], (2, 3), {}, "node 'the_Transpose'")
of("squeeze", [node("Squeeze", "x s")], (2, 3), {"s": ints(1)}, "node 'the_Squeeze'")
of("unsqueeze", [node("Unsqueeze", "x s")], (2, 3), {"s": ints(9)}, "node 'the_Unsqueeze'")
of("split", [node("Split", "x s", "y z")], (2, 3), {"s": ints(1, 2)}, "node 'the_Split'")
of("expand", [node("Expand", "x s")], (2, 3), {"s": ints(4, 3)}, "node 'the_Expand'")
of("gather", [node("Gather", "x s")], (2, 3), {"s": ints(0, 2)}, "node 'the_Gather'")
of("pad", [node("Pad", "x s")], (2, 3), {"s": ints(0, 1)}, "node 'the_Pad'")
of("pad-below-nothing", [node("Pad", "x s")], (2, 3), {"s": ints(-2, 0, -2, 0)}, "node 'the_Pad'")
REFLECT = [node("Pad", "x s", mode="reflect")]
of("pad-reflects-too-far", REFLECT, (2, 3), {"s": ints(0, 5, 0, 0)}, "node 'the_Pad'")
of("tile", [node("Tile", "x s")], (2, 3), {"s": ints(2)}, "node 'the_Tile'")
of("tile-negative", [node("Tile", "x s")], (2, 3), {"s": ints(2, -1)}, "node 'the_Tile'")
of("depth", [node("DepthToSpace", "x", blocksize=3)], (1, 4, 2, 2), {}, "node 'the_Depth")
of("softmax", [node("Softmax", "x", axis=5)], (2, 3), {}, "node 'the_Softmax'", "axis")
of("top-k", [node("TopK", "x s", "y i")], (2, 3), {"s": ints(4)}, "node 'the_TopK'")
of("a-step-of-zero", [node("Slice", "x a b a z")], (4, 3), {"a": ints(0), "b": ints(2),
   "z": ints(0)}, "node 'the_Slice'")  # fmt: skip
of("no-axis", [node("Concat", "x x")], (2, 3), {}, "node 'the_Concat'", "axis")

# --- graphs ------------------------------------------------------------------------------------------

CYCLE = "cycle|own output"
of(
    "a-cycle",
    [node("Add", "x b", "a"), node("Relu", "a", "b"), node("Neg", "b")],
    MATRIX,
    {},
    CYCLE,
)
of("reads-itself", [node("Add", "x y")], MATRIX, {}, "node 'the_Add'", CYCLE)
of("dangling", [node("Add", "x q")], MATRIX, {}, "node 'the_Add'", "'q'")
of("dangling-before-its-writer", [node("Mul", "x q", "a"), node("Add", "a nothing", "q"),
   node("Add", "a q")], MATRIX, {}, "'nothing'|" + CYCLE)  # fmt: skip
TWICE = "twice|another node writes"
of("two-writers", [node("Relu", "x", "a"), node("Neg", "x", "a"), node("Add", "a x")], MATRIX, {},
   "'a'", TWICE)  # fmt: skip
of("writes-twice", [node("Split", "x", "y y", axis=1)], MATRIX, {}, "'y'", TWICE)
of("writes-an-initializer", [node("Relu", "x", "k"), node("Add", "x k")], MATRIX, {"k": w(4)},
   "'k'", f"{TWICE}|initializer")  # fmt: skip
of("writes-an-input", [node("Relu", "x", "x"), node("Neg", "x")], MATRIX, {}, "'x'",
   f"{TWICE}|input|{CYCLE}")  # fmt: skip
bad("two-initializers", altered(lambda m: m.graph.initializer.add().CopyFrom(
    m.graph.initializer[0])), "'k'", "twice")  # fmt: skip
bad("two-inputs", altered(lambda m: m.graph.input.add().CopyFrom(m.graph.input[0])), "'x'", "twice")
bad("no-nodes", altered(lambda m: m.graph.ClearField("node")), "'y'|node")
bad("no-inputs", altered(lambda m: m.graph.ClearField("input")), "input")
bad("no-outputs", altered(lambda m: m.graph.ClearField("output")), "output")
bad("no-graph", altered(lambda m: m.ClearField("graph")), "graph")
of("output-that-nothing-writes", [node("Relu", "x", "a")], MATRIX, {}, "'y'")
bad("input-without-shape", altered(lambda m: m.graph.input[0].type.tensor_type.ClearField("shape")),
    "'x'", "shape")  # fmt: skip
bad("input-without-type", altered(lambda m: m.graph.input[0].ClearField("type")), "'x'")
for kind in ("INT64", "DOUBLE", "UINT8"):

    def change(made, kind=kind):
        made.graph.input[0].type.tensor_type.elem_type = getattr(TensorProto, kind)

    bad(f"input-{kind}".lower(), altered(change), "'x'", "not float32")
of("unsupported", [node("Bernoulli", "x", "a"), node("Relu", "a", "b"), node("StringNormalizer", "b")],
   (1, 4, 4), {}, "Bernoulli", "the_Bernoulli", "StringNormalizer", "the_StringNormalizer_2")  # fmt: skip
FOREIGN = node("Relu", "x")
FOREIGN.domain = "com.example"
of("unknown-domain", [FOREIGN], MATRIX, {}, "com.example", "Relu", "the_Relu")
of("no-operator", [node("", "x")], MATRIX, {})


def opsets(*versions):
    def change(made):
        del made.opset_import[:]
        made.opset_import.extend(helper.make_opsetid("", v) for v in versions)

    return altered(change)


bad("opset-999", opsets(999), "opset 999")
bad("opset-0", opsets(0), "opset")
bad("opset-negative", opsets(-3), "opset")
bad("opset-absent", opsets(), "opset")

of("output-without-values", [node("Slice", "x b b")], (4,), {"b": ints(2)}, "output", "'y'")

# --- If ----------------------------------------------------------------------------------------------


def branch(name, result, nodes):
    for i, each in enumerate(nodes):
        each.name = f"{name}_{i}"
    ports = [helper.make_tensor_value_info(r, TensorProto.FLOAT, None) for r in result.split()]
    return helper.make_graph(nodes, name, [], ports)


def branches(other="e"):
    return {
        "then_branch": branch("then", "t", [node("Relu", "x", "t")]),
        "else_branch": branch("else", other, [node("Neg", "x", "e"), node("Abs", "x", "f")]),
    }


TRUE = {"c": np.array(True)}
of("if-of-two-truths", [node("If", "c", **branches())], MATRIX, {"c": np.array([True, False])},
   "node 'the_If'")  # fmt: skip
of("if-without-else", [node("If", "c", then_branch=branches()["then_branch"])], MATRIX, TRUE,
   "node 'the_If'", "else_branch")  # fmt: skip
FALSE = {"c": np.array(False)}
of("if-of-unlike-branches", [node("If", "c", **branches("e f"))], MATRIX, FALSE, "node 'the_If'")
DANGLING = {"then_branch": branch("then", "t", [node("Add", "x q", "t")])}
of("if-dangling", [node("If", "c", **{**branches(), **DANGLING})], MATRIX, TRUE, "'q'")


def field(number, content):
    """The bytes of a protobuf field that holds bytes."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def nested(depth):
    """If in If in If, written by hand: Python's protobuf does not go so deep."""
    relu = field(1, field(1, b"x") + field(2, b"y") + field(4, b"Relu"))
    before, length = [], len(relu)
    for _ in range(depth):
        header = varint(6 << 3 | 2) + varint(length)  # AttributeProto.g
        attribute = field(1, b"then_branch") + b"\xa0\x01\x05" + header
        length += len(attribute)
        header = varint(5 << 3 | 2) + varint(length)  # NodeProto.attribute
        inside = field(1, b"c") + field(2, b"y") + field(4, b"If") + header
        length += len(inside)
        header = varint(1 << 3 | 2) + varint(length)  # GraphProto.node
        length += len(header)
        before += [attribute, inside, header]
    graph = b"".join(reversed(before)) + relu
    made = onnx.load_from_string(net([node("Relu", "x")], MATRIX, {}))
    made.graph.ClearField("node")
    rest = made.graph.SerializeToString()
    made.ClearField("graph")
    return made.SerializeToString() + field(7, rest + graph)


bad("deep-subgraphs", nested(10_000), "deep")

# --- initializers ------------------------------------------------------------------------------------


def first(**fields):
    """The first initializer (k, [4, 3]) with other fields."""

    def change(made):
        for key, value in fields.items():
            if isinstance(value, list):
                getattr(made.graph.initializer[0], key)[:] = value
            else:
                setattr(made.graph.initializer[0], key, value)

    return altered(change)


COUNT = "values|bytes"
bad("too-few-bytes", first(raw_data=bytes(44)), "'k'", COUNT)
bad("too-many-bytes", first(raw_data=bytes(52)), "'k'", COUNT)
bad("a-byte-too-few", first(raw_data=bytes(47)), "'k'", COUNT)
bad("no-bytes", first(raw_data=b""), "'k'", COUNT)
bad("too-few-numbers", first(raw_data=b"", float_data=[1.0] * 11), "'k'", COUNT)
bad("too-many-numbers", first(raw_data=b"", float_data=[1.0] * 13), "'k'", COUNT)
bad("negative-size", first(dims=[-4, 3]), "'k'")
bad("huge-initializer", first(dims=[1 << 20, 1 << 20], raw_data=b""), "'k'")
bad("size-overflows", first(dims=[1 << 40, 1 << 40]), "'k'")
bad("size-overflows-to-right", first(dims=[1 << 62, 4, 3, 4]), "'k'")
bad("texts", first(data_type=TensorProto.STRING), "'k'")
bad("unknown-type", first(data_type=77), "'k'", "77")
bad("no-type", first(data_type=0), "'k'")
holes = w(4, 3)
holes.flat[[2, 5, 7]] = np.nan
of("nan-weights", [node("MatMul", "x k")], MATRIX, {"k": holes}, "'k'", "3 NaN")
bad("sparse", altered(lambda m: m.graph.sparse_initializer.add()), "sparse")

# --- tensors of 2^40 numbers -------------------------------------------------------------------------

HUGE = 1 << 40
of("huge-constant", [node("ConstantOfShape", "s", "a"), node("Add", "x a")], (1,),
   {"s": ints(HUGE)}, "the_ConstantOfShape")  # fmt: skip
of("huge-expand", [node("Expand", "x s")], (1, 4), {"s": ints(HUGE, 4)}, "the_Expand")
LONG, TALL = w(1, 1 << 20), w(1 << 20, 1)
of("huge-broadcast", [node("Add", "a b", "c"), node("ReduceSum", "c", "d"), node("Add", "x d")],
   (1,), {"a": LONG, "b": TALL}, "node 'the_Add'")  # fmt: skip
of("huge-broadcast-of-a-row", [node("Expand", "x s", "a"), node("Mul", "a b", "c"),
   node("ReduceSum", "c", keepdims=0)], (1, 1), {"s": ints(1 << 20, 1), "b": LONG},
   "node 'the_Mul_1'")  # fmt: skip
of("huge-product", [node("Expand", "x s", "a"), node("MatMul", "a b")], (1, 1),
   {"s": ints(1 << 20, 1), "b": LONG}, "node 'the_MatMul_1'")  # fmt: skip
of("huge-tile", [node("Tile", "x s")], (1, 1), {"s": ints(1 << 20, 1 << 20)}, "node 'the_Tile'")
of("huge-pad", [node("Pad", "x s")], (2,), {"s": ints(0, HUGE)}, "node 'the_Pad'")
of("huge-edge", [node("Pad", "x s", mode="edge")], (2,), {"s": ints(HUGE, 0)}, "node 'the_Pad'")
of("huge-range", [node("Range", "a b d", "r"), cast("r", "f"), node("Add", "x f")], (1,),
   {"a": np.int64(0), "b": np.int64(HUGE), "d": np.int64(1)}, "node 'the_Range'")  # fmt: skip
of("endless-range", [node("Range", "a b d", "r"), cast("r", "f"), node("Add", "x f")], (1,),
   {"a": np.int64(0), "b": np.int64(5), "d": np.int64(0)}, "node 'the_Range'")  # fmt: skip
of("huge-one-hot", [to_int("x", "i"), node("OneHot", "i d v")], (2,),
   {"d": np.int64(HUGE), "v": np.float32([0, 1])}, "node 'the_OneHot_1'")  # fmt: skip
of("huge-resize", [node("Resize", "x _ s")], (1, 1, 1, 1),
   {"s": np.float32([1, 1, 1 << 20, 1 << 20])}, "node 'the_Resize'")  # fmt: skip
of("nan-scale", [node("Resize", "x _ s")], (1, 1, 2, 2),
   {"s": np.float32([1, 1, np.nan, 1])}, "'the_Resize'|'s'")  # fmt: skip
of("huge-upsample", [node("Upsample", "x", scales=[1.0, 1.0, 1e6, 1e6])], (1, 1, 2, 2), {},
   "the_Upsample", opset=7)  # fmt: skip
of("huge-convolution", [node("Conv", "x k", pads=[1 << 20] * 4)], IMAGE, {"k": w(1, 2, 1, 1)},
   "node 'the_Conv'")  # fmt: skip
of("huge-strides", [node("ConvTranspose", "x k", strides=[1 << 20] * 2)], IMAGE,
   {"k": w(2, 1, 1, 1)}, "node 'the_ConvTranspose'")  # fmt: skip
doubling = [
    node("Concat", f"{a} {a}", b, axis=0)
    for a, b in itertools.pairwise(["x", *(f"a{i}" for i in range(39)), "y"])
]
of("doubled-forty-times", doubling, (1,), {}, "node 'the_Concat_")
of("huge-shape-entry", [node("Reshape", "x s")], (1, 4), {"s": ints(1 << 62, 4)}, "the_Reshape")

# --- weights beside the model ------------------------------------------------------------------------


def beside(path, data=bytes(48), **entries):
    """Writes a model whose first initializer lies elsewhere; `data`: what w.bin holds, if anything."""

    def change(made):
        tensor = made.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=str(value))

    path.write_bytes(altered(change))
    if data is not None:
        (path.parent / "w.bin").write_bytes(data)


def outside(path):
    """A file that must not be read: it lies beside the model's folder."""
    secret = path.parent.parent / "outside.bin"
    secret.write_bytes(bytes(48))
    return secret


def linked(path):
    (path.parent / "link.bin").symlink_to(outside(path))
    beside(path, location="link.bin")


def linked_folder(path):
    outside(path)
    (path.parent / "folder").symlink_to(path.parent.parent)
    beside(path, location="folder/outside.bin")


def upwards(path):
    outside(path)
    beside(path, location="../outside.bin")


def hidden_upwards(path):
    outside(path)
    (path.parent / "parts").mkdir()
    beside(path, location="parts/../../outside.bin")


def pipe(path):
    os.mkfifo(path.parent / "pipe")
    beside(path, location="pipe")


OUTSIDE = "outside|not in the model's folder"
bad("external-missing", lambda p: beside(p, None, location="w.bin"), "'k'", "external", "w.bin")
bad("external-upwards", upwards, "'k'", OUTSIDE)
bad("external-hidden-upwards", hidden_upwards, "'k'", OUTSIDE)
bad("external-absolute", lambda p: beside(p, location=outside(p)), "'k'", OUTSIDE)
bad("external-device", lambda p: beside(p, location="/dev/zero"), "'k'", OUTSIDE)
bad("external-link", linked, "'k'", OUTSIDE)
bad("external-linked-folder", linked_folder, "'k'", OUTSIDE)
bad("external-pipe", pipe, "'k'", "external")
bad("external-folder", lambda p: beside(p, location="."), "'k'", "external")
bad("external-nowhere", lambda p: beside(p), "'k'", "external")
bad("external-empty-name", lambda p: beside(p, location=""), "'k'", "external")
for name, entries in {
    "offset-beyond": {"offset": 100, "length": 48},
    "offset-beyond-without-length": {"offset": 100},
    "length-beyond": {"offset": 8, "length": 48},
    "length-does-not-fit": {"length": 44},
    "length-is-larger": {"length": 52},
    "offset-overflows": {"offset": (1 << 64) - 8, "length": 48},
    "offset-is-negative": {"offset": -8, "length": 48},
    "offset-is-no-number": {"offset": "here", "length": 48},
    "length-is-huge": {"length": 10**30},
}.items():
    bad(f"external-{name}", lambda p, e=entries: beside(p, location="w.bin", **e), "'k'")
bad("external-short", lambda p: beside(p, bytes(40), location="w.bin"), "'k'", COUNT)

# --- files that are no models ------------------------------------------------------------------------

WHOLE = altered(lambda m: None)
bad("truncated", WHOLE[: len(WHOLE) // 2])
bad("one-byte-short", WHOLE[:-1])
bad("empty", b"")
bad("a-text", b"hello, this is no network\n" * 20)
bad("zeros", bytes(1000))
bad("a-length-of-2^63", b"\x3a" + varint(1 << 63) + b"\x00" * 20)
