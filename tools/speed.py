"""Milliseconds of a forward pass beside ONNX Runtime's, one thread each, turn and turn about."""

import json
import time

import nets
import numpy as np
import onnx

ROWS = 64
PASSES = 2  # ours, theirs, ours, theirs
SECONDS = {"row": 0.05, "singles": 0.1, "batch": 0.1}  # of each of ONNX Runtime's turns
# A batch is one when nearly all rows agree with single ones; a step function may flip a few.
NEARLY_ALL, AGREE = 60, 10.0


def measure(path):
    """Milliseconds, the best of all turns: our rows_1, rows_64; their row, singles, batch."""
    data = nets.read_bytes(path)
    reference = nets.Reference(data)
    numbers = sum(int(np.prod(shape)) for shape in reference.shapes)
    x = np.random.default_rng(0).random((ROWS, numbers), np.float32)
    feeds = [reference.feed(row) for row in x]
    run = reference.session.run
    theirs = {
        "row": lambda: run(None, feeds[0]),
        "singles": lambda: [run(None, feed) for feed in feeds],
    }
    batch = batched(data, reference, feeds)
    if batch:
        theirs["batch"] = batch
    best = {}
    for _ in range(PASSES):
        turn = json.loads(nets.grapeshot("doctor", path, "--json").stdout)["milliseconds"]
        turn |= {name: fastest(action, SECONDS[name]) for name, action in theirs.items()}
        best = {name: min(value, best.get(name, np.inf)) for name, value in turn.items()}
    return best


def fastest(action, seconds):
    """Milliseconds of the fastest of as many calls as fit, at least two after the first."""
    action()
    start, best, calls = time.perf_counter(), np.inf, 0
    while calls < 2 or time.perf_counter() - start < seconds:
        begin = time.perf_counter()
        action()
        best = min(best, time.perf_counter() - begin)
        calls += 1
    return 1e3 * best


def batched(data, reference, feeds):
    """A call that runs all rows as one batch, the ports' first axis left open; None if it fails."""
    if any(not shape or shape[0] != 1 for shape in reference.shapes):
        return None
    model = onnx.load_from_string(data)
    weights = {t.name for t in model.graph.initializer}
    for port in [*model.graph.input, *model.graph.output]:
        dims = port.type.tensor_type.shape.dim
        if port.name not in weights and dims:
            dims[0].dim_param = "rows"
    del model.graph.value_info[:]  # sizes of one row
    feed = {name: np.concatenate([f[name] for f in feeds]) for name in feeds[0]}
    try:
        session = nets.session(model.SerializeToString())
        y = [v.reshape(len(feeds), -1) for v in session.run(None, feed)]
    except Exception:  # whatever ONNX Runtime says of a batch that the graph does not allow
        return None
    y = np.concatenate(y, axis=1)
    rows = [reference.session.run(None, f) for f in feeds]
    rows = [np.concatenate([np.reshape(v, -1) for v in row]) for row in rows]
    if y.shape[1] != rows[0].size:
        return None
    good = sum(nets.worst(a, b) <= AGREE for a, b in zip(y, rows, strict=True))
    return (lambda: session.run(None, feed)) if good >= NEARLY_ALL else None


def summary(times):
    """Lines about [(name, what measure() returned)]."""
    singles = [t["rows_64"] / t["singles"] for _, t in times]
    batches = sorted((t["rows_64"] / t["batch"], name) for name, t in times if "batch" in t)
    lines = [
        "64 rows take less time than ONNX Runtime's 64 single rows on"
        f" {sum(r < 1 for r in singles)} of {len(singles)} models; median ratio"
        f" {np.median(singles):.2f}, largest {max(singles):.2f}",
    ]
    if batches:
        ratios = [ratio for ratio, _ in batches]
        lines.append(
            f"{len(ratios)} models accept a batch in ONNX Runtime: median ratio of 64 rows"
            f" {np.median(ratios):.2f}, largest {ratios[-1]:.2f} ({batches[-1][1]}),"
            f" above 2: {sum(r > 2 for r in ratios)}"
        )
    rows = [t["rows_1"] / t["row"] for _, t in times]
    lines.append(f"1 row: median ratio {np.median(rows):.2f}, largest {max(rows):.2f}")
    return lines
