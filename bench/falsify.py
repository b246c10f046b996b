"""Every instance of the VNN-COMP folders: `grapeshot vnncomp` with its table, and each counterexample
checked by ../shared/tools/verify_witness.py, which shares no code with ours, at slack 0. A sample of
the known `sat` instances is run once more beside ../shared/tools/pgd_probe.py, projected gradient
descent in plain PyTorch: a process an instance for both, in turn.

Without ../shared: examples/digits, unchecked.
"""

import concurrent.futures
import csv
import importlib.util
import json
import os
import pathlib
import random
import statistics
import tempfile

import common
import throughput

VERIFY = common.SHARED / "tools" / "verify_witness.py"
PROBE = common.SHARED / "tools" / "pgd_probe.py"
UNKNOWN_S, UNSAT_S = 10, 5
SAMPLE, SEED, SAMPLE_S = 100, 7, 20


def checker():
    """verify_witness.check, or None."""
    if not VERIFY.exists():
        return None
    spec = importlib.util.spec_from_file_location("verify_witness", VERIFY)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def verify(rows, folder):
    """(witnesses that hold, all of them, those that do not)."""
    module = checker()
    if not module:
        return None
    bad, count = [], 0
    for row in rows:
        if row["answer"] != "sat":
            continue
        count += 1
        place = folder / row["category"] if (folder / row["category"]).is_dir() else folder
        x = module.load_witness(str(common.ROOT / row["witness"]))
        good, why = module.check(str(place / row["onnx"]), str(place / row["vnnlib"]), x, "0")
        if not good:
            bad.append([row["category"], row["onnx"], row["vnnlib"], why])
        module.SPECS.clear()
    return count - len(bad), count, bad


def ours_on(row, place):
    """(broken, wall seconds)."""
    command = [
        *(common.relative(common.PROGRAM), "falsify", str(place / row["onnx"])),
        *(str(place / row["vnnlib"]), "--timeout", str(SAMPLE_S), "--threads", "1", "--json"),
    ]
    said, wall, _ = common.execute(command, (0, 1))
    return json.loads(said)["answer"] == "sat", wall


def probe_on(row, place, python):
    """The same of pgd_probe.py, in a folder that holds this instance alone; None: it cannot."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for part in ("onnx", "vnnlib"):
            (folder / part).symlink_to(place / part)
        head, *lines = (place / "expected.csv").read_text().splitlines()
        wanted = f"{row['onnx']},{row['vnnlib']},"
        mine = [line for line in lines if line.startswith(wanted)]
        (folder / "expected.csv").write_text("\n".join([head, *mine]) + "\n")
        command = [str(python), str(PROBE), name, "--seconds", str(SAMPLE_S), "--threads", "1"]
        said, wall, _ = common.execute(command, (0, 1))
    return None if " ERROR " in said else (" SAT " in said, wall)


def beside_probe(rows, folder):
    """A table of both on a sample, or None."""
    if not PROBE.exists():
        return None
    python = throughput.set_up_peer().absolute()
    known = [r for r in rows if r["expected"] == "sat" and (folder / r["category"]).is_dir()]
    sample = random.Random(SEED).sample(known, min(SAMPLE, len(known)))

    def both(row):
        place = (folder / row["category"]).absolute()
        return ours_on(row, place), probe_on(row, place, python)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        pairs = list(pool.map(both, sample))
    ours, theirs = [p[0] for p in pairs], [p[1] for p in pairs]
    ran = [t for t in theirs if t is not None]
    line = lambda name, results, failed: [  # noqa: E731
        *(name, f"{sum(r[0] for r in results)} of {len(sample)}", failed),
        *(f"{statistics.median(r[1] for r in results if r[0]):.2f}",),
    ]
    head = ["of a sample", f"broken in {SAMPLE_S} s", "does not load", "median s of those"]
    lines = [line("grapeshot", ours, 0), line("pgd_probe.py", ran, len(sample) - len(ran))]
    return {"sample": [r["vnnlib"] for r in sample], "pairs": pairs, "table": common.table(head, lines)}


def run(seconds, repeats):
    del repeats
    folder = common.SHARED / "vnncomp"
    if not folder.is_dir():
        common.say("../shared is not there: measuring on examples/digits")
        folder = common.ROOT / "examples" / "digits"
    out = common.RUNS / "falsify.csv"
    out.parent.mkdir(parents=True, exist_ok=True)
    timeouts = f"sat={seconds:g},unknown={UNKNOWN_S},unsat={UNSAT_S}"
    command = [
        *(common.relative(common.PROGRAM), "vnncomp", common.relative(folder)),
        *("--timeouts", timeouts, "--csv", common.relative(out), "--resume", "--json"),
    ]
    before = common.load()
    said = json.loads(common.execute(command, (0, 1))[0])
    rows = list(csv.DictReader(out.read_text().splitlines()))
    verified = verify(rows, folder)
    total = said["total"]
    head = ["benchmark", "known `sat` broken", "`unknown` broken", "`unsat` broken"]
    head += ["median s", "of it search", "faster than the best tool"]

    def line(name, t):
        number = lambda v: "-" if v is None else f"{v:.2f}"  # noqa: E731
        return [
            *(name, f"{t['sat_broken']} of {t['sat']}", f"{t['unknown_broken']} of {t['unknown']}"),
            f"{t['unsat_broken']} of {t['unsat']}",
            *(number(t["median_wall_s"]), number(t["median_search_s"])),
            f"{t['faster_than_best']} of {t['compared_with_best']}",
        ]

    lines = [line(name, t) for name, t in said.get("categories", {}).items()]
    lines.append(line("**all**", total))
    probe = beside_probe(rows, folder)
    walls = [float(r["wall_s"]) for r in rows if r["answer"] == "sat"]
    if verified:
        common.say(f"{verified[0]} of {verified[1]} counterexamples hold by verify_witness.py")
    return {
        "command": " ".join(command),
        "load_before": before,
        "total": total,
        "missed": said["missed"],
        "unknown_broken": said["unknown_broken"],
        "unsat_broken": said["unsat_broken"],
        "witnesses": verified,
        "median_wall_s": statistics.median(walls) if walls else None,
        "wrong": len(verified[2]) if verified else 0,
        "probe": probe,
        "table": common.table(head, lines) + (f"\n\n{probe['table']}" if probe else ""),
    }
