"""docs/reference/operators.md and the tables that it is made from, beside the onnx package's own list."""

import json
import re
import sys

import onnx.defs
import pytest
from conftest import ROOT
from program import grapeshot, needs_program

sys.path.insert(0, str(ROOT / "tools"))

pytestmark = needs_program
NEWEST = 25  # opsets from 7 on are promised up to here
PAGE = ROOT / "docs" / "reference" / "operators.md"


def listed(family):
    return json.loads(grapeshot("list", family, "--json", status=0).stdout)[family]


def rows(heading):
    """The cells of the table under a heading."""
    text = PAGE.read_text().split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")][1:]
    return [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_every_operator_of_onnx_runs_or_is_left_out_for_a_reason():
    done = {row["name"] for row in listed("operators")}
    excluded = {row["name"]: row["summary"] for row in listed("excluded-operators")}
    schemas = [s for s in onnx.defs.get_all_schemas_with_history() if s.domain == ""]
    known = {s.name for s in schemas if s.since_version <= NEWEST}
    assert known - done - set(excluded) == set()
    assert not done & set(excluded)
    assert all(reason.endswith(".") for reason in excluded.values())


def test_an_operator_is_there_from_opset_7_on_or_from_its_first():
    first = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            first[schema.name] = min(first.get(schema.name, 99), schema.since_version)
    late = {
        row["name"]: row["since"]
        for row in listed("operators")
        if row["name"] in first and row["since"] > max(7, first[row["name"]])
    }
    # Of these an older definition was of training, or never came out of its draft.
    assert late.keys() <= {"GroupNormalization"}


def test_the_page_is_what_the_tables_say():
    said = {(row[0], row[1], row[2]) for row in rows("Operators")}
    told = {
        (row["name"], str(row["since"]), "yes" if row["gradient"] else "") for row in listed("operators")
    }
    assert said == told
    assert {tuple(row) for row in rows("Not implemented")} == {
        (row["name"], row["summary"]) for row in listed("excluded-operators")
    }


def test_the_page_has_the_counts_that_the_cases_give():
    import conformance

    if not (conformance.build_folder() / "conformance_probe").exists():
        pytest.skip("conformance_probe is not built")
    try:
        cases = conformance.answers(quiet=True)
    except OSError as error:
        pytest.skip(str(error))
    passed = [case for case in cases if case["result"] == "pass"]
    main = sum(case["main"] for case in passed)
    row = next(r for r in rows("Test cases of the onnx package") if r[0] == "grapeshot")
    assert row[1] == str(main) and row[3] == str(len(passed))
