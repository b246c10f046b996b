"""The two networks of examples/text: trained on sentences in float64, written as float32 ONNX.

Both take embeddings of TOKENS words; the transformer takes besides which of them are there. Sentences come from the
docstrings that scikit-learn ships; the class is the module that one is from.
"""

import importlib
import inspect
import re

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper
from torch import nn
from torch.nn import functional as F

from example_nets import Graph

MODULES = ["ensemble", "linear_model", "metrics"]
TOKENS, WIDTH, HEADS, UNITS, WORDS = 20, 16, 4, 16, 600
PADDING, UNKNOWN = 0, 1
SHORTEST = 8
FAR = 1e4  # below every score, so that a token that is not there gets no attention


def sentences():
    """[(words, class)] of SHORTEST to TOKENS words, each once, in the order of the modules."""
    seen, found = set(), []
    for label, module in enumerate(MODULES):
        package = importlib.import_module(f"sklearn.{module}")
        for name in sorted(package.__all__):
            text = (inspect.getdoc(getattr(package, name)) or "").split("Examples\n---")[0]
            for sentence in re.split(r"(?<=[.:])\s+|\n\n", text):
                words = tuple(re.findall("[a-z]+", sentence.lower()))
                if SHORTEST <= len(words) <= TOKENS and words not in seen:
                    seen.add(words)
                    found.append((words, label))
    return found


def vocabulary(known):
    """The WORDS most frequent words of these sentences, after those for padding and for the others."""
    counts = {}
    for words, _ in known:
        for word in words:
            counts[word] = counts.get(word, 0) + 1
    common = sorted(counts, key=lambda word: (-counts[word], word))[:WORDS]
    return ["<padding>", "<unknown>", *common]


def numbered(some, words):
    """Word numbers [N, TOKENS], classes [N]."""
    index = {word: i for i, word in enumerate(words)}
    ids = np.full((len(some), TOKENS), PADDING, np.int64)
    for row, (sentence, _) in zip(ids, some, strict=True):
        row[: len(sentence)] = [index.get(word, UNKNOWN) for word in sentence]
    return ids, np.array([label for _, label in some])


class Block(nn.Module):
    """Attention among the tokens that are there, then two layers on each; both normalised first."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x, absent):
        parts = self.qkv(self.norm1(x)).view(-1, TOKENS, 3, HEADS, WIDTH // HEADS)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(2, 3) / (WIDTH // HEADS) ** 0.5 + absent
        x = x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape))
        return x + self.down(F.relu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    """Two blocks, and the mean over the tokens that are there."""

    def __init__(self):
        super().__init__()
        self.positions = nn.Parameter(0.1 * torch.randn(1, TOKENS, WIDTH))
        self.blocks = nn.ModuleList([Block(), Block()])
        self.fc = nn.Linear(WIDTH, len(MODULES))

    def forward(self, x, mask):
        absent = (mask - 1)[:, None, None, :] * FAR
        x = x + self.positions
        for block in self.blocks:
            x = block(x, absent)
        return self.fc((x * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True))


class Lstm(nn.Module):
    """One layer in both directions, and the mean over all steps."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(WIDTH, UNITS, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(2 * UNITS, len(MODULES))

    def forward(self, x, _):
        return self.fc(self.lstm(x)[0].mean(1))


def train(net_class, ids, labels, embedding, seed, epochs, rate):
    """A trained net in float64; `embedding` is trained with it where its weights want that."""
    torch.manual_seed(seed)
    torch.set_default_dtype(torch.float64)
    net = net_class()
    torch.set_default_dtype(torch.float32)
    ids, y = torch.tensor(ids), torch.tensor(labels)
    shuffle = np.random.RandomState(seed)
    parameters = [*net.parameters(), *(p for p in embedding.parameters() if p.requires_grad)]
    optimizer = torch.optim.AdamW(parameters, lr=rate, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * (len(ids) // 64))
    for _ in range(epochs):
        order = shuffle.permutation(len(ids))
        for k in range(0, len(ids) - 63, 64):
            rows = torch.from_numpy(order[k : k + 64])
            # Some words are hidden, or the few that are frequent decide everything.
            hidden = torch.from_numpy(shuffle.random_sample((64, TOKENS)) < 0.15)
            given = torch.where(hidden & (ids[rows] != PADDING), UNKNOWN, ids[rows])
            mask = (given != PADDING).double()
            optimizer.zero_grad()
            F.cross_entropy(net(embedding(given), mask), y[rows]).backward()
            optimizer.step()
            schedule.step()
    return net.eval()


class TextGraph(Graph):
    """From embeddings [1, TOKENS, WIDTH], and perhaps a mask [1, TOKENS], to scores [1, classes]."""

    def __init__(self, masked):
        super().__init__([1, TOKENS, WIDTH], opset=17)
        self.masked, self.last = masked, "embeddings"

    def model(self, name):
        self.nodes[-1].output[0] = "output"
        given = [("embeddings", self.shape)] + ([("mask", self.shape[:2])] if self.masked else [])
        inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in given]
        outputs = [helper.make_tensor_value_info("output", TensorProto.FLOAT, [1, len(MODULES)])]
        graph = helper.make_graph(self.nodes, name, inputs, outputs, self.weights)
        opsets = [helper.make_opsetid("", self.opset)]
        model = helper.make_model(graph, producer_name="grapeshot", opset_imports=opsets)
        model.ir_version = 8
        onnx.checker.check_model(model, full_check=True)
        return model


def attend(g, name, block, absent):
    depth = WIDTH // HEADS
    g.linear(f"{name}.qkv", block.qkv)
    g.add("Reshape", g.weight(f"{name}.split", np.array([1, TOKENS, 3, HEADS, depth])))
    parts = g.add("Transpose", perm=[2, 0, 3, 1, 4])
    q, k, v = (
        g.add("Gather", g.weight(f"{name}.{part}", np.int64(i)), after=parts, axis=0)
        for i, part in enumerate("qkv")
    )
    turned = g.add("Transpose", after=k, perm=[0, 1, 3, 2])
    g.add("MatMul", after=(q, turned))
    scores = g.add("Div", g.weight(f"{name}.root", np.float32(depth**0.5)))
    g.add("Add", after=(scores, absent))
    g.add("MatMul", after=(g.add("Softmax", axis=-1), v))
    g.add("Transpose", perm=[0, 2, 1, 3])
    g.add("Reshape", g.weight(f"{name}.joined", np.array([1, TOKENS, WIDTH])))
    return g.linear(f"{name}.out", block.out)


def transformer_onnx(net):
    g = TextGraph(masked=True)
    g.add("Sub", g.weight("one", np.float32(1)), after="mask")
    g.add("Mul", g.weight("far", np.float32(FAR)))
    absent = g.add("Unsqueeze", g.weight("heads_and_queries", np.array([1, 2])))
    x = g.add("Add", g.weight("positions", net.positions), after="embeddings")
    for i, block in enumerate(net.blocks):
        g.layer_norm(f"blocks.{i}.norm1", block.norm1)
        x = g.add("Add", after=(x, attend(g, f"blocks.{i}", block, absent)))
        g.layer_norm(f"blocks.{i}.norm2", block.norm2)
        g.linear(f"blocks.{i}.up", block.up)
        g.add("Relu")
        x = g.add("Add", after=(x, g.linear(f"blocks.{i}.down", block.down)))
    there = g.add("Unsqueeze", g.weight("units", np.array([2])), after="mask")
    total = g.add("ReduceSum", g.weight("tokens", np.array([1])), after="mask", keepdims=1)
    g.add("Mul", after=(x, there))
    summed = g.add("ReduceSum", g.weights[-1].name, keepdims=0)
    g.add("Div", after=(summed, total))
    g.gemm("fc", net.fc)
    return g.model("text_transformer")


def gates(t):
    """torch's input, forget, cell, output as ONNX's input, output, forget, cell."""
    i, f, c, o = t.detach().chunk(4)
    return torch.cat([i, o, f, c])


def lstm_onnx(net):
    def both(name):
        return [gates(getattr(net.lstm, f"{name}_l0{side}")) for side in ("", "_reverse")]

    g = TextGraph(masked=False)
    g.add("Transpose", perm=[1, 0, 2])  # steps first
    weights = [g.weight(n, torch.stack(both(k))) for n, k in (("w", "weight_ih"), ("r", "weight_hh"))]
    bias = torch.stack([torch.cat(pair) for pair in zip(both("bias_ih"), both("bias_hh"), strict=True)])
    g.add("LSTM", *weights, g.weight("b", bias), direction="bidirectional", hidden_size=UNITS)
    g.add("ReduceMean", axes=[0], keepdims=0)
    g.add("Reshape", g.weight("flat", np.array([1, 2 * UNITS])))
    g.gemm("fc", net.fc)
    return g.model("text_lstm")
