"""Large specifications: the time and the memory that reading one takes are in proportion to it.

Needs GRAPESHOT_BUILD, a build folder with spec_probe. The measure of time is the processor's, which
other work on the machine changes less than a clock.
"""

import gzip
import os
import pathlib
import subprocess

import pytest
from program import DIGITS

BUILD = pathlib.Path(os.environ.get("GRAPESHOT_BUILD", "none"))
SHARED = pathlib.Path(os.environ.get("GRAPESHOT_SHARED", DIGITS.parents[2] / "shared"))
MANY_BYTES = 98_000_000

pytestmark = pytest.mark.skipif(
    not (BUILD / "spec_probe").exists(), reason="GRAPESHOT_BUILD names no folder with spec_probe"
)


def measure(path):
    """(inputs, outputs, regions, cases), seconds of processor time and most MiB held."""
    out = subprocess.check_output([BUILD / "spec_probe", "shape", path], text=True)
    assert not out.startswith("error:"), out
    *shape, seconds, mib = out.split()
    print(f"{path.name}: {path.stat().st_size} bytes, {seconds} s, {mib} MiB")
    return tuple(map(int, shape)), float(seconds), int(mib)


def declarations(x, y):
    names = [f"X_{i}" for i in range(x)] + [f"Y_{i}" for i in range(y)]
    return "".join(f"(declare-const {name} Real)\n" for name in names)


def bounds(x):
    return [f"(<= X_{i} {0.5 + i / 1000:.12f}) (>= X_{i} -0.25)" for i in range(x)]


def repeated(part):
    return part * (MANY_BYTES // len(part))


def one_box_many_cases():
    fixed = "".join(f"(assert (and {each}))\n" for each in bounds(24))
    return declarations(24, 2) + fixed, "    (and (<= Y_0 0.5) (>= Y_1 0.25)" + " " * 80 + ")\n"


def many_boxes():
    part = "".join(
        "(and " + " ".join([f"(<= X_0 0.4{k})", *bounds(24)]) + " (<= Y_0 Y_1))\n" for k in range(9)
    )
    return declarations(24, 2), part


def wide_boxes():
    part = "(and " + " ".join(bounds(10_000)) + " (<= Y_0 Y_1))\n"
    return declarations(10_000, 2), part


@pytest.mark.parametrize("form", [one_box_many_cases, many_boxes, wide_boxes])
def test_a_98_mb_specification(tmp_path, form):
    head, part = form()
    path = tmp_path / "large.vnnlib"
    path.write_text(head + "(assert (or\n" + repeated(part) + "))\n")
    (_, outputs, regions, cases), seconds, mib = measure(path)
    assert outputs == 2
    assert regions == (9 if form is many_boxes else 1)
    assert cases == repeated(part).count("(and")
    assert seconds < 4
    assert mib < 1024


def test_the_same_assertions_over_and_over(tmp_path):
    path = tmp_path / "large.vnnlib"
    part = "".join(f"(assert (and {each}))\n" for each in bounds(1000))
    path.write_text(declarations(1000, 2) + repeated(part) + "(assert (<= Y_0 Y_1))\n")
    shape, seconds, mib = measure(path)
    assert shape == (1000, 2, 1, 1)
    assert seconds < 4
    assert mib < 1024


def test_the_shortest_relations(tmp_path):
    path = tmp_path / "large.vnnlib"
    short = "(and" + repeated("(<= X_0 1)") + "(>= X_0 0))"
    path.write_text(declarations(1, 1) + f"(assert {short})(assert (<= Y_0 0))\n")
    shape, seconds, mib = measure(path)
    assert shape == (1, 1, 1, 1)
    assert seconds < 4
    assert mib < 1024


def test_the_largest_vnncomp_specification():
    files = (SHARED / "vnncomp").rglob("*.vnnlib.gz")
    path = max(files, key=lambda file: file.stat().st_size, default=None)
    if path is None:
        pytest.skip(f"no vnncomp in {SHARED}")
    assert len(gzip.decompress(path.read_bytes())) > 1_400_000
    _, seconds, mib = measure(path)
    assert seconds < 0.1
    assert mib < 64
