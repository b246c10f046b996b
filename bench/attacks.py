"""What each attack does alone and what the portfolio makes of them: instances broken after 1, 5 and
20 seconds, of 40 from the families in which tools differ, drawn with a stated seed.

Every run is a process with one thread; half as many again run at a time as there are cores, so that a
second is two thirds of one. Without ../shared: examples/digits.
"""

import concurrent.futures
import csv
import json
import os
import random

import common

# Families of VNN-COMP in which few tools find what others find.
FAMILIES = (
    *("2024_traffic_signs_recognition_2023", "2025_cctsdb_yolo_2023", "2022_mnist_fc"),
    *("2021_mnistfc", "2022_reach_prob_density", "2022_sri_resnet_a", "2022_sri_resnet_b"),
    *("2024_metaroom_2023", "2022_cifar_biasfield", "2025_acasxu_2023", "2024_cgan_2023"),
)
COUNT, SEED = 40, 7
MARKS = (1, 5, 20)


def known_sat(folder):
    rows = csv.DictReader((folder / "expected.csv").read_text().splitlines())
    return [
        (folder.name, folder / row["onnx"], folder / row["vnnlib"])
        for row in rows
        if row["verdict"] == "sat"
    ]


def pick(instances, count):
    """`count` of them, as evenly over the families as these allow."""
    generator = random.Random(SEED)
    by_family = {}
    for instance in instances:
        by_family.setdefault(instance[0], []).append(instance)
    for group in by_family.values():
        generator.shuffle(group)
    out = []
    while len(out) < count and any(by_family.values()):
        for family in sorted(by_family):
            if by_family[family] and len(out) < count:
                out.append(by_family[family].pop())
    return out


def seconds_to_break(instance, attacks, limit):
    """From the start of the process; None when it was not broken."""
    _, model, spec = instance
    command = [
        *(common.relative(common.PROGRAM), "falsify", common.relative(model)),
        *(common.relative(spec), "--attacks", attacks, "--timeout", f"{limit:g}"),
        *("--threads", "1", "--json"),
    ]
    said = json.loads(common.execute(command, (0, 1))[0])
    return said["seconds"] if said["answer"] == "sat" else None


def run(seconds, repeats):
    del repeats
    folders = [common.SHARED / "vnncomp" / name for name in FAMILIES]
    if all(folder.is_dir() for folder in folders):
        instances = pick([i for folder in folders for i in known_sat(folder)], COUNT)
    else:
        common.say("../shared is not there: measuring on examples/digits")
        digits = common.ROOT / "examples" / "digits"
        rows = csv.reader((digits / "instances.csv").read_text().splitlines())
        instances = [("digits", digits / row[0], digits / row[1]) for row in rows]
    listed, _, _ = common.execute([common.relative(common.PROGRAM), "list", "attacks", "--json"])
    names = ["all", *(row["name"] for row in json.loads(listed)["attacks"])]
    limit = seconds
    results = {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() * 3 // 2) as pool:
        for name in names:
            times = list(pool.map(lambda i, n=name: seconds_to_break(i, n, limit), instances))
            results[name] = times
            broken = sum(t is not None for t in times)
            common.say(f"{name}: {broken} of {len(instances)} broken in {limit:g} s")
    marks = [mark for mark in MARKS if mark <= limit] or [limit]
    head = ["attack", *(f"broken in {mark:g} s" for mark in marks)]
    rows = [
        [
            "portfolio" if name == "all" else name,
            *(sum(t is not None and t <= mark for t in times) for mark in marks),
        ]
        for name, times in results.items()
    ]
    rows[1:] = sorted(rows[1:], key=lambda row: row[1:][::-1], reverse=True)
    return {
        "instances": [[f, common.relative(m), common.relative(s)] for f, m, s in instances],
        "seconds": {name: times for name, times in results.items()},
        "wrong": 0,
        "table": common.table(head, rows),
    }
