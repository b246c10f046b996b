"""Cases of attention and its relatives, of products by index letters, and of losses."""

import numpy as np
from case_tools import cast, ints, node, one, several, to_int, w, within
from onnx import TensorProto

# --- Attention ---------------------------------------------------------------------------------------

MASK = np.array([[1, 0, 1, 1], [0, 1, 0, 0], [1, 1, 1, 0]], bool)
QUERY, KEYS, VALUES = (2, 3, 3, 4), w(2, 3, 4, 4), w(2, 3, 4, 5)


def attention(name, shape, inputs, constants, outputs="y", opset=23, **attributes):
    several("Attention", name, [node("Attention", inputs, outputs, **attributes)], shape, constants, opset)


given = {"k": KEYS, "v": VALUES}
attention("plain", QUERY, "x k v", given)
attention("scale", QUERY, "x k v", given, scale=0.3)
attention("softcap", QUERY, "x k v", given, softcap=2.0)
attention("causal", QUERY, "x k v", given, is_causal=1)
attention("self", (1, 2, 3, 4), "x x x", {})
attention("keys", (2, 3, 4, 4), "q x v", {"q": w(*QUERY), "v": VALUES})
attention("values", (2, 3, 4, 5), "q k x", {"q": w(*QUERY), "k": KEYS})
attention("values-affine", (1, 1, 4, 2), "q k x", {"q": w(1, 1, 3, 4), "k": w(1, 1, 4, 4)})
attention("opset-24", QUERY, "x k v", given, opset=24)
for name, mask in (
    ("mask-2d", w(3, 4)),
    ("mask-4d", w(2, 3, 3, 4)),
    ("mask-of-heads", w(3, 3, 4)),
    ("mask-of-bools", MASK),
):
    attention(name, QUERY, "x k v m", {**given, "m": mask})
attention("mask-causal", QUERY, "x k v m", {**given, "m": w(3, 4)}, is_causal=1)
attention("mask-softcap", QUERY, "x k v m", {**given, "m": MASK}, softcap=1.5)
# The mask depends on the row.
attention("mask-of-the-row", (3, 4), "q k v x", {"q": w(*QUERY), **given})
# Three axes: the heads are folded into the features; fewer heads of keys than of queries.
folded = {"k": w(2, 4, 8), "v": w(2, 4, 6)}
attention("folded", (2, 3, 8), "x k v", folded, q_num_heads=2, kv_num_heads=2)
attention("folded-shared", (2, 3, 16), "x k v", folded, q_num_heads=4, kv_num_heads=2)
attention("shared", (2, 6, 3, 4), "x k v", given)
past = {**given, "pk": w(2, 3, 2, 4), "pv": w(2, 3, 2, 5)}
nodes = [node("Attention", "x k v _ pk pv", "y nk nv")]
several("Attention", "past", nodes, QUERY, past, 23)
for name, output in (("present-keys", "nk"), ("present-values", "nv")):
    inputs = "q x v _ pk pv" if output == "nk" else "q k x _ pk pv"
    nodes = [node("Attention", inputs, "z nk nv"), node("Neg", output, "y")]
    shape = (2, 3, 4, 4) if output == "nk" else (2, 3, 4, 5)
    several("Attention", name, nodes, shape, {**past, "q": w(*QUERY)}, 23, affine=True)
nodes = [node("Attention", "x k v", "z nk nv s"), node("Neg", "s", "y")]
several("Attention", "products", nodes, QUERY, given, 23, affine=True)
nodes = [node("Attention", "x k v m", "z nk nv s", qk_matmul_output_mode=3), node("Neg", "s", "y")]
several("Attention", "shares", nodes, QUERY, {**given, "m": w(3, 4)}, 23)

# --- RotaryEmbedding ---------------------------------------------------------------------------------

ANGLES = w(2, 3, 2)
PLACES = ints([0, 2, 4], [1, 1, 3])
for name, shape, caches, attributes in (
    ("plain", (2, 2, 3, 4), (np.cos(ANGLES), np.sin(ANGLES)), {}),
    ("interleaved", (2, 2, 3, 4), (np.cos(ANGLES), np.sin(ANGLES)), {"interleaved": 1}),
    ("places", (2, 2, 3, 4), (np.cos(w(5, 2)), np.sin(w(5, 2)), PLACES), {}),
    ("folded", (2, 3, 8), (np.cos(ANGLES), np.sin(ANGLES)), {"num_heads": 2}),
    (
        "in-part",
        (2, 2, 3, 6),
        (np.cos(ANGLES), np.sin(ANGLES)),
        {"rotary_embedding_dim": 4},
    ),
):
    one("RotaryEmbedding", name, shape, *caches, opset=23, affine=True, **attributes)

# --- TensorScatter -----------------------------------------------------------------------------------

for mode in ("linear", "circular"):
    places = ints(1, 0) if mode == "linear" else ints(2, 3)
    one("TensorScatter", mode, (2, 1, 4, 3), w(2, 1, 2, 3), places, opset=24, affine=True, mode=mode)
    one("TensorScatter", f"{mode}-update", (2, 2, 3), w(2, 4, 3), places, at=1, opset=24, affine=True,
        mode=mode)  # fmt: skip
one("TensorScatter", "axis", (2, 4, 2, 3), w(2, 3, 2, 3), opset=24, affine=True, axis=1)

# --- Einsum, Det -------------------------------------------------------------------------------------

for equation, shape, constants in (
    ("ij,jk->ik", (3, 4), (w(4, 2),)),
    ("ij, jk", (3, 4), (w(4, 2),)),
    ("bij,bjk->bik", (2, 3, 4), (w(2, 4, 2),)),
    ("...ii->...i", (2, 3, 3), ()),
    ("ii", (3, 3), ()),
    ("ij->", (3, 4), ()),
    ("i,i", (5,), (w(5),)),
    ("...j,jk", (2, 3, 4), (w(4, 2),)),
    ("bhid,bhjd->bhij", (1, 2, 3, 4), (w(1, 2, 3, 4),)),
    ("Ai,ij->Aj", (3, 4), (w(4, 2),)),
):
    one("Einsum", equation, shape, *constants, opset=12, affine=True, equation=equation)
nodes = [node("Einsum", "x x", equation="ij,kj->ik")]
several("Einsum", "self", nodes, (3, 4))
one("Einsum", "constant-first", (4, 2), w(3, 4), at=1, opset=12, affine=True, equation="ij,jk->ik")
one("Det", "one", (3, 3), opset=11)
one("Det", "many", (2, 2, 3, 3), opset=22)
one("Det", "small", (1, 1), opset=11, affine=True)

# --- losses ------------------------------------------------------------------------------------------


def loss(op, name, shape, classes, *weights, opset=13, **attributes):
    affine = op == "NegativeLogLikelihoodLoss"
    one(op, name, shape, classes, *weights, opset=opset, affine=affine, **attributes)


for op in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"):
    for reduction in ("none", "sum", "mean"):
        loss(op, reduction, (3, 4), ints(0, 3, 1), reduction=reduction)
        loss(op, f"{reduction}-weights", (3, 4), ints(0, 3, 1), np.abs(w(4)), reduction=reduction)
        loss(op, f"{reduction}-ignored", (3, 4), ints(0, 9, 1), np.abs(w(4)), ignore_index=9,
             reduction=reduction)  # fmt: skip
    loss(op, "spatial", (2, 3, 2, 2), ints([[0, 1], [2, 2]], [[1, 1], [0, 2]]), opset=12)
    loss(op, "spatial-ignored", (2, 3, 2), np.array([[0, -1], [2, 2]], np.int32), ignore_index=-1)
    # The classes depend on the row.
    nodes = [to_int("x", "c"), node(op, "p c")]
    several(op, "classes-of-the-row", nodes, (3,), {"p": w(3, 4)}, draw=within(0, 3.9))
nodes = [node("SoftmaxCrossEntropyLoss", "x c", "l p"), node("Neg", "p", "y")]
several("SoftmaxCrossEntropyLoss", "log-probabilities", nodes, (3, 4), {"c": ints(0, 3, 1)})

# --- small functions ---------------------------------------------------------------------------------

for axis, opset in ((0, 11), (1, 11), (-1, 13), (1, 13)):
    one("Hardmax", f"axis{axis}", (2, 3, 4), opset=opset, axis=axis)
one("Hardmax", "default", (2, 3), opset=13)
for attributes in ({}, {"lambd": 0.8}, {"lambd": 0.8, "bias": 0.3}, {"bias": -0.2}):
    one("Shrink", f"{attributes}", (3, 5), opset=9, **attributes)
one("Swish", "plain", (3, 4), opset=24)
one("Swish", "alpha", (3, 4), opset=24, alpha=1.7)
for axes in ([0, 2, 3], [1], [-1, 0]):
    one("MeanVarianceNormalization", f"axes{axes}", (2, 3, 4, 5), opset=13, axes=axes)
one("MeanVarianceNormalization", "default", (2, 3, 4, 5), opset=9)
for name, output in (("mean", "m"), ("deviation", "d")):
    nodes = [node("LayerNormalization", "x s b", "n m d", axis=-1), node("Neg", output, "y")]
    several("LayerNormalization", name, nodes, (2, 3, 4), {"s": w(4), "b": w(4)}, 17)
nodes = [node("Dropout", "x", "a m"), cast("m", "f", TensorProto.FLOAT), node("Mul", "a f")]
several("Dropout", "mask", nodes, (3, 4), opset=13, affine=True)
