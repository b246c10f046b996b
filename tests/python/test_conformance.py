"""The onnx package's own test cases of operators, run through the importer as they are."""

import collections
import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import conformance  # noqa: E402

ALL, MAIN = 1653, 1352
PASS, PASS_MAIN = 1594, 1319  # no fewer than these


@pytest.fixture(scope="module")
def cases():
    if not (conformance.build_folder() / "conformance_probe").exists():
        pytest.skip("conformance_probe is not built")
    try:
        return conformance.answers(quiet=True)
    except OSError as error:
        pytest.skip(str(error))


def test_all_cases_are_there(cases):
    assert len(cases) == ALL
    assert sum(c["main"] for c in cases) == MAIN


def test_none_crashes_or_hangs(cases):
    ended = [c for c in cases if c["result"] in ("crash", "hang")]
    assert not ended


def test_as_many_pass_as_the_documents_say(cases):
    passed = [c for c in cases if c["result"] == "pass"]
    counts = collections.Counter(c["result"] for c in cases)
    assert len(passed) >= PASS, counts
    assert sum(c["main"] for c in passed) >= PASS_MAIN, counts
