"""Measurements, each with the commands that made it.

usage: run.py [throughput] [instances] [--seconds S] [--repeats N]

throughput   candidates per second of a gradient-only campaign (T = 10, B = 15, one thread) on the traffic-sign
             networks, interleaved with the plain PyTorch loop in ../shared/tools/reference_loop.py
instances    60-second campaigns over whole benchmarks, the default beside --mode batch-ani, every finding verified
             by ../shared/tools/verify_witness.py and compared with the known verdicts
Prints Markdown tables; everything goes to bench/results/<task>.json as well. Without ../shared only the shipped
examples are measured, alone.
"""

import argparse
import collections
import csv
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
PROGRAM = pathlib.Path(os.environ.get("GRAPESHOT_BUILD", ROOT / "build/release")) / "grapeshot"
PEER = ROOT / "build/peer"
SIGNS = SHARED / "vnncomp/2024_traffic_signs_recognition_2023"
BENCHMARKS = {"traffic signs": SIGNS, "acasxu": SHARED / "vnncomp/2025_acasxu_2023"}
GRADIENT_ONLY = "--weights gradient=1,boundary=0,random=0 --steps 10 --batch 15 --threads 1 --keep-going".split()


def run(command):
    """stdout of the command, which may end with 0 or 1."""
    print("  $", shlex.join(str(part) for part in command)[:200], file=sys.stderr, flush=True)
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode > 1:
        sys.exit(f"run.py: exit status {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def fuzz(arguments):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "run"
        summary = json.loads(run([PROGRAM, "fuzz", *arguments, "--json", "--quiet", "--out", out]))
        rows = list(csv.DictReader(open(out / "instances.csv")))
        verified = None
        if (SHARED / "tools/verify_witness.py").exists() and summary["findings"]:
            text = run([sys.executable, SHARED / "tools/verify_witness.py", "--run", out])
            verified = text.strip().splitlines()[-1]
        return summary, rows, verified


def peer_python():
    """The reference loop's own environment, made on first use."""
    python = PEER / "bin/python"
    if not python.exists():
        print(f"making {PEER} for the reference loop", file=sys.stderr)
        run([sys.executable, "-m", "venv", PEER])
        run([python, "-m", "pip", "install", "-q", "torch==2.13.0", "numpy", "onnx", "onnxruntime"])
        run([python, "-m", "pip", "install", "-q", "--no-deps", "onnx2torch"])
    return python


def spread(values):
    return f"{statistics.median(values):.0f} ({min(values):.0f}-{max(values):.0f})"


def throughput(seconds, repeats):
    if not SIGNS.is_dir():
        examples = ROOT / "examples/digits"
        summary, _, _ = fuzz([examples / "bnn.onnx", *sorted(examples.glob("vnnlib/bnn_*")), "--mode", "batch-iso",
                              *GRADIENT_ONLY, "--seconds", str(seconds)])
        print(f"digits/bnn: {summary['candidates_per_s']:.0f} candidates/s; the reference loop is not there")
        return {"digits/bnn": summary["candidates_per_s"]}
    python = peer_python()
    results = {}
    for size in (30, 48, 64):
        model = next(SIGNS.glob(f"onnx/3_{size}_*"))
        specs = sorted(SIGNS.glob(f"vnnlib/model_{size}_*"))
        unzipped = [str(path).removesuffix(".gz") for path in (model, *specs)]
        ours, theirs, loads = [], [], []
        for _ in range(repeats):
            loads.append(os.getloadavg()[0])
            summary, _, _ = fuzz([*unzipped, "--mode", "batch-iso", *GRADIENT_ONLY, "--seconds", str(seconds)])
            ours.append(summary["candidates_per_s"])
            text = run([python, SHARED / "tools/reference_loop.py", *unzipped, "--mode", "iso", "--operator",
                        "gradient", "--steps", "10", "--threads", "1", "--seconds", str(seconds)])
            theirs.append(json.loads(text)["cand_per_s"])
        results[f"{size}x{size}"] = {"grapeshot": ours, "reference": theirs, "load": loads, "specs": len(specs)}
    print(f"\nCandidates per second, gradient mutation only, T = 10, B = 15, one thread, {seconds:.0f} s, "
          f"median of {repeats} (lowest-highest), interleaved\n")
    print("| network | Grapeshot | plain PyTorch loop | ratio of medians |\n|---|---|---|---|")
    for name, r in results.items():
        ratio = statistics.median(r["grapeshot"]) / statistics.median(r["reference"])
        print(f"| traffic signs {name} | {spread(r['grapeshot'])} | {spread(r['reference'])} | {ratio:.2f} |")
    return results


def expected_verdicts(folder):
    with open(folder / "expected.csv") as file:
        return {(row["onnx"], row["vnnlib"]): row["verdict"] for row in csv.DictReader(file)}


def instances(seconds, _):
    results = {}
    if not SHARED.is_dir():
        summary, _, _ = fuzz(["--instances", ROOT / "examples/digits/instances.csv", "--seconds", str(seconds)])
        print(f"digits: {summary['instances_falsified']} of {summary['instances']} instances broken")
        return summary
    for name, folder in BENCHMARKS.items():
        verdicts = expected_verdicts(folder)
        for mode in ((), ("--mode", "batch-ani", "--keep-going")):
            summary, rows, verified = fuzz(["--instances", folder / "instances.csv", "--seconds", str(seconds), *mode])
            broken = collections.Counter()
            for row in rows:
                relative = tuple(os.path.relpath(row[key], folder).removesuffix(".gz") for key in ("model", "spec"))
                broken[verdicts[relative]] += row["verdict"] == "broken"
            known = collections.Counter(verdicts.values())
            results[f"{name} {' '.join(mode) or 'default'}"] = {
                "summary": summary, "broken": broken, "known": known, "verified": verified}
    print(f"\nCampaigns of {seconds:.0f} s over all instances together\n")
    print("| benchmark | options | known sat broken | unsat broken | violations | distinct | inputs/s | witnesses that hold "
          "in ONNX Runtime |\n|---|---|---|---|---|---|---|---|")
    for name, r in results.items():
        s = r["summary"]
        benchmark = next(b for b in BENCHMARKS if name.startswith(b))
        print(f"| {benchmark} | {name.removeprefix(benchmark).strip()} | {r['broken']['sat']} of {r['known']['sat']} | "
              f"{r['broken']['unsat']} | {s['violations']:,} | {s['distinct_violations']:,} | "
              f"{s['inputs_checked_per_s']:,.0f} | {(r['verified'] or 'none').removesuffix(' witnesses hold')} |")
    return results


TASKS = {"throughput": (throughput, 30.0), "instances": (instances, 60.0)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", metavar="TASK", help=", ".join(TASKS))
    parser.add_argument("--seconds", type=float, help="of one measurement (throughput 30, instances 60)")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    unknown = set(arguments.tasks) - set(TASKS)
    if unknown:
        parser.error(f"no task is called {', '.join(sorted(unknown))}; known: {', '.join(TASKS)}")
    folder = ROOT / "bench/results"
    folder.mkdir(exist_ok=True)
    for name in arguments.tasks or TASKS:
        task, seconds = TASKS[name]
        result = task(arguments.seconds or seconds, arguments.repeats)
        (folder / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
