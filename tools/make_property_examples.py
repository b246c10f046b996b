#!/usr/bin/env python3
"""Makes examples/properties: small networks on data that scikit-learn ships, and JSON specifications.

usage: make_property_examples.py [--out FOLDER]   write the files
       make_property_examples.py --check          make them again elsewhere and compare

Networks take raw units and standardise them themselves. Those whose name says so hold their property
by how they are made: `safe` by weights that are not negative, weights of zero and a clamp, `bag_max` by
a maximum over the elements, `rows_slow` by a sum of small steps.
"""

import argparse
import json
import pathlib
import sys
import tempfile

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine

from make_example_models import differences

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "examples" / "properties"
TIMEOUT_S = 10
ROWS = 32  # of every data file
BAG = 4  # wines of a bag


def split(x, y):
    """(train x, train y, test x, test y), shuffled, the last 32 rows for testing."""
    order = np.random.RandomState(0).permutation(len(x))
    x, y = x[order], y[order]
    return x[:-ROWS], y[:-ROWS], x[-ROWS:], y[-ROWS:]


def train(parameters, forward, x, y, loss, steps=600, after_step=None, rate=0.01):
    """Adam on all rows at once, in float64."""
    optimizer = torch.optim.Adam(parameters, lr=rate)
    x, y = torch.tensor(x), torch.tensor(y)
    for _ in range(steps):
        optimizer.zero_grad()
        loss(forward(x), y).backward()
        optimizer.step()
        if after_step:
            with torch.no_grad():
                after_step()


def layers(sizes, seed):
    """[(weight [in, out], bias [out])...], float64."""
    generator = torch.Generator().manual_seed(seed)
    out = []
    for n, m in zip(sizes, sizes[1:], strict=False):
        w = torch.randn(n, m, generator=generator, dtype=torch.float64) * (2 / n) ** 0.5
        out.append((w.requires_grad_(), torch.zeros(m, dtype=torch.float64, requires_grad=True)))
    return out


def mlp(x, net):
    for w, b in net[:-1]:
        x = torch.relu(x @ w + b)
    return x @ net[-1][0] + net[-1][1]


class Graph:
    """An ONNX graph, node by node."""

    def __init__(self):
        self.nodes, self.weights = [], []

    def constant(self, value, name):
        value = value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
        value = value.astype(np.float32) if value.dtype.kind == "f" else value.astype(np.int64)
        self.weights.append(numpy_helper.from_array(value, name))
        return name

    def add(self, op, *reads, **attributes):
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(reads), [name], name=name, **attributes))
        return name

    def standardise(self, x, mean, std):
        centred = self.add("Sub", x, self.constant(mean, "mean"))
        return self.add("Mul", centred, self.constant(1 / std, "scale"))

    def mlp(self, x, net):
        for i, (w, b) in enumerate(net):
            x = self.add("Gemm", x, self.constant(w, f"w{i}"), self.constant(b, f"b{i}"))
            if i + 1 < len(net):
                x = self.add("Relu", x)
        return x

    def model(self, y, shape, out_shape, opset=13):
        self.nodes[-1].output[0] = "y"
        ports = [
            helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
            for n, s in (("x", shape), ("y", out_shape))
        ]
        graph = helper.make_graph(self.nodes, "net", ports[:1], ports[1:], self.weights)
        opsets = [helper.make_opsetid("", opset)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        return model


def tabular(x, net, seed_shape, head=None, opset=13):
    """The model of an mlp on standardised `x`."""
    graph = Graph()
    y = graph.mlp(graph.standardise("x", x.mean(0), x.std(0)), net)
    for op, *constants in head or []:
        y = graph.add(op, y, *(graph.constant(np.float32(c), f"{op}{c}") for c in constants))
    return graph.model(y, ["N", seed_shape], ["N", net[-1][0].shape[1]], opset)


def diabetes():
    """value: progression a year on, one output. safe: the same from 25 to 346, rising with bmi and bp,
    the same for both sexes. class: whether it is above 140. names, test x."""
    data = load_diabetes(scaled=False)
    x, y, test, _ = split(data.data, data.target)
    z = (x - x.mean(0)) / x.std(0)
    centre, spread = y.mean(), y.std()
    mse = torch.nn.functional.mse_loss
    value = layers([10, 16, 8, 1], 1)
    train(sum(value, ()), lambda a: mlp(a, value)[:, 0], z, (y - centre) / spread, mse)
    safe = layers([10, 16, 8, 1], 2)
    sex, rising = data.feature_names.index("sex"), [data.feature_names.index(n) for n in ("bmi", "bp")]

    def keep():
        safe[0][0][rising] = safe[0][0][rising].clamp(min=0)
        safe[0][0][sex] = 0
        for w, _ in safe[1:]:
            w.clamp_(min=0)

    train(sum(safe, ()), lambda a: mlp(a, safe)[:, 0], z, (y - centre) / spread, mse, after_step=keep)
    for net in (value, safe):
        with torch.no_grad():
            net[-1][0].mul_(spread)
            net[-1][1].mul_(spread).add_(centre)
    above = layers([10, 16, 2], 3)
    cross = torch.nn.functional.cross_entropy
    train(sum(above, ()), lambda a: mlp(a, above), z, (y > 140).astype(np.int64), cross)
    models = {
        "diabetes_value": tabular(x, value, 10),
        "diabetes_safe": tabular(x, safe, 10, [("Clip", 25, 346)]),
        "diabetes_class": tabular(x, above, 10, [("Softmax",)], opset=18),
    }
    return models, list(data.feature_names), x, test


def cancer():
    """mlp: malignant or benign, scores."""
    data = load_breast_cancer()
    x, y, test, _ = split(data.data, data.target)
    net = layers([30, 12, 2], 4)
    z = (x - x.mean(0)) / x.std(0)
    train(sum(net, ()), lambda a: mlp(a, net), z, y, torch.nn.functional.cross_entropy, steps=300)
    names = [str(n) for n in data.feature_names]
    return {"cancer_mlp": tabular(x, net, 30, opset=9)}, names, x, test


def wine():
    """mlp: the cultivar, probabilities."""
    data = load_wine()
    x, y, test, label = split(data.data, data.target)
    net = layers([13, 10, 3], 5)
    z = (x - x.mean(0)) / x.std(0)
    train(sum(net, ()), lambda a: mlp(a, net), z, y, torch.nn.functional.cross_entropy, steps=200)
    return {"wine_mlp": tabular(x, net, 13, [("Softmax",)])}, x, test, label


def bags():
    """Does a bag of four wines hold one of the third cultivar? mlp: of all numbers side by side. max: of
    the largest of what each wine gives."""
    data = load_wine()
    rng = np.random.RandomState(1)
    z = (data.data - data.data.mean(0)) / data.data.std(0)
    third = np.flatnonzero(data.target == 2)
    others = np.flatnonzero(data.target != 2)
    index = np.array([rng.choice(others, BAG) for _ in range(600)])
    places = rng.randint(0, BAG, 600)
    holds = rng.randint(0, 2, 600).astype(bool)
    index[holds, places[holds]] = rng.choice(third, holds.sum())
    x, y = z[index], holds.astype(np.int64)  # [600, 4, 13]
    cross = torch.nn.functional.cross_entropy
    flat = layers([BAG * 13, 16, 2], 6)
    train(sum(flat, ()), lambda a: mlp(a, flat), x.reshape(600, -1), y, cross, steps=200)
    inner, outer = layers([13, 8], 7), layers([8, 2], 8)
    train(
        sum(inner + outer, ()),
        lambda a: mlp(mlp(a, inner).relu().amax(1), outer),
        x,
        y,
        cross,
        steps=200,
    )
    models = {}
    graph = Graph()
    models["bag_mlp"] = graph.model(graph.mlp("x", flat), [1, BAG * 13], [1, 2])
    graph = Graph()
    (w, b), (v, c) = inner[0], outer[0]
    each = graph.add("MatMul", "x", graph.constant(w, "w"))
    each = graph.add("Relu", graph.add("Add", each, graph.constant(b, "b")))
    largest = graph.add("ReduceMax", each, axes=[1], keepdims=0)
    y_name = graph.add("Gemm", largest, graph.constant(v, "v"), graph.constant(c, "c"))
    models["bag_max"] = graph.model(y_name, [1, BAG, 13], [1, 2])
    return models, x[:ROWS].reshape(ROWS, -1)


def rows():
    """Digits row by row: after each of eight rows, is it a 0? mlp: three causal convolutions. slow: 0.5
    and a sum of steps of at most 0.05."""
    digits = load_digits()
    x, y, test, label = split(digits.data.reshape(-1, 8, 8) / 16, (digits.target == 0) * 1.0)
    functional = torch.nn.functional
    generator = torch.Generator().manual_seed(9)
    sizes = [(12, 8, 3), (12, 12, 3), (1, 12, 1)]
    nets = [
        [
            (
                (
                    torch.randn(s, generator=generator, dtype=torch.float64) * (1 / (s[1] * s[2])) ** 0.5
                ).requires_grad_(),
                torch.zeros(s[0], dtype=torch.float64, requires_grad=True),
            )
            for s in sizes
        ]
        for _ in range(2)
    ]

    def causal(a, net):
        a = a.transpose(1, 2)
        for i, (w, b) in enumerate(net):
            a = functional.conv1d(functional.pad(a, (w.shape[2] - 1, 0)), w, b)
            a = a.relu() if i + 1 < len(net) else a
        return a[:, 0]

    def slow(a, net):
        return 0.5 + 0.05 * causal(a, net).tanh().cumsum(1)

    target = np.repeat(y[:, None], 8, 1)
    entropy = functional.binary_cross_entropy_with_logits
    train(sum(nets[0], ()), lambda a: causal(a, nets[0]), x, target, entropy, steps=150, rate=0.02)
    train(sum(nets[1], ()), lambda a: slow(a, nets[1]), x, target, functional.mse_loss, steps=60, rate=0.02)
    models = {}
    for name, net in zip(("rows_conv", "rows_slow"), nets, strict=True):
        graph = Graph()
        z = graph.add("Transpose", "x", perm=[0, 2, 1])
        for i, (w, b) in enumerate(net):
            pads = [w.shape[2] - 1, 0]
            z = graph.add("Conv", z, graph.constant(w, f"w{i}"), graph.constant(b, f"b{i}"), pads=pads)
            if i + 1 < len(net):
                z = graph.add("Relu", z)
        z = graph.add("Flatten", z)
        if name == "rows_conv":
            z = graph.add("Sigmoid", z)
        else:
            z = graph.add("CumSum", graph.add("Tanh", z), graph.constant(np.int64(1), "axis"))
            z = graph.add("Mul", z, graph.constant(0.05, "step"))
            z = graph.add("Add", z, graph.constant(0.5, "start"))
        models[name] = graph.model(z, [1, 8, 8], [1, 8])
    return models, test.reshape(ROWS, -1), label


def rounded(values):
    return [float(f"{v:.6g}") for v in values]


def make(out):
    (out / "data").mkdir(parents=True, exist_ok=True)
    models, specs, data = {}, {}, {}

    made, names, x, data["diabetes"] = diabetes()
    models |= made
    people = {"lo": rounded(x.min(0)), "hi": rounded(x.max(0))}
    near = {
        "center": {"file": "data/diabetes.npy", "rows": "all"},
        "eps": rounded(0.1 * x.std(0)),
        **people,
    }
    fairness = {"feature_names": names, "protected": {"sex": [1, 2]}}
    both = {**people, "values": {"sex": [1, 2]}}
    specs["diabetes_class", "fairness"] = {
        "property": "fairness",
        "description": "Sex alone decides for nobody on file, nor for anyone near them.",
        "output_names": ["low", "high"],
        "inputs": near,
        **fairness,
    }
    specs["diabetes_value", "fairness"] = {
        "property": "fairness",
        "description": "Sex, and 2 % of the rest of a range, change the forecast by 10 at most.",
        "inputs": people,
        **fairness,
        "eps": rounded(0.02 * np.ptp(x, 0)),
        "tolerance": 10,
    }
    specs["diabetes_safe", "fairness"] = {
        "property": "fairness",
        "description": "Sex changes the forecast by 0.01 at most: holds, its weights are zero.",
        "inputs": people,
        **fairness,
        "tolerance": 0.01,
    }
    for net, why in (("value", ""), ("safe", ": holds, weights on the way are not negative")):
        specs[f"diabetes_{net}", "monotonicity"] = {
            "property": "monotonicity",
            "description": f"The forecast rises with body mass and blood pressure{why}.",
            "feature_names": names,
            "inputs": both,
            "increasing": ["bmi", "bp"],
        }
        specs[f"diabetes_{net}", "bounds"] = {
            "property": "bounds",
            "description": f"The forecast is one that was ever seen{', by a clamp' if why else ''}.",
            "feature_names": names,
            "inputs": both,
            "lo": 25,
            "hi": 346,
        }
    specs["diabetes_value", "bounds_delta"] = {
        "property": "bounds",
        "description": "A tenth of a deviation in each number moves the forecast by 15 at most.",
        "feature_names": names,
        "inputs": {**near, "values": {"sex": [1, 2]}},
        "delta": 15,
    }

    made, names, x, data["cancer"] = cancer()
    models |= made
    specs["cancer_mlp", "monotonicity"] = {
        "property": "monotonicity",
        "description": "Malignancy rises with the worst radius, and falls with the smoothness error.",
        "feature_names": names,
        "output_names": ["malignant", "benign"],
        "inputs": {
            "center": {"file": "data/cancer.npy", "rows": [0, 1, 2, 3]},
            "eps": rounded(0.5 * x.std(0)),
        },
        "increasing": ["worst radius"],
        "decreasing": ["smoothness error"],
        "class": "malignant",
    }

    made, x, data["wine"], label = wine()
    models |= made
    first = [int(np.flatnonzero(label == c)[0]) for c in (0, 1)]
    boxes = [
        {"center": {"file": "data/wine.npy", "row": row}, "eps": rounded(x.std(0))} for row in first
    ]
    specs["wine_mlp", "set"] = {
        "property": "set",
        "description": "Wines like either of two are not of the third cultivar.",
        "inputs": boxes,
        "classes": [0, 1],
    }
    specs["wine_mlp", "set_outputs"] = {
        "property": "set",
        "description": "No two cultivars are likelier than 0.501: holds, their shares add up to 1.",
        "inputs": {"lo": rounded(x.min(0)), "hi": rounded(x.max(0))},
        "outputs": [{"0": [0, 0.501]}, {"1": [0, 0.501]}],
    }

    made, data["bags"] = bags()
    models |= made
    bag = {"center": {"file": "data/bags.npy", "rows": [0, 1, 2, 3, 4, 5, 6, 7]}, "eps": 0.2}
    specs["bag_mlp", "permutation"] = {
        "property": "permutation",
        "description": "The order of the wines in a bag does not matter.",
        "inputs": bag,
        "elements": BAG,
        "permutations": "any",
    }
    specs["bag_mlp", "permutation_reversed"] = {
        "property": "permutation",
        "description": "A bag read backwards, or turned by one, is the same bag.",
        "inputs": bag,
        "elements": BAG,
        "permutations": [[3, 2, 1, 0], [1, 2, 3, 0]],
    }
    specs["bag_max", "permutation"] = {
        "property": "permutation",
        "description": "The order does not matter but for rounding: holds by a maximum over wines.",
        "inputs": bag,
        "elements": BAG,
        "permutations": "any",
        "tolerance": 0.001,
    }

    made, data["rows"], label = rows()
    models |= made
    zero = int(np.flatnonzero(label == 1)[0])
    picture = {"center": {"file": "data/rows.npy", "row": zero}, "eps": 0.25, "lo": 0, "hi": 1}
    specs["rows_conv", "temporal"] = {
        "property": "temporal",
        "description": "Once the score is above 0.6 it stays above 0.5 for two rows, as the last four "
        "rows change.",
        "inputs": {**picture, "steps": 8, "only_steps": [4, 5, 6, 7]},
        "steps": 8,
        "formula": {
            "always": {
                "if": {"above": 0.6},
                "then": {"always": {"above": 0.5}, "steps": [1, 2]},
            }
        },
    }
    specs["rows_slow", "temporal"] = {
        "property": "temporal",
        "description": "The score moves by 0.051 a row at most and stays from 0.09 to 0.91: holds, it is "
        "a sum of eight steps of at most 0.05.",
        "inputs": {"lo": 0, "hi": 1},
        "steps": 8,
        "formula": {"and": [{"always": {"change": 0.051}}, {"always": {"within": [0.09, 0.91]}}]},
    }

    for name, model in models.items():
        (out / f"{name}.onnx").write_bytes(model.SerializeToString(deterministic=True))
    for name, values in data.items():
        np.save(out / "data" / f"{name}.npy", values.astype(np.float32))
    for (net, kind), spec in specs.items():
        (out / f"{net}_{kind}.json").write_text(text(spec))
    lines = [f"{net}.onnx,{net}_{kind}.json,{TIMEOUT_S}\n" for net, kind in specs]
    (out / "instances.csv").write_text("".join(lines))


def text(spec):
    """JSON with a line a key."""
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in spec.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def inputs_of(folder):
    """Rows that a model of `folder` is compared on."""
    kinds = {"diabetes": "diabetes", "cancer": "cancer", "wine": "wine", "bag": "bags", "rows": "rows"}
    return lambda name: np.load(folder / "data" / f"{kinds[name.split('_')[0]]}.npy")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=pathlib.Path, default=FOLDER)
    parser.add_argument(
        "--check", action="store_true", help="compare with --out instead of writing there"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    with tempfile.TemporaryDirectory() as scratch:
        out = pathlib.Path(scratch) if arguments.check else arguments.out
        make(out)
        if arguments.check:
            found = list(differences(out, arguments.out, inputs_of(out)))
            print("\n".join(found) or "as committed")
            sys.exit(bool(found))


if __name__ == "__main__":
    main()
