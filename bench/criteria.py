"""Do coverage criteria find faults? Every criterion as driver of campaigns, beside none.

A campaign's score is the area under the share of instances broken against time, over the whole window: 1 would be
all of them at once, 0 none. Windows of one processor each, as many at a time as there are processors, drivers in
turn. Statistics of the networks are those of inputs drawn uniformly from the boxes of their specifications (500 a
network), for the digits of the 64 shipped images.
"""

import concurrent.futures
import csv
import json
import os
import re
import shutil
import statistics
import zlib

import common
import throughput
from paper_tables import benjamini_hochberg, mann_whitney

NETWORKS = 8  # of acasxu, so that each has some time
INPUTS = 500
PAGE = common.ROOT / "docs/results/criteria.md"
CHEAP = ("nc", "kmnc", "nbc", "snac", "tknc", "nc-scaled", "bknc", "tknp")
ROWS = 4096  # inputs whose coverage is timed


def known_sat(folder):
    path = folder / "expected.csv"
    if not path.exists():
        return None
    rows = csv.DictReader(path.read_text().splitlines())
    return {(r["onnx"], r["vnnlib"]) for r in rows if r["verdict"] == "sat"}


def of_folder(folder):
    """[(model, specifications)], only those known to have a counterexample where that is known."""
    known, found = known_sat(folder), []
    for model, specs in throughput.networks(folder):
        name = os.path.relpath(common.ROOT / model, folder)
        specs = [s for s in specs if known is None or (name, os.path.relpath(common.ROOT / s, folder)) in known]
        if specs:
            found.append((model, specs))
    return found


def sets_at_hand():
    """{name: (options, [(model, specifications)])}"""
    found, shared = {}, common.SHARED / "vnncomp"
    signs, acasxu = shared / "2024_traffic_signs_recognition_2023", shared / "2025_acasxu_2023"
    if (signs / "instances.csv").exists():
        found["traffic signs"] = (("--mutations", "paper"), of_folder(signs))
    if (acasxu / "instances.csv").exists():
        found["acasxu"] = ((), of_folder(acasxu)[:NETWORKS])
    found["digits"] = ((), of_folder(common.ROOT / "examples/digits"))
    return found


def box_of(np, spec):
    """(lo, hi) around all bounds of a specification."""
    import gzip

    path = common.ROOT / spec
    if not path.exists():
        path = path.with_name(path.name + ".gz")
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    bounds = {">=": {}, "<=": {}}
    for side, i, value in re.findall(r"\(([<>]=) X_(\d+) ([-+0-9.eE]+)\)", text):
        better = min if side == ">=" else max
        i, value = int(i), float(value)
        bounds[side][i] = better(bounds[side].get(i, value), value)
    size = len(bounds[">="])
    return tuple(np.array([bounds[side][i] for i in range(size)]) for side in (">=", "<="))


def statistics_of(np, name, model, specs):
    place = common.RUNS / "criteria"
    place.mkdir(parents=True, exist_ok=True)
    data = place / "inputs.npy"
    if name == "digits":
        np.save(data, np.load(common.ROOT / "examples/digits/data/X.npy"))
    else:
        rng = np.random.default_rng(0)
        boxes = [box_of(np, spec) for spec in specs]
        share = -(-INPUTS // len(boxes))
        x = np.concatenate([lo + rng.random((share, len(lo))) * (hi - lo) for lo, hi in boxes])
        np.save(data, x.astype(np.float32))
    out = place / f"{throughput.short(model)}-{zlib.crc32(model.encode()):08x}.npz"
    common.execute([common.relative(common.PROGRAM), "profile", model, "--data", str(data), "--out", str(out)])
    return str(out)


def costly_networks():
    """[(name, model, data)]: networks of growing size, with inputs that are drawn at random."""
    shared = common.SHARED / "vnncomp"
    found = [(name, common.ROOT / f"examples/digits/{name}.onnx") for name in ("mlp", "cnn_bn", "resnet")]
    for name, pattern in (
        ("MNIST 256x4", "2021_mnistfc/onnx/*256x4.onnx*"),
        ("oval21 wide", "2022_oval21/onnx/*wide*.onnx*"),
        ("sri_resnet_a", "2022_sri_resnet_a/onnx/*.onnx*"),
        ("traffic signs 64x64", "2024_traffic_signs_recognition_2023/onnx/3_64_64_*.onnx*"),
    ):
        found += [(name, path) for path in sorted(shared.glob(pattern))[:1]]
    return found


def costs(np):
    """What criteria cost an input, as a share of its forward pass: a table."""
    place = common.RUNS / "criteria"
    place.mkdir(parents=True, exist_ok=True)
    rows, program = [], common.relative(common.PROGRAM)
    for name, path in costly_networks():
        model, data, stats = common.relative(path), str(place / "rows.npy"), str(place / "rows.npz")
        told = json.loads(common.execute([program, "doctor", model, "--json"], (0, 1))[0])
        count = int(np.prod(told["input_shape"]))
        x = np.random.default_rng(0).random((ROWS, count), dtype=np.float32)
        np.save(data, x * (255 if "traffic" in name else 1))
        common.execute([program, "profile", model, "--data", data, "--out", stats])
        command = [program, "coverage", model, "--data", data, "--stats", stats, "--json", "--quiet", "--criteria"]
        cells = []
        for criterion in CHEAP:
            said = json.loads(common.execute([*command, criterion])[0])
            share = said["criteria"][criterion]["of_forward"]
            recording = max(0.0, said["network_s"] / said["forward_s"] - 1)
            cells.append(f"{100 * share:.1f} % + {100 * recording:.0f} %")
        rows.append([name, *cells])
    return common.table(["network", *(f"`{c}`" for c in CHEAP)], rows)


def campaign(job):
    """(area, broken, command) of one driver and seed on a set: its networks one after another."""
    criterion, seed, options, models, seconds = job
    window = seconds / len(models)
    areas, commands = [], []
    for model, specs, stats in models:
        out = common.RUNS / "criteria" / f"{criterion}-{seed}-{zlib.crc32(model.encode()):08x}"
        shutil.rmtree(out, ignore_errors=True)
        command = [common.relative(common.PROGRAM), "fuzz", model, *specs, *options, "--criterion", criterion]
        command += ["--stats", stats, "--threads", "1", "--seed", str(seed), "--seconds", f"{window:g}"]
        command += ["--checkpoint", "0", "--quiet", "--json", "--out", str(out)]
        common.execute(command, (0, 1))
        commands.append(" ".join(command))
        for row in csv.DictReader((out / "instances.csv").read_text().splitlines()):
            first = row["seconds_to_first"]
            areas.append(max(0.0, 1 - float(first) / window) if first else 0.0)
        shutil.rmtree(out, ignore_errors=True)
    return statistics.fmean(areas), sum(a > 0 for a in areas), commands


def run(seconds, repeats):
    import numpy as np

    said, _, _ = common.execute([common.relative(common.PROGRAM), "list", "criteria", "--json"])
    drivers = ["none", *(row["name"] for row in json.loads(said)["criteria"])]
    sets, told, columns, runs = sets_at_hand(), [], {}, []
    for name, (options, models) in sets.items():
        models = [(model, specs, statistics_of(np, name, model, specs)) for model, specs in models]
        count = sum(len(specs) for _, specs, _ in models)
        told.append(f"- {name}: {len(models)} networks, {count} instances, `{' '.join(options) or 'default options'}`")
        jobs = [(d, seed, options, models, seconds) for seed in range(repeats) for d in drivers]
        common.say(f"{name}: {len(jobs)} campaigns of {seconds:g} s")
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            results = list(pool.map(attempt, jobs))
        seen = {d: [] for d in drivers}
        for (driver, seed, *_), result in zip(jobs, results, strict=True):
            if result is not None:
                seen[driver].append(result)
                area, broken, commands = result
                runs.append(
                    {"set": name, "criterion": driver, "seed": seed, "area": area, "broken": broken}
                    | {"commands": commands}
                )
        columns[name] = column(seen)
    head = ["driver"] + [f"{n}: {what}" for n in columns for what in ("area", "broken", "p")]
    rows = [[f"`{d}`", *(cell for n in columns for cell in columns[n][d])] for d in drivers]
    table = common.table(head, rows)
    common.say("what criteria cost")
    shown = "\n".join(told) + f"\n\n{table}\n\nWhat a criterion costs, and what recording for it adds:\n\n{costs(np)}"
    common.show_in_readme("criteria", shown, PAGE)
    return {"runs": runs, "table": table}


def attempt(job):
    """None where the network has not what the criterion looks at."""
    try:
        return campaign(job)
    except SystemExit as error:
        if "status 2" not in str(error):
            raise
        common.say(str(error).splitlines()[-1])
        return None


def column(seen):
    """{driver: [area, broken, p]} as text."""
    none = [area for area, *_ in seen["none"]]
    tested = [d for d in seen if d != "none" and seen[d]]
    p = [mann_whitney([area for area, *_ in seen[d]], none) for d in tested]
    adjusted = dict(zip(tested, benjamini_hochberg(p), strict=True))
    out = {}
    for driver, results in seen.items():
        if not results:
            out[driver] = ["-", "-", "-"]
            continue
        area = statistics.fmean(a for a, *_ in results)
        sign = ""
        if driver in adjusted and adjusted[driver] <= 0.05:
            sign = " +" if area > statistics.fmean(none) else " -"
        p_text = f"{adjusted[driver]:.2g}{sign}" if driver in adjusted else ""
        out[driver] = [f"{area:.3f}", f"{statistics.fmean(b for _, b, _ in results):.1f}", p_text]
    return out
