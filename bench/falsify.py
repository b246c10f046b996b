"""Every instance of the VNN-COMP folders: `grapeshot vnncomp` with its table, and each counterexample
checked by ../shared/tools/verify_witness.py, which shares no code with ours, at slack 0.

Without ../shared: examples/digits, unchecked.
"""

import csv
import importlib.util
import json
import statistics

import common

VERIFY = common.SHARED / "tools" / "verify_witness.py"
UNKNOWN_S, UNSAT_S = 10, 5


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
        "table": common.table(head, lines),
    }
