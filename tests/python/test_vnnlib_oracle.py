"""The parser's verdicts against verify_witness.Property, which walks S-expressions in rationals.

Needs GRAPESHOT_BUILD (a build folder with spec_probe) and the shared folder (GRAPESHOT_SHARED, or
../shared beside the project); skips without them. Every distinct specification is judged at points
inside its boxes, on bounds, one float outside, with outputs that tie and that just miss; large ones
at one of these only, unless GRAPESHOT_ORACLE=full.
"""

import concurrent.futures
import functools
import hashlib
import importlib.util
import os
import pathlib
import random
import subprocess
import tempfile

import pytest
from conftest import ROOT

np = pytest.importorskip("numpy")
pytest.importorskip("onnxruntime")  # verify_witness imports it

SHARED = pathlib.Path(os.environ.get("GRAPESHOT_SHARED", ROOT.parent / "shared"))
FULL = os.environ.get("GRAPESHOT_ORACLE") == "full"
LARGE = 50_000  # bytes of text
KINDS = 5  # of points, see Points.draw
WORKERS = min(4, os.cpu_count() or 1)


@pytest.fixture(scope="module")
def probe():
    build = os.environ.get("GRAPESHOT_BUILD")
    if not build:
        pytest.skip("GRAPESHOT_BUILD does not name a build folder")
    if not (SHARED / "vnncomp").is_dir() or not (SHARED / "tools/verify_witness.py").exists():
        pytest.skip(f"no vnncomp and tools/verify_witness.py in {SHARED}")
    path = pathlib.Path(build) / "spec_probe"
    assert path.exists(), f"{path} is not built"
    return path


@functools.cache
def oracle():
    path = SHARED / "tools" / "verify_witness.py"
    spec = importlib.util.spec_from_file_location("verify_witness", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.Fraction = functools.lru_cache(1 << 20)(module.Fraction)  # the same decimals come again
    return module


def distinct_specs():
    """The path of every specification whose bytes no earlier one has."""
    seen = {}
    for path in sorted((SHARED / "vnncomp").rglob("*.vnnlib*")):
        seen.setdefault(hashlib.md5(oracle().read(str(path))).digest(), path)
    return list(seen.values())


def choose(formulas, rng, atoms):
    """Appends the atoms of one random disjunct of every `or`."""
    for formula in formulas:
        if formula[0] == "and":
            choose(formula[1:], rng, atoms)
        elif formula[0] == "or":
            choose([rng.choice(formula[1:])], rng, atoms)
        else:
            atoms.append(formula)
    return atoms


class Points:
    """Draws inputs and outputs around one random disjunct of a specification."""

    def __init__(self, prop, rng):
        self.prop, self.rng = prop, rng
        plain = [e for e in prop.asserts if e[0] not in ("and", "or")]
        self.nested = [e for e in prop.asserts if e[0] in ("and", "or")]
        self.lo, self.hi = np.full(prop.inputs, -np.inf), np.full(prop.inputs, np.inf)
        self.rows = []
        self.rows = self.read(plain, self.lo, self.hi)

    def read(self, atoms, lo, hi):
        """Tightens lo and hi in place; returns the relations over outputs."""
        rows = list(self.rows)
        for relation, a, b in atoms:
            if relation == ">=":
                a, b = b, a
            if a[:2] == "X_":
                hi[int(a[2:])] = min(hi[int(a[2:])], float(b))
            elif b[:2] == "X_":
                lo[int(b[2:])] = max(lo[int(b[2:])], float(a))
            else:
                rows.append((a, b))
        return rows

    def draw(self, kind):
        """Kinds: 0 inside and 1 on the bounds, with outputs that satisfy the disjunct, many by a
        tie; 2 an input beyond its bound; 3 any outputs; 4 an output one float off."""
        rng = self.rng
        lo, hi = self.lo.copy(), self.hi.copy()
        rows = self.read(choose(self.nested, rng, []), lo, hi)
        x = self.inputs(lo, hi, at_bounds=kind == 1)
        y = np.float32([rng.gauss(0, 10) for _ in range(self.prop.outputs)])
        if kind != 3:
            self.satisfy(rows, y)
        if kind == 2:
            i = rng.randrange(len(x))
            below = rng.random() < 0.5
            bound, beyond = (lo[i], -np.inf) if below else (hi[i], np.inf)
            x[i] = np.nextafter(np.float32(bound), np.float32(beyond))
        if kind == 4:
            a = rng.choice([v for v in rng.choice(rows) if v[:2] == "Y_"])
            i = int(a[2:])
            y[i] = np.nextafter(y[i], np.float32(rng.choice([-np.inf, np.inf])))
        return np.concatenate([x, y])

    def inputs(self, lo, hi, at_bounds):
        low, high = lo.astype(np.float32), hi.astype(np.float32)
        fixed = lo == hi
        up, down = np.float32(np.inf), np.float32(-np.inf)
        low = np.where(~fixed & (low < lo), np.nextafter(low, up), low)
        high = np.where(~fixed & (high > hi), np.nextafter(high, down), high)
        u = np.random.default_rng(self.rng.getrandbits(32)).random(len(low))
        if at_bounds:
            return np.where(u < 0.5, low, high)
        x = (low + (high.astype(np.float64) - low) * u).astype(np.float32)
        return np.minimum(np.maximum(x, low), high)

    def satisfy(self, rows, y):
        """Moves outputs onto the relations that do not hold, so that many tie."""
        for _ in range(10):
            for a, b in self.rng.sample(rows, len(rows)):
                value = [float(y[int(v[2:])]) if v[:2] == "Y_" else float(v) for v in (a, b)]
                if value[0] <= value[1]:
                    continue
                variable, target = (a, value[1]) if a[:2] == "Y_" else (b, value[0])
                i, rounded = int(variable[2:]), np.float32(target)
                if variable == a and rounded > target:
                    rounded = np.nextafter(rounded, np.float32(-np.inf))
                if variable == b and rounded < target:
                    rounded = np.nextafter(rounded, np.float32(np.inf))
                y[i] = rounded


def compare(probe, specs):
    """Judges (number, path) pairs both ways; returns the verdicts' counts and what differs."""
    counts, wrong = [0, 0], []
    process = subprocess.Popen(
        [probe, "judge"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with tempfile.TemporaryDirectory() as folder:
        for number, path in specs:
            text = oracle().read(str(path)).decode()
            prop = oracle().Property(text, "0")
            points = Points(prop, random.Random(number))
            if len(text) < LARGE or FULL:
                kinds = [i % KINDS for i in range(2 * KINDS)]
            else:
                kinds = [number % KINDS]
            rows = [points.draw(kind) for kind in kinds]
            n = prop.inputs
            expected = "".join("01"[prop.first_broken(row[:n], row[n:]) is None] for row in rows)
            file = pathlib.Path(folder, "points.bin")
            np.asarray(rows, dtype="<f4").tofile(file)
            process.stdin.write(f"{path} {file}\n")
            process.stdin.flush()
            got = process.stdout.readline().strip()
            for verdict in expected:
                counts[int(verdict)] += 1
            if got != expected:
                wrong.append(f"{path}: expected {expected}, got {got}")
        process.stdin.close()
        assert process.wait() == 0
    return counts, wrong


def test_verdicts_agree(probe):
    specs = list(enumerate(distinct_specs()))
    parts = [specs[i :: 8 * WORKERS] for i in range(8 * WORKERS)]
    with concurrent.futures.ProcessPoolExecutor(WORKERS) as pool:
        results = list(pool.map(compare, [probe] * len(parts), parts))
    wrong = [line for _, lines in results for line in lines]
    others, violations = (sum(counts[i] for counts, _ in results) for i in range(2))
    print(f"{len(specs)} specifications, {violations} violations, {others} others")
    assert not wrong, "\n".join(wrong[:10])
    assert specs and min(others, violations) > len(specs)
