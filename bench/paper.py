"""The experiments of "Tensor-Based Batch Fuzzing with Adaptive Perturbation Scaling for Deep Neural
Networks" (Zhang and Sui, 2026) on the models at hand: its Tables 3 to 7 and Figure 6, with what it
leaves out (instances falsified, distinct violations, inputs checked), beside its own numbers.

A group is a model with its specifications. Batch modes have a window per group, Seq-Fixed the same
time per instance. `--budget` is the time of all windows together; boxes of unequal widths
have a budget of candidates and come on top. Without
../shared: examples/digits. The page, CSV and SVG go to docs/results/paper.md, docs/results/paper/.
"""

import csv
import itertools
import json
import os
import shutil
import statistics

import common
import paper_tables
import throughput

MODES = ("iso", "ani")
SCALES = (0.01, 0.05, 0.1, 0.2, 0.3, 0.5)
BATCHES = (1, 10, 50)
REPEATS = 5
STEPS = 10  # T, which the paper does not state
# Sequential runs are read at these shares of their whole time, as the paper's 1, 5, 30 and 60 minutes.
SHARES = (1 / 60, 1 / 12, 1 / 2, 1.0)

SETS = {
    "TrafficSigns": "2024_traffic_signs_recognition_2023",
    "CIFAR-10 ResNet": "2022_sri_resnet_a",
    "CIFAR-10 CNN": "2021_marabou-cifar10",
}
# Sets whose boxes differ in width from input to input, for the title's claim.
UNEQUAL = {
    "acasxu": "2025_acasxu_2023",
    "collins_rul": "2025_collins_rul_cnn_2022",
    "digits": None,
}
CLAIM_CANDIDATES = 50  # for every instance


def at_hand(sets):
    digits = common.ROOT / "examples" / "digits"
    out = {}
    for name, folder in sets.items():
        place = digits if folder is None else common.SHARED / "vnncomp" / folder
        if (place / "instances.csv").exists():
            out[name] = throughput.networks(place)
    return out or {"digits": throughput.networks(digits)}


def shape_of(model):
    """(input shape, parameters) as `doctor` tells them."""
    said, _, _ = common.execute([common.relative(common.PROGRAM), "doctor", model, "--json"], (0, 1))
    seen = json.loads(said)
    return "×".join(map(str, seen["inputs"][0]["shape"])), seen["parameters"]


class Runner:
    """Runs campaigns, keeps what they said, and knows how much time is left to say."""

    def __init__(self):
        self.runs = []
        self.place = common.RUNS / "paper"

    def run(self, what, group, options):
        model, specs = group
        return self.run_on(what, model, [model, *specs], len(specs), options)

    def run_on(self, what, model, problem, instances, options):
        shutil.rmtree(self.place, ignore_errors=True)
        command = [
            *(common.relative(common.PROGRAM), "fuzz", *problem, "--keep-going", "--json"),
            *("--quiet", "--checkpoint", "0", "--steps", str(STEPS), *map(str, options)),
            *("--out", common.relative(self.place)),
        ]
        said = json.loads(common.execute(command, (0, 1))[0])
        lines = (self.place / "stats.jsonl").read_text().splitlines()
        curve = [(s["seconds"], s["violations"]) for s in map(json.loads, lines)]
        curve.append((said["seconds"], said["violations"]))
        kept = {key: said[key] for key in paper_tables.KEYS}
        # A group's specifications are those that its instances.csv names.
        named = [f"{c} SPECS" if c == model else c for c in command if not c.endswith(".vnnlib")]
        shown = " ".join(named)
        self.runs.append({**what, "model": model, "instances": instances, **kept, "command": shown})
        return {**self.runs[-1], "curve": curve}


def batch_options(mode, window, seed, *more):
    return ("--mode", f"batch-{mode}", "--seconds", f"{window:g}", "--seed", seed, *more)


def units(sets):
    """How many windows the tables take."""
    groups = sum(len(g) for g in sets.values())
    instances = sum(len(specs) for g in sets.values() for _, specs in g)
    table4 = 2 * groups + instances
    table6 = len(MODES) * len(SCALES) * groups
    table7 = sum(len(MODES) * len(batches_of(g[0])) * REPEATS for g in sets.values())
    return table4 + table6 + table7


def batches_of(group):
    size = len(group[1])
    return sorted({b for b in BATCHES if b < size} | {size})


def table4(runner, name, groups, window):
    out = {}
    for mode in MODES:
        results = [
            runner.run({"table": 4, "set": name, "method": mode}, g, batch_options(mode, window, 0))
            for g in groups
        ]
        out[f"Batch-{mode.capitalize()}"] = results
    options = ("--mode", "seq-fixed", "--seconds-per-instance", f"{window:g}")
    out["Seq-Fixed"] = [
        runner.run({"table": 4, "set": name, "method": "seq"}, g, options) for g in groups
    ]
    return out


def table6(runner, name, groups, window):
    return {
        mode: [
            sum(
                runner.run(
                    {"table": 6, "set": name, "method": mode, "s": s},
                    g,
                    batch_options(mode, window, 0, "--scale-factor", s),
                )["violations"]
                for g in groups
            )
            for s in SCALES
        ]
        for mode in MODES
    }


def table7(runner, name, group, window):
    """Violations for every row of a batch, by configuration: REPEATS runs each."""
    out = {}
    for mode, batch in itertools.product(MODES, batches_of(group)):
        out[f"{mode.capitalize()}-{batch}"] = [
            runner.run(
                {"table": 7, "set": name, "method": mode, "batch": batch, "seed": seed},
                group,
                batch_options(mode, window, seed, "--batch", batch),
            )["violations"]
            / batch
            for seed in range(REPEATS)
        ]
    return out


def claim(runner, name, groups):
    """Instances falsified in all, by scale and s: REPEATS numbers each. The budget is in candidates, so
    that neither the machine nor its load matters."""
    common.RUNS.mkdir(parents=True, exist_ok=True)
    listed = common.RUNS / f"claim-{name}.csv"
    place = lambda path: os.path.relpath(common.ROOT / path, common.RUNS)  # noqa: E731
    pairs = [(model, spec) for model, specs in groups for spec in specs]
    listed.write_text("".join(f"{place(m)},{place(spec)},60\n" for m, spec in pairs))
    out = {}
    for scale, s in itertools.product(("fixed", "iso", "ani"), SCALES):
        # A fixed step is the same share of a unit, since it knows no range.
        options = ("--mode", "batch-iso", "--scale", scale, "--scale-factor", s, "--eta", s)
        budget = ("--threads", "1", "--seconds", "0", "--candidates", CLAIM_CANDIDATES * len(pairs))
        out[scale, s] = [
            runner.run_on(
                {"table": "claim", "set": name, "method": scale, "s": s, "seed": seed},
                name,
                ["--instances", common.relative(listed)],
                len(pairs),
                (*options, *budget, "--seed", seed),
            )["instances_falsified"]
            for seed in range(REPEATS)
        ]
    return out


def run(seconds, repeats):
    del repeats
    sets, unequal = at_hand(SETS), at_hand(UNEQUAL)
    count = units(sets)
    start_up_s = 0.3  # of a process, which the budget pays as well
    window = max(seconds / count - start_up_s, 0.2)
    common.say(f"{count} windows of {window:.2f} s")
    runner, before = Runner(), common.load()
    shapes = {m: shape_of(m) for g in sets.values() for m, _ in g}
    found = {
        "window": window,
        "budget": seconds,
        "sets": sets,
        "shapes": shapes,
        "steps": STEPS,
        "table4": {},
        "table6": {},
        "table7": {},
        "claim": {},
    }
    for name, groups in sets.items():
        common.say(f"{name}: {len(groups)} groups")
        found["table4"][name] = table4(runner, name, groups, window)
        found["table6"][name] = table6(runner, name, groups, window)
        found["table7"][name] = table7(runner, name, groups[0], window)
    for name, groups in unequal.items():
        common.say(f"{name}: boxes of unequal widths")
        found["claim"][name] = claim(runner, name, groups)
    folder = common.ROOT / "docs/results/paper"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "runs.csv", "w", newline="") as file:
        keys = sorted({key for r in runner.runs for key in r} - {"command"})
        writer = csv.DictWriter(file, [*keys, "command"])
        writer.writeheader()
        writer.writerows(runner.runs)
    for name, results in found["table4"].items():
        slug = name.lower().replace(" ", "-")
        (folder / f"fig6-{slug}.svg").write_text(paper_tables.figure6(name, results))
    machine = {"load_before": before, "cores": os.cpu_count(), **common.machine()}
    page = paper_tables.page(found, machine, SCALES, SHARES)
    folder.with_suffix(".md").write_text(page)
    common.say(f"wrote {common.relative(folder)}.md, and runs.csv and fig6-*.svg in the folder")
    rates = {
        name: {m: sum(r["candidates_per_s"] for r in rs) / len(rs) for m, rs in by.items()}
        for name, by in found["table4"].items()
    }
    return {
        "window": window,
        "runs": len(runner.runs),
        "median_window_s": statistics.median(r["seconds"] for r in runner.runs),
        "rates": rates,
        "table": paper_tables.table4(found),
    }
