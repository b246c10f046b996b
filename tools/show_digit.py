#!/usr/bin/env python3
"""Says what a campaign on the digit networks found, and draws one counterexample.

usage: show_digit.py RUN_FOLDER   or   show_digit.py FINDING_FOLDER
"""

import json
import pathlib
import sys

import numpy as np
import onnxruntime

SHADES = " .:-=+*#%@"
SIDE = 8


def outputs(model, x):
    """The network's outputs [K] in ONNX Runtime, for one flat input."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    shape = [d if isinstance(d, int) and d > 0 else 1 for d in given.shape]
    return session.run(None, {given.name: x.astype(np.float32).reshape(shape)})[0].ravel()


def picture(x):
    """Eight lines, two characters a pixel; x in [0, 1], flat."""
    shades = np.clip(np.rint(x * (len(SHADES) - 1)), 0, len(SHADES) - 1).astype(int)
    return ["".join(SHADES[s] * 2 for s in row) for row in shades.reshape(SIDE, SIDE)]


def load(finding):
    """(finding.json, changed input, original), both flat."""
    about = json.loads((finding / "finding.json").read_text())
    changed, original = (np.load(finding / f"{name}.npy").ravel() for name in ("input", "original"))
    return about, changed, original


def show(finding):
    about, changed, original = load(finding)
    before, after = (int(outputs(about["model"], x).argmax()) for x in (original, changed))
    width = SIDE * 2 + 2
    print(
        f"\nFinding {finding.name}: {pathlib.Path(about['model']).name},"
        f" {pathlib.Path(about['spec']).name}"
    )
    titles = (f"original: a {before}", f"changed: a {after}", "what changed")
    print("\n  " + "   ".join(title.ljust(width) for title in titles).rstrip())
    edge = "+" + "-" * (width - 2) + "+"
    difference = np.abs(changed - original)
    panels = [picture(x) for x in (original, changed, difference)]
    for line in [
        [edge] * 3,
        *([f"|{part}|" for part in row] for row in zip(*panels, strict=True)),
        [edge] * 3,
    ]:
        print("  " + "   ".join(line))
    print(
        f"\n  {np.count_nonzero(difference)} of {difference.size} pixels changed,"
        f" by at most {difference.max():.3f} (0 is white, 1 is black); margin {about['margin']:.4g}"
    )


def choose(findings):
    """The finding with the smallest change that turns the first choice into another, if any."""

    def turns(finding):
        about, changed, original = load(finding)
        return (
            outputs(about["model"], original).argmax() != outputs(about["model"], changed).argmax()
        )

    def change(finding):
        _, changed, original = load(finding)
        return np.abs(changed - original).max()

    ordered = sorted(findings, key=change)
    return next((f for f in ordered if turns(f)), ordered[0])


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    if (folder / "finding.json").is_file():
        show(folder)
        return
    findings = sorted(f.parent for f in folder.glob("findings/*/finding.json"))
    if not findings:
        sys.exit(f"{folder}: no findings")
    summary = json.loads((folder / "summary.json").read_text())
    print(
        f"{summary['instances_falsified']} of {summary['instances']} instances broken"
        f" in {summary['seconds']:.1f} s: {summary['inputs_checked']} inputs checked,"
        f" {len(findings)} counterexamples in {folder}/findings"
    )
    finding = choose(findings)
    show(finding)
    print(f"\nTo see it again, in a fresh process:\n  build/release/grapeshot replay {finding}")


if __name__ == "__main__":
    main()
