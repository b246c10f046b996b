"""The parser's verdicts against verify_witness.Property, which walks S-expressions in rationals.

Needs GRAPESHOT_BUILD (a build folder with spec_probe) and the shared folder (GRAPESHOT_SHARED, or
../shared beside the project); skips without them. Every distinct specification is judged at points
inside its boxes, in corners, on bounds, one float outside, with outputs that tie and that just miss.
vector_vnnlib judges them all; Property itself, too slow for that, judges a sample of every file, and
has to agree. GRAPESHOT_ORACLE=full: 2,000 points a file, which takes some five minutes of two cores.
"""

import concurrent.futures
import functools
import hashlib
import importlib.util
import os
import pathlib
import subprocess
import tempfile

import pytest
from conftest import ROOT

np = pytest.importorskip("numpy")
pytest.importorskip("onnxruntime")  # verify_witness imports it

SHARED = pathlib.Path(os.environ.get("GRAPESHOT_SHARED", ROOT.parent / "shared"))
FULL = os.environ.get("GRAPESHOT_ORACLE") == "full"
LARGE = 50_000  # bytes of text
WORKERS = min(4, os.cpu_count() or 1)


class Effort:
    """How much is done with a text of that size."""

    def __init__(self, size):
        self.points = 2000 if FULL else 240 if size < LARGE else 24
        self.choices = min(self.points // 6, 80)  # of disjuncts
        self.sampled = (24 if FULL else 3) if size < LARGE else (4 if FULL else 1)


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


def compare(probe, specs):
    """Judges (number, path) pairs both ways; returns the verdicts' counts and what differs."""
    vector_vnnlib = importlib.import_module("vector_vnnlib")  # in a process of its own
    counts, wrong = np.zeros(3, dtype=int), []
    process = subprocess.Popen(
        [probe, "judge"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with tempfile.TemporaryDirectory() as folder:
        for number, path in specs:
            text = oracle().read(str(path)).decode()
            effort, rng = Effort(len(text)), np.random.default_rng(number)
            prop = oracle().Property(text, "0")
            judge = vector_vnnlib.Judge(prop)
            x, y = vector_vnnlib.Points(judge, prop, rng).draw(effort.points, effort.choices)
            expected = judge.violates(x, y)
            for i in rng.choice(len(x), effort.sampled, replace=False):
                if (prop.first_broken(x[i], y[i]) is None) != expected[i]:
                    wrong.append(f"{path}: the judges differ at point {i}")
            file = pathlib.Path(folder, "points.bin")
            np.concatenate([x, y], axis=1).astype("<f4").tofile(file)
            process.stdin.write(f"{path} {file}\n")
            process.stdin.flush()
            got = process.stdout.readline().strip()
            if got != "".join("01"[verdict] for verdict in expected.astype(int)):
                wrong.append(f"{path}: expected {expected.astype(int)}, got {got}")
            counts += [len(x) - expected.sum(), expected.sum(), effort.sampled]
        process.stdin.close()
        assert process.wait() == 0
    return counts, wrong


def test_verdicts_agree(probe):
    specs = list(enumerate(distinct_specs()))
    parts = [specs[i :: 8 * WORKERS] for i in range(8 * WORKERS)]
    with concurrent.futures.ProcessPoolExecutor(WORKERS) as pool:
        results = list(pool.map(compare, [probe] * len(parts), parts))
    wrong = [line for _, lines in results for line in lines]
    others, violations, sampled = sum(counts for counts, _ in results)
    print(
        f"{len(specs)} specifications, {violations} violations, {others} others; "
        f"{sampled} of these points judged by Property itself"
    )
    assert not wrong, "\n".join(wrong[:10])
    assert specs and min(others, violations) > len(specs)
