"""VNN-LIB 1.0 files for the digit networks: pictures, how far they may change, what is forbidden.

Every bound is an exact decimal: a picture's grey values are k/16 and radii have four decimals. The
radius differs from pixel to pixel: it grows with how much that pixel varies over the training
pictures, and is 0 (the pixel is frozen) where it never varies. Boxes are cut to [0, 1].
"""

from dataclasses import dataclass
from decimal import Decimal

import numpy as np

PIXELS, CLASSES = 64, 10

# Net, kind (a function below), test pictures by number, radius of the pixel that varies most.
INSTANCES = [
    ("mlp", "top1", (0,), "0.18"),
    ("mlp", "top1", (2,), "0.125"),
    ("mlp", "top1", (4,), "0.08"),
    ("mlp", "target", (2,), "0.24"),
    ("mlp", "second", (3,), "0.22"),
    ("mlp", "boxes", (0, 6), "0.20"),
    ("cnn_bn", "top1", (9,), "0.12"),
    ("cnn_bn", "top1", (8,), "0.23"),
    ("cnn_bn", "top1", (5,), "0.10"),
    ("cnn_bn", "top1", (10,), "0.155"),
    ("cnn_bn", "low", (2,), "0.16"),
    ("cnn_bn", "boxes", (1, 13), "0.20"),
    ("bnn", "top1", (0,), "0.20"),
    ("bnn", "top1", (6,), "0.115"),
    ("bnn", "top1", (4,), "0.10"),
    ("bnn", "top1", (3,), "0.18"),
    ("bnn", "target", (2,), "0.24"),
    ("bnn", "second", (3,), "0.26"),
    ("resnet", "top1", (1,), "0.16"),
    ("resnet", "top1", (2,), "0.12"),
    ("resnet", "top1", (4,), "0.08"),
    ("resnet", "target", (5,), "0.25"),
    ("resnet", "low", (0,), "0.18"),
    ("resnet", "boxes", (3, 5), "0.18"),
    ("attention", "top1", (0,), "0.15"),
    ("attention", "top1", (4,), "0.12"),
    ("attention", "top1", (10,), "0.13"),
    ("attention", "target", (2,), "0.20"),
    ("attention", "second", (3,), "0.20"),
    ("attention", "boxes", (1, 5), "0.18"),
]


@dataclass
class Case:
    """One way to violate: a box, and comparisons `left op right` that must all hold."""

    lo: list
    hi: list
    atoms: list  # of (operator, left, right), e.g. (">=", "Y_3", "Y_1")


@dataclass
class Spec:
    title: str
    box_in_case: bool  # False: one box for all cases, written before them
    cases: list
    conjunction: bool = False  # one case only, written as plain assertions


def box(picture, spread, radius):
    """Exact decimal bounds around one picture, given the standard deviation of every pixel."""
    lo, hi = [], []
    for value, s in zip(picture, spread, strict=True):
        share = 0.2 + 0.8 * s / spread.max() if s > 0 else 0.0
        width = Decimal(f"{float(radius) * share:.4f}")
        centre = Decimal(round(float(value) * 16)) / 16
        lo.append(max(Decimal(0), centre - width))
        hi.append(min(Decimal(1), centre + width))
    return lo, hi


def top1(pictures, spread, radius):
    """Some other class scores at least as high as the right one."""
    ((picture, label),) = pictures
    lo, hi = box(picture, spread, radius)
    cases = [Case(lo, hi, [(">=", f"Y_{j}", f"Y_{label}")]) for j in range(CLASSES) if j != label]
    return Spec(f"a {label} is no longer the only first choice", False, cases)


def target(pictures, spread, radius):
    """One wrong class, the next digit up, scores at least as high as every other: a conjunction."""
    ((picture, label),) = pictures
    lo, hi = box(picture, spread, radius)
    goal = (label + 1) % CLASSES
    atoms = [("<=", f"Y_{j}", f"Y_{goal}") for j in range(CLASSES) if j != goal]
    return Spec(f"a {label} is taken for a {goal}", False, [Case(lo, hi, atoms)], conjunction=True)


def second(pictures, spread, radius):
    """Two other classes score at least as high: several comparisons in each disjunct."""
    ((picture, label),) = pictures
    lo, hi = box(picture, spread, radius)
    others = [j for j in range(CLASSES) if j != label]
    cases = [
        Case(lo, hi, [(">=", f"Y_{a}", f"Y_{label}"), (">=", f"Y_{b}", f"Y_{label}")])
        for i, a in enumerate(others)
        for b in others[i + 1 :]
    ]
    return Spec(f"a {label} is not among the first two choices", False, cases)


def low(pictures, spread, radius):
    """The right class and the next digit up both score at most some constant: a conjunction."""
    ((picture, label),) = pictures
    lo, hi = box(picture, spread, radius)
    atoms = [("<=", f"Y_{label}", "2.5"), ("<=", f"Y_{(label + 1) % CLASSES}", "1.25e0")]
    return Spec(
        f"a {label} scores at most 2.5, the digit after it at most 1.25",
        False,
        [Case(lo, hi, atoms)],
        conjunction=True,
    )


def boxes(pictures, spread, radius):
    """Two pictures, each with its own box: inputs and outputs mixed in each disjunct."""
    cases = []
    for picture, label in pictures:
        lo, hi = box(picture, spread, radius)
        for j in (label + 1, label + 5):
            cases.append(Case(lo, hi, [(">=", f"Y_{j % CLASSES}", f"Y_{label}")]))
    names = " or ".join(f"a {label}" for _, label in pictures)
    return Spec(f"{names} is taken for something else", True, cases)


KINDS = {f.__name__: f for f in (top1, target, second, low, boxes)}


def number(value):
    """A Decimal in plain notation, with at least one digit behind the point."""
    text = f"{value.normalize():f}"
    return text if "." in text else text + ".0"


def bounds(case):
    for i, (lo, hi) in enumerate(zip(case.lo, case.hi, strict=True)):
        yield f"(>= X_{i} {number(lo)})"
        yield f"(<= X_{i} {number(hi)})"


def atoms(case):
    return [f"({op} {left} {right})" for op, left, right in case.atoms]


def text(spec):
    """The VNN-LIB 1.0 file."""
    lines = [f"; Violated when {spec.title}.", ""]
    lines += [f"(declare-const X_{i} Real)" for i in range(PIXELS)]
    lines += [f"(declare-const Y_{i} Real)" for i in range(CLASSES)]
    if not spec.box_in_case:
        lines += ["", "; Pixels, row by row"]
        lines += [f"(assert {b})" for b in bounds(spec.cases[0])]
    lines += ["", "; Scores"]
    if spec.conjunction:
        lines += [f"(assert {a})" for a in atoms(spec.cases[0])]
        return "\n".join(lines) + "\n"
    lines.append("(assert (or")
    for case in spec.cases:
        parts = (list(bounds(case)) if spec.box_in_case else []) + atoms(case)
        lines.append(f"\t(and {' '.join(parts)})")
    lines.append("))")
    return "\n".join(lines) + "\n"


def margins(case, y):
    """[N]: how far scores `y` ([N, 10] in NumPy) are from this case; at or below 0 it holds."""
    gaps = []
    for op, left, right in case.atoms:
        a, b = (y[:, int(t[2:])] if t.startswith("Y_") else float(t) for t in (left, right))
        gaps.append(a - b if op == "<=" else b - a)
    return np.max(gaps, axis=0)
