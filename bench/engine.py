"""Where the time of a campaign goes: arithmetic done over what the cores can (MFU), time outside of the
networks' passes, what coverage costs, one and two lanes, a busy neighbour, cost by batch and corpus.

Default operator weights under the schedule `fair` unless a row says otherwise. The networks are those of
../shared/vnncomp that are named below; without them examples/digits.
"""

import json
import multiprocessing
import os
import shutil
import statistics

import common
import throughput

NETS = (
    ("traffic signs 64x64", "2024_traffic_signs_recognition_2023", "64_64"),
    ("traffic signs 30x30", "2024_traffic_signs_recognition_2023", "30_30"),
    ("sri_resnet_a", "2022_sri_resnet_a", ""),
    ("marabou large", "2021_marabou-cifar10", "large"),
    ("oval21 wide", "2022_oval21", "wide"),
    ("acasxu 1_1", "2025_acasxu_2023", "1_1_"),
)
GRADIENT = ("--mutations", "gradient,descent", "--weights", "gradient=0,descent=1")
RANDOM = ("--mutations", "random")
ROWS = (64, 1024, 16384, 100_000)


def at_hand():
    """[(name, model, its specifications)]."""
    out = []
    for name, folder, part in NETS:
        place = common.SHARED / "vnncomp" / folder
        if (place / "instances.csv").exists():
            found = [n for n in throughput.networks(place) if part in n[0]]
            out += [(name, *found[0])] if found else []
    digits = throughput.networks(common.ROOT / "examples" / "digits")
    return out or [(throughput.short(model), model, specs) for model, specs in digits]


def campaign(model, specs, seconds, *options):
    place = common.RUNS / "engine"
    shutil.rmtree(place, ignore_errors=True)
    command = [
        *(common.relative(common.PROGRAM), "fuzz", model, *specs, "--keep-going", "--json"),
        *("--quiet", "--checkpoint", "0", "--seconds", f"{seconds:g}", *map(str, options)),
        *("--out", common.relative(place)),
    ]
    said = json.loads(common.execute(command, (0, 1))[0])
    return {**said, "command": " ".join(command)}


def spin(stop):
    while not stop.is_set():
        sum(range(10_000))


class Neighbour:
    """A process that keeps one core busy."""

    def __enter__(self):
        self.stop = multiprocessing.Event()
        self.process = multiprocessing.Process(target=spin, args=(self.stop,))
        self.process.start()

    def __exit__(self, *error):
        self.stop.set()
        self.process.join()


def middle(values):
    """'median (lowest-highest)', three figures each."""

    def brief(value):
        return f"{float(f'{value:.3g}'):,.0f}" if abs(value) >= 1000 else f"{value:.3g}"

    return f"{brief(statistics.median(values))} ({brief(min(values))}-{brief(max(values))})"


def run(seconds, repeats):
    runs = []

    def measure(name, what, model, specs, *options, length=seconds):
        said = campaign(model, specs, length, *options)
        runs.append({"network": name, "what": what, "load_before": common.load(), **said})
        return said

    nets = at_hand()
    both = os.cpu_count()
    rows = []
    for name, model, specs in nets:
        common.say(name)
        seen = {key: [] for key in ("one", "none", "all", "shared", "mfu", "outside", "gradient")}
        for _ in range(repeats):
            one = measure(name, "one lane", model, specs, "--threads", 1)
            none = measure(name, "without coverage", model, specs, "--threads", 1, "--criterion", "none")
            every = measure(name, "all lanes", model, specs, "--threads", both)
            with Neighbour():
                shared = measure(name, "beside a busy process", model, specs, "--threads", both)
            gradient = measure(name, "gradient steps only", model, specs, "--threads", 1, *GRADIENT)
            seen["one"].append(one["candidates_per_s"])
            seen["none"].append(none["candidates_per_s"])
            seen["all"].append(every["candidates_per_s"])
            seen["shared"].append(shared["candidates_per_s"])
            seen["mfu"].append(one["mfu"])
            seen["outside"].append(one["outside_network"])
            seen["gradient"].append(gradient["mfu"])
        cost = [1 - a / b for a, b in zip(seen["one"], seen["none"], strict=True)]
        scaling = [a / b for a, b in zip(seen["all"], seen["one"], strict=True)]
        kept = [a / b for a, b in zip(seen["shared"], seen["all"], strict=True)]
        rows.append(
            [name, middle(seen["one"]), middle(seen["mfu"]), middle(seen["gradient"])]
            + [middle(seen["outside"]), middle(cost), middle(scaling), middle(kept)]
        )
    head = ["network", "candidates/s, one lane", "MFU", "MFU, gradient only", "outside the network"]
    head += ["coverage", f"{both} lanes over one", "kept beside a busy process"]
    tables = [common.table(head, rows)]
    name, model, specs = nets[-1]
    by_rows = []
    for batch in ROWS:
        per_row = {"gradient": [], "random": []}
        for _ in range(repeats):
            for kind, options in (("gradient", GRADIENT), ("random", RANDOM)):
                said = measure(
                    name, f"{kind}, {batch} rows", model, specs, "--threads", 1, "--batch", batch, *options
                )
                per_row[kind].append(1e6 / said["inputs_checked_per_s"])
        by_rows.append([str(batch), *(middle(values) for values in per_row.values())])
    head = [f"rows of a batch, {name}", "µs per input, gradient steps", "µs per input, random"]
    tables.append(common.table(head, by_rows))
    return {"runs": runs, "table": "\n\n".join(tables)}
