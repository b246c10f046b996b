"""Candidates a second, gradient mutation only, beside the paper's loop in plain PyTorch.

T = 10 gradient steps, B = 15 rows, one thread each, the runs interleaved. The peer is
../shared/tools/reference_loop.py on the three traffic-sign networks with their 15 specifications
each; without it only grapeshot is measured, on the networks in examples/digits.
"""

import csv
import json
import shutil
import statistics
import subprocess
import sys

import common

FAMILY = common.SHARED / "vnncomp" / "2024_traffic_signs_recognition_2023"
LOOP = common.SHARED / "tools" / "reference_loop.py"
PEER = common.ROOT / "build" / "peer"
PACKAGES = {"torch": "2.13.0", "numpy": "", "onnx": "", "onnxruntime": "", "onnx2torch": ""}
OURS, THEIRS = "grapeshot", "reference_loop.py"


def has_packages(python):
    code = f"import importlib.metadata as m; [m.version(p) for p in {list(PACKAGES)}]"
    return subprocess.run([python, "-c", code], capture_output=True).returncode == 0


def set_up_peer():
    """The reference's own environment, made once in build/peer."""
    python = PEER / "bin" / "python"
    if python.exists() and has_packages(python):
        return python
    common.say("Making an environment for the reference in build/peer: PyTorch, ONNX, onnx2torch")
    subprocess.run([sys.executable, "-m", "venv", PEER], check=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    torch = f"torch=={PACKAGES['torch']}"
    common.say(f"pip install {torch}, the build for processors where pip's sources offer it")
    if subprocess.run([*pip, f"{torch}+cpu"], capture_output=True).returncode:
        subprocess.run([*pip, torch], check=True)
    common.say("pip install numpy onnx onnxruntime, and onnx2torch without what it asks for")
    subprocess.run([*pip, "numpy", "onnx", "onnxruntime"], check=True)
    subprocess.run([*pip, "--no-deps", "onnx2torch"], check=True)
    return python


def networks(folder):
    """[(model, its specifications)] of an instances.csv, paths from the project's folder."""
    grouped = {}
    for model, spec, *_ in csv.reader((folder / "instances.csv").read_text().splitlines()):
        grouped.setdefault(model, []).append(common.relative(folder / spec))
    return [(common.relative(folder / model), specs) for model, specs in grouped.items()]


def our_command(model, specs, seconds):
    return [
        *(common.relative(common.PROGRAM), "fuzz", model, *specs, "--mode", "batch-iso"),
        *("--weights", "gradient=1,boundary=0,random=0", "--steps", "10", "--batch", "15"),
        *("--threads", "1", "--precision", "float32", "--keep-going", "--seconds", f"{seconds:g}", "--json", "--quiet"),
        *("--out", common.relative(common.RUNS / "throughput")),
    ]


def their_command(python, model, specs, seconds):
    return [
        *(common.relative(python), common.relative(LOOP), model, *specs, "--mode", "iso"),
        *("--operator", "gradient", "--steps", "10", "--threads", "1"),
        *("--seconds", f"{seconds:g}"),
    ]


def measure(who, command):
    shutil.rmtree(common.RUNS / "throughput", ignore_errors=True)
    before = common.load()
    out, wall, used = common.execute(command, check=(0, 1))
    said = json.loads(out if who == OURS else out.strip().splitlines()[-1])
    rate = said["candidates_per_s" if who == OURS else "cand_per_s"]
    common.say(f"{who:>17}: {rate:8.1f} candidates/s, load {before}, {used / wall:.0%} of a core")
    return {
        "who": who,
        "candidates_per_s": rate,
        "candidates": said["candidates"],
        "violations": said["violations"],
        "load_before": before,
        "processor_share": round(used / wall, 3),
        "command": " ".join(command),
    }


def short(model):
    """3_30_30_QConv_... -> 30x30."""
    name = model.rsplit("/", 1)[-1].removesuffix(".onnx")
    parts = name.split("_")
    return f"{parts[1]}x{parts[2]}" if parts[0] == "3" and len(parts) > 3 else name


def run(seconds, repeats):
    compares = FAMILY.is_dir() and LOOP.exists()
    if compares:
        python, nets = set_up_peer(), networks(FAMILY)
    else:
        common.say("../shared is not there, and with it the peer: measuring grapeshot alone")
        nets = networks(common.ROOT / "examples" / "digits")
    runs, rows = [], []
    for model, specs in nets:
        common.say(f"{short(model)}: {len(specs)} specifications")
        measured = {OURS: [], THEIRS: []}
        for _ in range(repeats):
            pairs = [(OURS, our_command(model, specs, seconds))]
            if compares:
                pairs.append((THEIRS, their_command(python, model, specs, seconds)))
            for who, command in pairs:
                one = measure(who, command)
                runs.append({"network": short(model), **one})
                measured[who].append(one["candidates_per_s"])
        ours = statistics.median(measured[OURS])
        row = [short(model), f"{ours:.1f}"]
        if compares:
            theirs = statistics.median(measured[THEIRS])
            row += [f"{theirs:.1f}", f"{ours / theirs:.2f}"]
        rows.append(row)
    head = ["network", "grapeshot"] + (["reference", "ratio"] if compares else [])
    return {
        "runs": runs,
        "medians": [dict(zip(head, row, strict=True)) for row in rows],
        "table": common.table(head, rows),
    }
