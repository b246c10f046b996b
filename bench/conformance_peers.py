"""Test cases of operators of the onnx package, by grapeshot and by others that read ONNX files.

Every program gets the same files (tools/conformance.py fetches them) and is judged by the same rule, types
and shapes included. The converters to PyTorch are installed once in build/conformance-packages, without
torchvision, in whose place stands a stub.
"""

import importlib.metadata
import json
import os
import subprocess
import sys

import common

sys.path.insert(0, str(common.ROOT / "tools"))
import conformance

PACKAGES = common.ROOT / "build" / "conformance-packages"
CONVERTERS = ("onnx2torch==1.5.15", "onnx2pytorch==0.6.0")
RIVALS = {
    "ONNX Runtime": ("onnx_runtime", "onnxruntime"),
    "onnx.reference": ("reference", "onnx"),
    "onnx2torch": ("onnx2torch", "onnx2torch"),
    "onnx2pytorch": ("onnx2pytorch", "onnx2pytorch"),
}


def install():
    if not PACKAGES.exists():
        common.say(f"pip install {' '.join(CONVERTERS)} into {common.relative(PACKAGES)}")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(PACKAGES)]
        subprocess.run([*pip, *CONVERTERS, "tabulate"], check=True)
    sys.path.append(str(PACKAGES))


def contest(name, folders):
    """{case: result} of another program; one that a case ends goes on behind it."""
    script = common.ROOT / "bench" / "conformance_rival.py"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(PACKAGES)}
    results, left = {}, list(folders)
    while left:
        paths = "\n".join(map(str, left)) + "\n"
        done = subprocess.run(
            [sys.executable, script, name], input=paths, capture_output=True, text=True, env=environment
        )
        said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"case"')]
        results |= {case["case"]: case["result"] for case in said}
        left = left[len(said) :]
        if left:
            common.say(f"{name}: ended by {left[0].name} (status {done.returncode})")
            results[left.pop(0).name] = "crash"
    return results


def row(name, results, main):
    passed = {case for case, result in results.items() if result == "pass"}
    crashes = sum(result == "crash" for result in results.values())
    return [name, len(passed & main), f"{len(passed & main) / len(main):.1%}", len(passed), crashes]


def run(seconds, repeats):
    install()
    own = conformance.answers()
    main = {case["case"] for case in own if case["main"]}
    folders = sorted(conformance.fetch().iterdir())
    results = {"grapeshot": {case["case"]: case["result"] for case in own}}
    rows = [row("grapeshot", results["grapeshot"], main)]
    for title, (name, package) in RIVALS.items():
        common.say(f"{title} on {len(folders)} cases")
        results[name] = contest(name, folders)
        rows.append(row(f"{title} {importlib.metadata.version(package)}", results[name], main))
    head = ["program", f"of {len(main)} with numeric and bool tensors", "share", f"of all {len(own)}", "crashes"]
    return {"runs": results, "table": common.table(head, rows)}
