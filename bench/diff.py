"""DLFuzz's strategies and DeepXplore's objective on the same images for the same time.

Networks: the digits that are shipped, the MNIST networks of ../shared/vnncomp/2021_mnistfc, whose images are the
centres of their specifications' boxes, and EfficientNet-Lite0 (imagenet.py), whose images are whole numbers and which gets
more time. DeepXplore's objective needs several networks: those of the group that agree with each
other. An image goes on after its first difference (--keep-going), as in the paper.
"""

import gzip
import json
import re
import shutil

import common
import contact_sheet
import imagenet

STRATEGIES = ("1", "2", "3", "4", "random", "none")
IMAGES = 20
COLORS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#000000")
PLACE = common.ROOT / "docs/results/diff"


def mnist_images(np):
    found = {}
    for path in sorted((common.SHARED / "vnncomp/2021_mnistfc/vnnlib").glob("prop_*.vnnlib*")):
        number, radius = re.match(r"prop_(\d+)_([0-9.]+)\.vnnlib", path.name).groups()
        text = (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode()
        box = np.zeros((2, 784))
        for side, name in enumerate((">=", "<=")):
            for i, value in re.findall(rf"\({name} X_(\d+) ([-0-9.e]+)\)", text):
                box[side, int(i)] = float(value)
        # Boxes are cut at 0 and 1, where the image is at the cut.
        eps = float(radius)
        middle = np.where(box[0] <= 0, np.maximum(box[1] - eps, 0), np.minimum(box[0] + eps, 1))
        found[number] = middle
    return np.array(list(found.values()), np.float32)[:IMAGES]


def save(np, group, x):
    path = common.RUNS / f"{group}.npy"
    common.RUNS.mkdir(parents=True, exist_ok=True)
    np.save(path, x[:IMAGES].astype(np.float32))
    return path


def digits(np):
    place = common.ROOT / "examples/digits"
    models = [place / f"{name}.onnx" for name in ("mlp", "cnn_bn", "resnet")]
    return models, models, save(np, "digits", np.load(place / "data/X.npy")), ("--l2", 0.2, *UNIT)


def mnist(np):
    place = common.SHARED / "vnncomp/2021_mnistfc/onnx"
    models = [next(iter(place.glob(f"mnist-net_256x{n}.onnx*")), None) for n in (2, 4, 6)]
    if None in models:
        return None
    return models, models, save(np, "MNIST", mnist_images(np)), ("--l2", 0.1, *UNIT)


def efficientnet(np):
    prepared = imagenet.prepare()
    if prepared is None:
        return None
    models, data = prepared
    return models[:1], models, data, ("--l2", 0.02, "--low", 0, "--high", 255, "--integer")


UNIT = ("--low", 0, "--high", 1)
# Group: (what makes networks, all of them, images and options; how many times the seconds).
GROUPS = {"digits": (digits, 1), "MNIST": (mnist, 1), "ImageNet": (efficientnet, 8)}


def fuzz(models, data, seconds, *options):
    out = common.RUNS / "diff"
    shutil.rmtree(out, ignore_errors=True)
    command = [common.relative(common.PROGRAM), "diff", *map(common.relative, models), "--data", common.relative(data)]
    command += ["--tau", 0.5, "--keep-going", "--seconds", seconds, *options, "--json"]
    command = [*map(str, command), "--quiet", "--out", common.relative(out)]
    said = json.loads(common.execute(command, (0, 1))[0])
    lines = [json.loads(line) for line in (out / "stats.jsonl").read_text().splitlines()]
    curve = [(line["candidates"], 100 * line["coverage"]["nc-scaled"]) for line in lines]
    return {**said, "curve": curve, "command": " ".join(command)}


def figure(name, curves):
    """Coverage against inputs tested, on a log scale."""
    import math

    width, height, left = 460, 240, 60
    most = max(n for curve in curves.values() for n, _ in curve)
    values = [v for curve in curves.values() for _, v in curve]
    low, high = min(values), max(max(values), min(values) + 1)
    parts = [f'<rect x="{left}" y="20" width="{width}" height="{height}" fill="none" stroke="#444"/>']

    def x_of(n):
        return left + width * math.log(max(n, 10) / 10) / math.log(max(most, 20) / 10)

    def y_of(v):
        return 20 + height * (1 - (v - low) / (high - low))

    for k in range(5):
        v = low + (high - low) * k / 4
        n = 10 * (most / 10) ** (k / 4)
        parts.append(f'<text x="{left - 6}" y="{y_of(v) + 4:.0f}" text-anchor="end">{v:.1f} %</text>')
        parts.append(f'<text x="{x_of(n):.0f}" y="{height + 36}" text-anchor="middle">{n:,.0f}</text>')
    for k, (method, curve) in enumerate(curves.items()):
        line = " ".join(f"{x_of(n):.1f},{y_of(v):.1f}" for n, v in curve)
        color = COLORS[k % len(COLORS)]
        parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts.append(f'<text x="{left + width + 8}" y="{34 + 16 * k}" fill="{color}">{method}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 130}" height="{height + 50}" '
        f'font-family="sans-serif" font-size="11"><title>{name}: coverage against inputs tested</title>'
        + "".join(parts)
        + "</svg>\n"
    )


def run(seconds, repeats):
    del repeats
    import numpy as np

    runs, tables, pictures = [], [], []
    PLACE.mkdir(parents=True, exist_ok=True)
    for group, (make, times) in GROUPS.items():
        made = make(np)
        if made is None:
            common.say(f"{group}: its networks are not here")
            continue
        models, every, data, options = made
        count, rows, curves = len(np.load(data)), [], {}

        def note(name, label, said, rows=rows, curves=curves, group=group):
            runs.append({"group": group, "network": name, "method": label, **said})
            before, after = (100 * said[k]["nc-scaled"] for k in ("coverage_of_images", "coverage"))
            rows.append(
                [name, label, f"{said['images_with_differences']} of {said['images']}"]
                + [f"{said['differences']:,}", f"{said['mean_l2']:.3g}", f"{100 * said['mean_l2_share']:.1f} %"]
                + [f"{before:.1f} %", f"{after:.1f} %", f"{said['candidates_per_s']:,.0f}"]
            )
            curves.setdefault(name, {})[label] = said["curve"]

        for model in models:
            name = model.name.split(".")[0]
            for strategy in STRATEGIES:
                common.say(f"{group} {name} {strategy}")
                said = fuzz([model], data, times * seconds, *options, "--strategy", strategy)
                note(name, f"strategy {strategy}", said)
                if group == "ImageNet" and strategy == "1":
                    sheet = PLACE / "contact-sheet.jpg"
                    shown = contact_sheet.write(common.RUNS / "diff", sheet)
                    pictures.append(f"![{shown} pairs of image and finding]({PLACE.name}/{sheet.name})")
        common.say(f"{group} DeepXplore")
        objective = ("--strategy", "random", "--neurons", 1, "--weight", 1)
        note(f"all {len(every)}", "DeepXplore", fuzz(every, data, times * seconds, *options, *objective))
        head = ["network", "method", "images", "differences", "mean L2", "of the norm", "coverage of the images"]
        head += ["with what was tried", "candidates/s"]
        told = " ".join(map(str, options))
        tables.append(
            f"{group}, {count} images, {times * seconds:g} s a row, `{told}`:\n\n{common.table(head, rows)}"
        )
        for name, by in curves.items():
            path = PLACE / f"{group}-{name.replace(' ', '-')}.svg"
            path.write_text(figure(name, by))
            pictures.append(f"![{group}, {name}]({PLACE.name}/{path.name})")
    table = "\n\n".join(tables)
    shown = table + "\n\nCoverage (nc-scaled) against inputs tested:\n\n" + "\n".join(pictures)
    common.show_in_readme("diff", shown, PLACE.with_suffix(".md"))
    return {"runs": runs, "table": table}
