#!/usr/bin/env python3
"""Writes docs/reference/operators.md from the program's tables and the test cases of the onnx package.

The table of other programs is what `./dev bench conformance` left in bench/results/conformance.json.
"""

import argparse
import collections
import json
import pathlib
import re
import sys

import conformance
import nets

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "operators.md"
MEASURED = ROOT / "bench" / "results" / "conformance.json"
ORDER = ("float16", "float", "double", "bfloat16", "int8", "int16", "int32", "int64", "uint8")
HEAD = """# ONNX operators

`tools/make_operator_reference.py` writes this page from the program's tables (`grapeshot list operators`,
`grapeshot list excluded-operators`), the test cases of the onnx package and the last `./dev bench conformance`.

"""
CASES = """## Test cases of the onnx package

The 1,653 cases of operators in onnx 1.20.1, read from its wheel as they are: types and shapes have to be equal,
numbers within 0.1 % or 1e-7. {main} cases have tensors of float16, float32, float64, int8, int32, int64, uint8 and
bool alone. Every program got the same files; those that came out otherwise are listed below for grapeshot.

    ./dev bench conformance

{table}

onnx2torch and onnx2pytorch ran without torchvision, which a few of their operators ask for.

### What does not pass

| cases | why |
|---|---|
{failures}

"""
OPERATORS = """## Operators

From the opset on that is named, up to 26. Types are those of inputs in the cases that pass; others may do. Every
operator runs on many rows at once; where no gradient is named its outputs are whole numbers, truths, or fixed by
shapes.

| operator | since opset | gradient | types | |
|---|---:|---|---|---|
{rows}

"""
EXCLUDED = """## Not implemented

| operator | why |
|---|---|
{rows}
"""


# Why cases differ where both sides mean what they say.
DISPUTED = {
    r"test_adam_multiple": "The case was computed with another epsilon than its file leaves it at.",
    r"test_attention_.*softcap": "Written before the definition was revised: the cap comes before the mask now.",
    r"test_equal_string.*": "Texts, as those of the operators left out.",
    r"test_dft_inverse.*": "Rounding around 0, beyond 1e-7.",
    r"test_l2normalization_axis_0": "0 / 0, which is 0 here, as the newer definition has it.",
    r"test_resize_downsample_scales_.*_align_corners": "Corners of the whole size of the result, as in ONNX Runtime.",
}


def listed(family):
    done = nets.grapeshot("list", family, "--json")
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)[family]


def types_of(cases):
    """Operator -> types of the inputs of its passing cases, those that are one node."""
    import onnx

    names = {code: name.lower() for name, code in onnx.TensorProto.DataType.items()}
    out = collections.defaultdict(set)
    for case in cases:
        if case["result"] != "pass" or len(case["operators"]) != 1:
            continue
        graph = onnx.load(conformance.DATA / case["case"] / "model.onnx").graph
        for port in graph.input:
            if port.type.WhichOneof("value") == "tensor_type":
                out[case["operators"][0]].add(names[port.type.tensor_type.elem_type])
    return out


def reason_of(case, excluded):
    """Why a case does not pass, in a sentence."""
    for name in case["operators"]:
        if name in excluded:
            return f"{name}: {excluded[name]}"
    for pattern, why in DISPUTED.items():
        if re.fullmatch(pattern, case["case"]):
            return why
    return case["reason"].split("): ", 1)[-1].replace("|", "\\|").replace("\n", " ")


def failures(cases):
    """Lines of the cases that do not pass, joined by their reasons."""
    excluded = {row["name"]: row["summary"] for row in listed("excluded-operators")}
    groups = collections.defaultdict(list)
    for case in cases:
        if case["result"] != "pass":
            groups[reason_of(case, excluded)].append(case["case"].removeprefix("test_"))
    return "\n".join(f"| {', '.join(names)} | {reason} |" for reason, names in sorted(groups.items()))


def operator_rows(types):
    def cells(row):
        known = types.get(row["name"], set())
        sorted_types = sorted(known, key=lambda t: (ORDER.index(t) if t in ORDER else len(ORDER), t))
        gradient = "yes" if row["gradient"] else ""
        return [row["name"], row["since"], gradient, ", ".join(sorted_types), row["summary"].replace("|", "\\|")]

    rows = sorted(listed("operators"), key=lambda row: row["name"].lower())
    return "\n".join("| " + " | ".join(map(str, cells(row))) + " |" for row in rows)


def excluded_rows():
    return "\n".join(f"| {row['name']} | {row['summary']} |" for row in listed("excluded-operators"))


def main():
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    cases = conformance.answers()
    table = json.loads(MEASURED.read_text())["table"]
    page = HEAD + CASES.format(
        main=f"{sum(case['main'] for case in cases):,}", table=table, failures=failures(cases)
    )
    page += OPERATORS.format(rows=operator_rows(types_of(cases))) + EXCLUDED.format(rows=excluded_rows())
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
