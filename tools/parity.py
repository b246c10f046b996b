"""Compares grapeshot with ONNX Runtime on every model below the folders given.

usage: parity.py [FOLDER...] [--rows N] [--json FILE]

For each distinct .onnx or .onnx.gz: rows are drawn in the boxes of its specifications (from the
instances.csv beside it) and run as one batch; ONNX Runtime runs them one by one with one thread.
  batch      the model runs a batch as one, not row by row
  outputs    |y - y_ort| <= 1e-4 (1 + |y_ort|); shown is the largest share of what is allowed
  lowered    the same between the lowered graph and the graph as read
  gradient   of one output against central differences in float64 along random directions, on rows
             without a kink within the step; "surrogate" where a step function makes it one on purpose
A step function (Sign, Round, Floor) may turn a rounding difference into another output. Such a row
is excused, and counted, only when float64 shows that an argument lies within rounding of the step.
Exit status 1 when anything fails.
"""

import argparse
import concurrent.futures
import csv
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import sys
import tempfile

import nets
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

FAMILIES = (
    "traffic_signs_recognition",
    "acasxu",
    "mnist_fc",
    "mnistfc",
    "safenlp",
    "oval21",
    "sri_resnet_a",
    "sri_resnet_b",
)
STEPS = {"Sign", "Round", "Floor"}
SPECS = 4  # from which a model's rows are drawn, at most
BOUND = re.compile(r"\(\s*([<>])=\s+X_(\d+)\s+([-+.\deE]+)\s*\)")
DIRECTIONS = 2
STEP = 1e-4  # of the box's widths, for differences
SLOPES_AGREE = 1e-3  # of a typical directional derivative: what no kink means
GRADIENT_AGREES = 3e-3


@dataclasses.dataclass
class Result:
    model: str
    inputs: int = 0
    outputs: int = 0
    rows: int = 0
    batch: str = ""  # why not, empty when it runs as one
    difference: float = 0.0  # to ONNX Runtime; at most 1 is fine
    lowering: float = 0.0  # between lowered and as read
    excused: list = dataclasses.field(default_factory=list)
    gradient: float | None = None  # worst difference, at most 1 is fine; None for a surrogate
    usable: int = 0  # rows without a kink
    failures: list = dataclasses.field(default_factory=list)


def shared_folders():
    """The families of the shared benchmark, where it is there."""
    folder = nets.ROOT.parent / "shared" / "vnncomp"
    if not folder.is_dir():
        return []
    named = re.compile(rf"\d{{4}}_({'|'.join(FAMILIES)})(_\d{{4}})?")
    return sorted(f for f in folder.iterdir() if named.fullmatch(f.name))


def find_models(folders):
    """The first path of every distinct model below the folders."""
    seen = {}
    for folder in map(pathlib.Path, folders):
        found = [folder] if folder.is_file() else sorted(folder.rglob("*.onnx*"))
        for path in found:
            if path.name.endswith((".onnx", ".onnx.gz")):
                seen.setdefault(hashlib.sha256(nets.read_bytes(path)).digest(), path)
    return list(seen.values())


def plain(path):
    """The path as an instances.csv may name it, without .gz."""
    return str(path).removesuffix(".gz")


def specifications(model):
    """Paths of the model's specifications, by the instances.csv in a folder above it."""
    folder = next((f for f in model.parents if (f / "instances.csv").exists()), None)
    if folder is None:
        return []
    rows = list(csv.reader((folder / "instances.csv").read_text().splitlines()))
    names = dict.fromkeys(row[1] for row in rows if plain(folder / row[0]) == plain(model))
    specs = [folder / name for name in names]
    return [s if s.exists() else s.with_name(s.name + ".gz") for s in specs]


def first_box(spec, count):
    """lo and hi of the specification's first box: the first bounds on each input."""
    bounds = {}
    for side, index, value in BOUND.findall(nets.read_bytes(spec).decode()):
        bounds.setdefault((side, int(index)), float(value))
    return tuple(np.array([bounds[side, i] for i in range(count)]) for side in "><")


def draw_rows(model, count, n):
    """(rows in boxes of the model's specifications, whole-number rows in them, the boxes' widths)."""
    draw = np.random.default_rng(5)
    specs = specifications(model)
    if specs:
        chosen = {i * len(specs) // SPECS for i in range(SPECS)}
        boxes = [first_box(specs[i], count) for i in sorted(chosen)]
    else:
        boxes = [(np.zeros(count), np.ones(count))]
    drawn, whole = [], []
    for i in range(n):
        lo, hi = boxes[i % len(boxes)]
        drawn.append(lo + (hi - lo) * draw.random(count))
        low, high = np.ceil(lo), np.floor(hi)
        if specs and (low <= high).all() and (low < high).any():
            whole.append(draw.integers(low.astype(np.int64), high.astype(np.int64) + 1))
    widths = np.mean([hi - lo for lo, hi in boxes], axis=0)
    return (
        np.array(drawn, np.float32).reshape(n, count),
        np.array(whole, np.float32).reshape(len(whole), count),
        widths,
    )


# --- step functions ----------------------------------------------------------------------------------


class Exact:
    """The model in float64 by the onnx package's evaluator, with the arguments of its steps."""

    def __init__(self, model):
        graph = model.graph
        for tensor in graph.initializer:
            if tensor.data_type == TensorProto.FLOAT:
                values = numpy_helper.to_array(tensor).astype(np.float64)
                tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
        for node in graph.node:
            for a in node.attribute:
                if a.type == onnx.AttributeProto.TENSOR and a.t.data_type == TensorProto.FLOAT:
                    a.t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(a.t).astype(float)))
        self.steps = [n.input[0] for n in graph.node if n.op_type in STEPS]
        for port in [*graph.input, *graph.output]:
            port.type.tensor_type.elem_type = TensorProto.DOUBLE
        for name in self.steps:
            graph.output.append(helper.make_tensor_value_info(name, TensorProto.DOUBLE, None))
        weights = {t.name for t in graph.initializer}
        self.name = next(i.name for i in graph.input if i.name not in weights)
        self.kinds = [n.op_type for n in graph.node if n.op_type in STEPS]
        self.evaluator = ReferenceEvaluator(model)

    def __call__(self, x, shape):
        """(outputs, the smallest distance of an argument to a step, in units of its rounding)."""
        y, *arguments = self.evaluator.run(None, {self.name: x.astype(np.float64).reshape(shape)})
        nearest = np.inf
        for kind, z in zip(self.kinds, arguments, strict=True):
            gap = {"Sign": z, "Floor": z - np.round(z), "Round": z - np.floor(z) - 0.5}[kind]
            rounding = 1e-6 * (1 + np.abs(z).max(initial=0))
            nearest = min(nearest, np.abs(gap).min(initial=np.inf) / rounding)
        return y.reshape(-1), nearest


def excused_rows(path, graph, reference, x, y, expected):
    """Rows that differ, of which float64 says that a step's argument lies within rounding of it."""
    wrong = [i for i in range(len(x)) if nets.worst(y[i], expected[i]) > 1]
    if not wrong or not STEPS & {n.op_type for n in graph.graph.node}:
        return []
    exact = Exact(graph)
    ours = nets.run(path, x[wrong], "--float64").y
    excused = []
    for i, mine in zip(wrong, ours, strict=True):
        theirs, nearest = exact(x[i], reference.shape)
        if nets.worst(mine, theirs) <= 1 and nearest <= 1:
            excused.append(i)
    return excused


# --- gradients ---------------------------------------------------------------------------------------


def check_gradient(result, path, x, gradient, output, widths):
    """Fills in the worst difference and the number of rows without a kink."""
    draw = np.random.default_rng(6)
    scale = np.where(widths > 0, widths, 1e-3) * STEP
    n, points = len(x), [x.astype(np.float64)]
    directions = [draw.standard_normal(x.shape) * scale for _ in range(DIRECTIONS)]
    sizes = (1.0, -1.0, 0.25, -0.25)
    for d in directions:
        points += [points[0] + s * d for s in sizes]
    values = nets.run(path, np.concatenate(points), "--float64").y[:, output].reshape(-1, n)
    smooth, worst = np.ones(n, bool), np.zeros(n)
    for k, d in enumerate(directions):
        at = values[1 + 4 * k : 5 + 4 * k]
        slopes = [(v - values[0]) / s for v, s in zip(at, sizes, strict=True)]
        typical = np.linalg.norm(gradient * d, axis=1) + 1e-300
        smooth &= np.ptp(slopes, axis=0) <= SLOPES_AGREE * typical
        central = (at[2] - at[3]) / 0.5
        predicted = (gradient.astype(np.float64) * d).sum(1)
        worst = np.maximum(worst, np.abs(predicted - central) / (GRADIENT_AGREES * typical))
    result.usable = int(smooth.sum())
    result.gradient = float(worst[smooth].max(initial=0))
    if result.gradient > 1:
        result.failures.append("gradient")
    if result.usable < max(1, n // 4):
        result.failures.append(f"only {result.usable} rows without a kink")


def without_softmax(model):
    """The model up to its final softmax, or None when it does not end in one."""
    last = next(n for n in model.graph.node if n.output[0] == model.graph.output[0].name)
    if last.op_type != "Softmax":
        return None
    cut = onnx.ModelProto()
    cut.CopyFrom(model)
    cut.graph.node.remove(last)
    cut.graph.output[0].CopyFrom(
        helper.make_tensor_value_info(last.input[0], TensorProto.FLOAT, None)
    )
    return cut


# --- one model ---------------------------------------------------------------------------------------


def check(path, n):
    """Everything about one model."""
    path = pathlib.Path(path)
    result = Result(str(path))
    try:
        compare(result, path, n)
    except nets.Refused as e:
        result.failures.append(f"refused: {e}")
    except Exception as e:
        result.failures.append(f"{type(e).__name__}: {e}")
    return result


def compare(result, path, n):
    data = nets.read_bytes(path)
    model = onnx.load_from_string(data)
    reference = nets.Reference(data)
    result.inputs = int(np.prod(reference.shape))
    drawn, whole, widths = draw_rows(path, result.inputs, n)
    x = np.concatenate([drawn, whole])
    expected = reference(x)
    result.rows, result.outputs = expected.shape
    # The output that varies most has the gradient that matters.
    output = int(np.argmax(expected[: len(drawn)].std(0)))
    batch = nets.run(path, x, output=output)
    result.batch = batch.report.get("fallback", "")
    if result.batch:
        result.failures.append("row by row")
    cut = without_softmax(model)
    if cut:
        # A saturated softmax hides what differs before it.
        with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
            file.write(cut.SerializeToString())
            file.flush()
            y = nets.run(file.name, x).y
            logits = nets.Reference(cut.SerializeToString())
            compare_outputs(result, file.name, cut, logits, x, y, logits(x), len(drawn))
        kept = [i for i in range(len(x)) if i not in result.excused]
        result.difference = max(result.difference, nets.worst(batch.y[kept], expected[kept]))
    else:
        compare_outputs(result, path, model, reference, x, batch.y, expected, len(drawn))
    if result.difference > 1:
        result.failures.append("outputs")
    if not STEPS & {node.op_type for node in model.graph.node}:
        check_gradient(result, path, drawn, batch.gradient[: len(drawn)], output, widths)


def compare_outputs(result, path, model, reference, x, y, expected, drawn):
    """y with ONNX Runtime's and the graph as read; from row `drawn` on, x is whole numbers."""
    result.excused = excused_rows(path, model, reference, x, y, expected)
    if any(i >= drawn for i in result.excused):
        result.failures.append("a whole-number row differs")
    kept = [i for i in range(len(x)) if i not in result.excused]
    result.difference = nets.worst(y[kept], expected[kept])
    as_read = nets.run(path, x, "--unlowered").y
    same = [i for i in kept if nets.worst(as_read[i], expected[i]) <= 1]
    result.lowering = nets.worst(y[same], as_read[same])
    if result.lowering > 1 or len(same) < len(kept):
        result.failures.append("lowering")


# --- all models --------------------------------------------------------------------------------------


def check_all(models, n=16):
    """Results in the models' order; as many at a time as there are processors."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        yield from pool.map(lambda path: check(path, n), models)


def line(result):
    name = pathlib.Path(result.model)
    family = next((f for f in name.parents if (f / "instances.csv").exists()), name.parent).name
    gradient = (
        "surrogate" if result.gradient is None else f"{result.gradient:.2g} ({result.usable})"
    )
    cells = (
        f"{family}/{name.name.removesuffix('.gz').removesuffix('.onnx')}"[-56:],
        f"{result.inputs}>{result.outputs}",
        "no" if result.batch else "yes",
        f"{result.difference:.2g}" + (f" -{len(result.excused)}" if result.excused else ""),
        f"{result.lowering:.2g}",
        gradient,
        "; ".join(result.failures) or "ok",
    )
    return "{:<56}  {:>10}  {:>5}  {:>8}  {:>8}  {:>12}  {}".format(*cells)


HEAD = "{:<56}  {:>10}  {:>5}  {:>8}  {:>8}  {:>12}  {}".format(
    "model", "shape", "batch", "outputs", "lowered", "gradient", "verdict"
)


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument(
        "folders", nargs="*", type=pathlib.Path, help="default: examples/ and shared ones"
    )
    p.add_argument("--rows", type=int, default=16)
    p.add_argument("--json", type=pathlib.Path)
    a = p.parse_args()
    models = find_models(a.folders or [nets.ROOT / "examples", *shared_folders()])
    if not models:
        sys.exit("no models there")
    print(HEAD)
    results = []
    for result in check_all(models, a.rows):
        results.append(result)
        print(line(result), flush=True)
    failed = sum(bool(r.failures) for r in results)
    excused = sum(len(r.excused) for r in results)
    print(f"{len(results) - failed} of {len(results)} models agree; rows excused: {excused}")
    print("outputs, lowered, gradient: the largest difference, where 1 is the most allowed")
    if a.json:
        a.json.write_text(json.dumps([dataclasses.asdict(r) for r in results], indent=1) + "\n")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
