"""Compares grapeshot with ONNX Runtime on every model below the folders given.

usage: parity.py [FOLDER...] [--rows N] [--no-timing] [--json FILE]

The default are the examples and the benchmarks in ../shared/vnncomp. Identical files are one model.
Rows are drawn in the boxes of the model's specifications (from the instances.csv beside it), in
[0, 1] where there are none, and run as one batch; ONNX Runtime runs them one by one, one thread.
  batch      the model runs a batch as one, not row by row
  outputs    |y - y_ort| <= 1e-4 (1 + |y_ort|); shown is the largest share of what is allowed
  lowered    the same between the lowered graph and the graph as read
  steps, amplified
             rows left out of these, because float64 shows that rounding decides a step function,
             or that ONNX Runtime's own float32 error is as large (exact.py says how); beside the
             latter, the largest ratio of our error to ONNX Runtime's
  gradient   of one output against central differences in float64 along random directions, on rows
             without a kink within the step (their number); "surrogate" where a step function makes
             it one on purpose, "none" where no path of the graph carries a gradient
  1 row, 64 rows
             milliseconds of ours / ONNX Runtime's for one row; and ours / 64 single rows / a
             batch of 64 where the model accepts one. Timed after all else, one model at a time
Exit status 1 when anything fails; times never fail.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import sys
import tempfile
import time

import boxes
import exact
import nets
import numpy as np
import onnx
import slopes
import speed
from onnx import TensorProto, helper


@dataclasses.dataclass
class Result:
    model: str
    copies: list = dataclasses.field(default_factory=list)  # other files with the same bytes
    inputs: int = 0
    outputs: int = 0
    rows: int = 0
    loads: bool = False
    fallback: str = ""  # why the model does not run as one batch
    difference: float = 0.0  # to ONNX Runtime; at most 1 is fine
    lowering: float = 0.0  # between lowered and as read
    excuses: exact.Excuses = dataclasses.field(default_factory=exact.Excuses)
    gradient: str = ""  # compared, surrogate, none
    slope: float = 0.0  # worst difference of a compared gradient, at most 1 is fine
    usable: int = 0  # rows without a kink
    failures: list = dataclasses.field(default_factory=list)
    milliseconds: dict = dataclasses.field(default_factory=dict)

    def name(self):
        """Family and model, as the table shows them."""
        path = pathlib.Path(self.model)
        folder = boxes.benchmark(path) or path.parent
        return f"{folder.name}/{path.name.removesuffix('.gz').removesuffix('.onnx')}"


# --- one model ---------------------------------------------------------------------------------------


def check(copies, n=16):
    """Everything but times about one model, given the paths of its files."""
    result = Result(str(copies[0]), [str(path) for path in copies[1:]])
    try:
        compare(result, copies, n)
    except nets.Refused as e:
        result.failures.append(f"refused: {e}")
    except Exception as e:
        result.failures.append(f"{type(e).__name__}: {e}")
    return result


def compare(result, copies, n):
    path = copies[0]
    data = nets.read_bytes(path)
    model = onnx.load_from_string(data)
    reference = nets.Reference(data)
    result.inputs = int(np.prod(reference.shape))
    drawn, whole, widths = boxes.draw_rows(copies, result.inputs, n)
    x = np.concatenate([drawn, whole])
    expected = reference(x)
    result.rows, result.outputs = expected.shape
    # The output that varies most has the gradient that matters.
    output = int(np.argmax(expected[: len(drawn)].std(0)))
    batch = nets.run(path, x, output=output)
    result.loads = True
    result.fallback = batch.report.get("fallback", "")
    if result.fallback:
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
        kept = kept_rows(result)
        result.difference = max(result.difference, nets.worst(batch.y[kept], expected[kept]))
    else:
        compare_outputs(result, path, model, reference, x, batch.y, expected, len(drawn))
    if result.difference > 1:
        reason = result.excuses.unproven
        result.failures.append(f"outputs (no float64: {reason})" if reason else "outputs")
    result.gradient, result.slope, result.usable, failures = slopes.check_gradient(
        path, model, reference, drawn, batch.gradient[: len(drawn)], output, widths
    )
    result.failures += failures


def kept_rows(result):
    left_out = {*result.excuses.steps, *result.excuses.amplified}
    return [i for i in range(result.rows) if i not in left_out]


def compare_outputs(result, path, model, reference, x, y, expected, drawn):
    """y with ONNX Runtime's and the graph as read; from row `drawn` on, x is whole numbers."""
    as_read = nets.run(path, x, "--unlowered").y
    result.excuses = exact.excuse(path, model, reference, x, [y, as_read], expected)
    if any(i >= drawn for i in result.excuses.steps):
        result.failures.append("a whole-number row differs")
    kept = kept_rows(result)
    result.difference = nets.worst(y[kept], expected[kept])
    same = [i for i in kept if nets.worst(as_read[i], expected[i]) <= 1]
    result.lowering = nets.worst(y[same], as_read[same])
    if result.lowering > 1 or len(same) < len(kept):
        result.failures.append("lowering")


def without_softmax(model):
    """The model up to its final softmax, or None when it does not end in one."""
    last = next(n for n in model.graph.node if model.graph.output[0].name in n.output)
    if last.op_type != "Softmax":
        return None
    cut = onnx.ModelProto()
    cut.CopyFrom(model)
    cut.graph.node.remove(last)
    cut.graph.output[0].CopyFrom(
        helper.make_tensor_value_info(last.input[0], TensorProto.FLOAT, None)
    )
    return cut


# --- all models --------------------------------------------------------------------------------------


def default_folders():
    shared = nets.ROOT.parent / "shared" / "vnncomp"
    return [nets.ROOT / "examples", *([shared] if shared.is_dir() else [])]


def check_all(models, n=16):
    """Results in the models' order; as many at a time as there are processors."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        yield from pool.map(lambda copies: check(copies, n), models)


class Progress:
    """How far a long loop is, on stderr: on a terminal one line that changes, else one in 10 s."""

    def __init__(self, what, total):
        self.what, self.total, self.done = what, total, 0
        self.start, self.next = time.monotonic(), 2.0

    def step(self, name):
        self.done += 1
        seconds = time.monotonic() - self.start
        if seconds < self.next:
            return
        text = f"{self.what}: {self.done} of {self.total}, {seconds:.0f} s, {name}"
        if sys.stderr.isatty():
            end = "" if self.done < self.total else "\n"
            print(f"\r\033[K{text:.100}", end=end, file=sys.stderr, flush=True)
        else:
            print(text, file=sys.stderr, flush=True)
            self.next = seconds + 10


def short(value):
    """Three digits, no exponent: a time or a share of what is allowed."""
    if not value or value < 0.0005:
        return "0"
    return f"{value:.3f}" if value < 1 else f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def line(result):
    """The table's row."""
    steps, amplified = len(result.excuses.steps), len(result.excuses.amplified)
    gradient = f"{short(result.slope)} ({result.usable})"
    gradient = gradient if result.gradient == "compared" else result.gradient
    ms = result.milliseconds
    one = f"{short(ms['rows_1'])} / {short(ms['row'])}" if ms else ""
    batch = short(ms["batch"]) if "batch" in ms else "-"
    many = f"{short(ms['rows_64'])} / {short(ms['singles'])} / {batch}" if ms else ""
    return ROW.format(
        result.name()[-66:],
        f"{result.inputs}>{result.outputs}",
        "yes" if result.loads else "no",
        "" if not result.loads else "rows" if result.fallback else "yes",
        short(result.difference),
        short(result.lowering),
        steps or "-",
        f"{amplified} {result.excuses.ratio:.1f}x" if amplified else "-",
        gradient,
        one,
        many,
        "; ".join(result.failures) or "ok",
    )


ROW = "{:66} {:>11} {:>5} {:>5} {:>7} {:>7} {:>5} {:>9} {:>10} {:>15} {:>24}  {}"
HEAD = ROW.format(
    *("model", "shape", "loads", "batch", "outputs", "lowered", "steps", "amplified", "gradient"),
    *("1 row, ms", "64 rows, ms", "verdict"),
)


def summary(results):
    """What the table says, in a few lines."""
    files = sum(1 + len(r.copies) for r in results)
    good = sum(not r.failures for r in results)
    loads = sum(r.loads for r in results)
    batches = sum(r.loads and not r.fallback for r in results)
    kinds = [r.gradient for r in results]
    steps = sum(len(r.excuses.steps) for r in results)
    amplified = sum(len(r.excuses.amplified) for r in results)
    worst = max(results, key=lambda r: r.excuses.ratio)
    ratio = (
        f"; our error there is at most {worst.excuses.ratio:.2f} of ONNX Runtime's, where"
        f" {exact.FACTOR:g} are allowed ({worst.name()})"
    )
    lines = [
        f"{files} files, {len(results)} distinct: {loads} load, {batches} run as one batch,"
        f" {good} of {len(results)} models agree",
        f"gradients: {kinds.count('compared')} compared, {kinds.count('surrogate')} surrogate,"
        f" {kinds.count('none')} none",
        f"rows excused: {steps} at a step, {amplified} amplified" + (ratio if amplified else ""),
        "outputs, lowered, gradient: the largest difference, where 1 is the most allowed",
    ]
    times = [(r.name(), r.milliseconds) for r in results if r.milliseconds]
    return lines + (speed.summary(times) if times else [])


def count_files(folder, models):
    """Files and distinct models below one of the folders."""
    inside = [[p for p in copies if p.is_relative_to(folder)] for copies in models]
    inside = [found for found in inside if found]
    return f"{os.path.relpath(folder)}: {sum(map(len, inside))} files, {len(inside)} distinct"


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("folders", nargs="*", type=pathlib.Path, help="default: all that there is")
    p.add_argument("--rows", type=int, default=16)
    p.add_argument("--no-timing", action="store_true", help="parity only")
    p.add_argument("--json", type=pathlib.Path, help="all numbers, into a file")
    a = p.parse_args()
    folders = a.folders or default_folders()
    models = boxes.find_models(folders)
    if not models:
        sys.exit("no models there")
    results, progress = [], Progress("parity", len(models))
    if a.no_timing:
        print(HEAD, flush=True)
    for result in check_all(models, a.rows):
        results.append(result)
        progress.step(result.name())
        if a.no_timing:
            print(line(result), flush=True)
    if not a.no_timing:
        print_with_times(results)
    for folder in folders if len(folders) > 1 else []:
        print(count_files(folder, models))
    print("\n".join(summary(results)))
    if a.json:
        report = {"models": [dataclasses.asdict(r) for r in results], "summary": summary(results)}
        a.json.write_text(json.dumps(report, indent=1) + "\n")
    sys.exit(any(r.failures for r in results))


def print_with_times(results):
    """The table; a model is timed when nothing else runs."""
    progress = Progress("times", len(results))
    print(HEAD, flush=True)
    for result in results:
        if result.loads:
            result.milliseconds = speed.measure(result.model)
        print(line(result), flush=True)
        progress.step(result.name())


if __name__ == "__main__":
    main()
