"""Models below folders, and rows inside the boxes of their specifications."""

import csv
import hashlib
import pathlib
import re

import nets
import numpy as np

SPECS = 4  # from which a model's rows are drawn, at most
TOKEN = re.compile(r"[()]|[^\s()]+")
COMMENT = re.compile(r";[^\n]*")
SIDES = {"<=": "<", "<": "<", ">=": ">", ">": ">", "=": "="}
TURNED = {"<": ">", ">": "<", "=": "="}
TRIES = 50  # at alternatives that contradict each other


def find_models(folders):
    """Paths below the folders, identical models together: [[path, copy...], ...].

    Without those whose specifications are all JSON, whose tests compare outputs: they end in saturated
    sigmoids, and the float32 slope of such a one is rounding.
    """
    found = {}
    for folder in map(pathlib.Path, folders):
        paths = [folder] if folder.is_file() else sorted(folder.rglob("*.onnx*"))
        for path in paths:
            if path.name.endswith((".onnx", ".onnx.gz")) and not of_json(path):
                found.setdefault(hashlib.sha256(nets.read_bytes(path)).digest(), []).append(path)
    return list(found.values())


def benchmark(model):
    """The folder above the model that holds an instances.csv, or None."""
    return next((f for f in model.parents if (f / "instances.csv").exists()), None)


def plain(path):
    """The path as an instances.csv may name it, without .gz."""
    return str(path).removesuffix(".gz")


def named(model):
    """The model's specifications as the instances.csv in a folder above it names them, and the folder."""
    folder = benchmark(model)
    if folder is None:
        return [], None
    rows = list(csv.reader((folder / "instances.csv").read_text().splitlines()))
    return list(dict.fromkeys(row[1] for row in rows if plain(folder / row[0]) == plain(model))), folder


def of_json(model):
    names, _ = named(model)
    return bool(names) and all(name.endswith(".json") for name in names)


def specifications(model):
    """Paths of the model's VNN-LIB specifications."""
    names, folder = named(model)
    specs = [folder / name for name in names if not name.endswith(".json")]
    return [s if s.exists() else s.with_name(s.name + ".gz") for s in specs]


def expressions(text):
    """The text's s-expressions as nested lists."""
    stack = [[]]
    for token in TOKEN.findall(COMMENT.sub("", text)):
        if token == "(":
            stack.append([])
        elif token == ")":
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(token)
    return stack[0]


def mentions_input(term):
    return term.startswith("X_") if isinstance(term, str) else any(map(mentions_input, term))


class Boxes:
    """What one specification says of the inputs: bounds, and alternatives of which one holds."""

    def __init__(self, text, count):
        self.lo, self.hi = np.full(count, -np.inf), np.full(count, np.inf)
        self.choices = []
        for term in expressions(text):
            if term[0] == "assert":
                apply(term[1], self.lo, self.hi, self.choices)

    def box(self, draw):
        """(lo, hi) of one of its boxes."""
        for _ in range(TRIES):
            lo, hi, left = self.lo.copy(), self.hi.copy(), list(self.choices)
            while left:
                alternatives = left.pop()
                apply(alternatives[draw.integers(len(alternatives))], lo, hi, left)
            if (lo <= hi).all():
                break
        if not (np.isfinite(lo) & np.isfinite(hi) & (lo <= hi)).all():
            raise ValueError("a specification whose inputs have no box")
        return lo, hi


def apply(term, lo, hi, choices):
    """Narrows lo and hi by a term; what has alternatives goes to choices."""
    if not mentions_input(term):
        return
    if term[0] == "and":
        for part in term[1:]:
            apply(part, lo, hi, choices)
    elif term[0] == "or":
        choices.append(term[1:])
    else:
        side, (a, b) = SIDES[term[0]], term[1:]
        if b.startswith("X_"):
            side, a, b = TURNED[side], b, a
        i, value = int(a[2:]), float(b)
        if side in "<=":
            hi[i] = min(hi[i], value)
        if side in ">=":
            lo[i] = max(lo[i], value)


def draw_rows(copies, count, n):
    """Rows for a model, given its paths, whichever of them the specifications name.

    Returns (rows in boxes of the specifications, whole-number rows in them, the boxes' widths).
    Without a specification rows are from [0, 1].
    """
    draw = np.random.default_rng(5)
    specs = [spec for model in copies for spec in specifications(model)]
    chosen = sorted({i * len(specs) // SPECS for i in range(SPECS)}) if specs else []
    sources = [Boxes(nets.read_bytes(specs[i]).decode(), count) for i in chosen]
    drawn, whole, widths = [], [], []
    for i in range(n):
        lo, hi = np.zeros(count), np.ones(count)
        if sources:
            lo, hi = sources[i % len(sources)].box(draw)
        widths.append(hi - lo)
        drawn.append(lo + (hi - lo) * draw.random(count))
        low, high = np.ceil(lo), np.floor(hi)
        if sources and (low <= high).all() and (low < high).any():
            whole.append(draw.integers(low.astype(np.int64), high.astype(np.int64) + 1))
    return (
        np.array(drawn, np.float32).reshape(n, count),
        np.array(whole, np.float32).reshape(len(whole), count),
        np.mean(widths, axis=0),
    )
