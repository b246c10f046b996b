"""What a minute finds: campaigns over whole benchmark families, by default and as in the paper.

Every finding is checked by ../shared/tools/verify_witness.py, every broken instance against the
known verdicts of expected.csv. Without ../shared: examples/digits, unchecked.
"""

import csv
import json
import shutil
import sys

import common

FAMILIES = {
    "traffic signs": "2024_traffic_signs_recognition_2023",
    "acasxu": "2025_acasxu_2023",
}
MODES = {"default": [], "batch-ani": ["--mode", "batch-ani", "--keep-going"]}
VERIFY = common.SHARED / "tools" / "verify_witness.py"


def known_verdicts(folder):
    path = folder / "expected.csv"
    if not path.exists():
        return {}
    rows = csv.DictReader(path.read_text().splitlines())
    return {(row["onnx"], row["vnnlib"]): row["verdict"] for row in rows}


def broken(folder, out):
    """(onnx, vnnlib), as the family's instances.csv names them, of every instance that broke."""
    rows = csv.DictReader((common.ROOT / out / "instances.csv").read_text().splitlines())
    names = [
        tuple(plain(row[k]).relative_to(folder.resolve()) for k in ("model", "spec"))
        for row in rows
        if row["verdict"] == "broken"
    ]
    return {(str(model), str(spec)) for model, spec in names}


def plain(path):
    return (common.ROOT / path.removesuffix(".gz")).resolve()


def verify(out):
    """(witnesses that hold, all of them) by a program that shares no code with ours."""
    if not VERIFY.exists():
        return None
    said, _, _ = common.execute([sys.executable, common.relative(VERIFY), "--run", out], (0, 1))
    words = said.strip().splitlines()[-1].split()  # "41 of 41 witnesses hold"
    return int(words[0]), int(words[2])


def campaign(family, folder, mode, seconds):
    out = common.relative(common.RUNS / f"{family.replace(' ', '-')}-{mode}")
    shutil.rmtree(common.ROOT / out, ignore_errors=True)
    command = [
        *(common.relative(common.PROGRAM), "fuzz"),
        *("--instances", common.relative(folder / "instances.csv"), *MODES[mode]),
        *("--seconds", f"{seconds:g}", "--out", out),
    ]
    before = common.load()
    said, _, _ = common.execute([*command, "--json", "--quiet"], (0, 1))
    summary = json.loads(said)
    verdicts, found, witnesses = known_verdicts(folder), broken(folder, out), verify(out)
    verdict = [verdicts.get(key, "unknown") for key in found]
    keys = (
        *("instances", "instances_falsified", "violations", "distinct_violations", "candidates"),
        *("candidates_per_s", "inputs_checked", "inputs_checked_per_s", "ttfv_s", "seconds"),
    )
    one = {
        "family": family,
        "mode": mode,
        **{k: summary[k] for k in keys},
        "known_sat": sum(v == "sat" for v in verdicts.values()),
        "sat_broken": verdict.count("sat"),
        "unsat_broken": verdict.count("unsat"),
        "witnesses_hold": witnesses and witnesses[0],
        "witnesses": witnesses and witnesses[1],
        "load_before": before,
        "command": " ".join(command),
    }
    common.say(
        f"{family}, {mode}: {one['instances_falsified']} of {one['instances']} broken, "
        f"{one['violations']} violations, load {before}"
    )
    return one


def run(seconds, repeats):
    del repeats  # a campaign is one number; its seed is fixed
    folders = {n: common.SHARED / "vnncomp" / f for n, f in FAMILIES.items()}
    if not all(folder.is_dir() for folder in folders.values()):
        common.say("../shared is not there: measuring on examples/digits")
        folders = {"digits": common.ROOT / "examples" / "digits"}
    runs = [campaign(n, f, mode, seconds) for n, f in folders.items() for mode in MODES]
    wrong = sum(
        r["unsat_broken"] + (r["witnesses"] or 0) - (r["witnesses_hold"] or 0) for r in runs
    )
    head = ["family", "mode", "broken", "known sat broken", "unsat broken", "witnesses verified"]
    head += ["violations", "distinct", "candidates/s"]
    rows = [
        [
            *(r["family"], r["mode"], f"{r['instances_falsified']} of {r['instances']}"),
            *(f"{r['sat_broken']} of {r['known_sat']}", r["unsat_broken"]),
            "-" if r["witnesses"] is None else f"{r['witnesses_hold']} of {r['witnesses']}",
            *(r["violations"], r["distinct_violations"], f"{r['candidates_per_s']:.0f}"),
        ]
        for r in runs
    ]
    return {"runs": runs, "wrong": wrong, "table": common.table(head, rows)}
