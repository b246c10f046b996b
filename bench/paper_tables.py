"""Tables, figure and statistics of paper.py: numbers in, Markdown and SVG out."""

import math
import statistics

import common

KEYS = (
    *("candidates", "candidates_per_s", "inputs_checked", "violations", "distinct_violations"),
    *("instances_falsified", "ttfv_s", "coverage", "seconds"),
)

# What the paper prints in Table 4: violations, time to the first, coverage in %, candidates per second;
# on a 96 GB GPU, 60 s a group, Seq-Fixed 60 s an instance.
PUBLISHED = [
    ["TrafficSigns", "Seq-Fixed", 19229, 60.12, 100, 79.6],
    ["TrafficSigns", "Batch-Iso", 73316, 0.06, 100, 407.3],
    ["TrafficSigns", "Batch-Ani", 75208, 0.06, 100, 417.9],
    ["Cifar100", "Seq-Fixed", 14562, 60.14, 57.19, 15.2],
    ["Cifar100", "Batch-Iso", 60242, 0.60, 64.06, 516.4],
    ["Cifar100", "Batch-Ani", 61527, 0.60, 64.07, 524.0],
    ["TinyImageNet", "Seq-Fixed", 16890, 60.18, 59.04, 10.9],
    ["TinyImageNet", "Batch-Iso", 23125, 1.20, 70.04, 395.1],
    ["TinyImageNet", "Batch-Ani", 25274, 1.09, 70.04, 430.7],
]
METHODS = ("Seq-Fixed", "Batch-Iso", "Batch-Ani")


# --- statistics ------------------------------------------------------------------------------------


def cohens_d(a, b):
    """The difference of the means in units of the pooled standard deviation; infinite when neither
    varies and they differ."""
    spread = math.sqrt(
        ((len(a) - 1) * statistics.variance(a) + (len(b) - 1) * statistics.variance(b))
        / (len(a) + len(b) - 2)
    )
    gap = statistics.fmean(a) - statistics.fmean(b)
    if spread == 0.0:
        return 0.0 if gap == 0.0 else math.copysign(math.inf, gap)
    return gap / spread


def mann_whitney(a, b):
    """Two-sided p-value."""
    from scipy.stats import mannwhitneyu

    if len(set(a) | set(b)) == 1:
        return 1.0
    return float(mannwhitneyu(a, b, alternative="two-sided").pvalue)


def benjamini_hochberg(p):
    from scipy.stats import false_discovery_control

    return list(false_discovery_control(p)) if p else []


def mark(d, adjusted, thresholds):
    """The paper's signs: one to three ticks or crosses by the size of the effect, else an equivalence."""
    grade = sum(abs(d) >= t for t in thresholds)
    if adjusted > 0.05 or grade == 0:
        return "≡"
    return ("✓" if d > 0 else "✗") * grade


# --- tables ----------------------------------------------------------------------------------------


def total(results, key):
    return sum(r[key] for r in results)


def coverage_of(results):
    return statistics.fmean(next(iter(r["coverage"].values()), 0.0) for r in results)


def table3(found):
    rows = []
    for name, groups in found["sets"].items():
        for model, specs in groups:
            shape, parameters = found["shapes"][model]
            short = model.rsplit("/", 1)[-1].split(".onnx")[0]
            rows.append([f"{name}: {short[:48]}", shape, f"{parameters:,}", len(specs)])
    return common.table(["group", "input", "parameters", "B"], rows)


def table4(found):
    rows = []
    for name, by in found["table4"].items():
        seq = by["Seq-Fixed"]
        rate_of = lambda rs: statistics.fmean(r["candidates_per_s"] for r in rs)  # noqa: E731
        for method in METHODS:
            results = by[method]
            first = [r["ttfv_s"] for r in results if r["ttfv_s"] is not None]
            rows.append(
                [
                    *(f"{name}, {method}", f"{total(results, 'violations'):,}"),
                    f"{total(results, 'distinct_violations'):,}",
                    f"{total(results, 'instances_falsified')} of {total(results, 'instances')}",
                    *(f"{min(first):.2f}" if first else "-", f"{100 * coverage_of(results):.1f}"),
                    *(f"{rate_of(results):.1f}", f"{rate_of(results) / rate_of(seq):.1f}"),
                    f"{total(results, 'violations') / max(total(seq, 'violations'), 1):.1f}",
                    f"{total(results, 'inputs_checked'):,}",
                ]
            )
    head = ["set, method", "violations", "distinct", "instances falsified", "first after s"]
    head += ["coverage %", "candidates/s", "× Seq", "violations × Seq", "inputs checked"]
    return common.table(head, rows)


def violations_at(results, seconds):
    """Of groups that are run one after the other, each with a curve of (seconds, violations)."""
    count, before = 0, 0.0
    for r in results:
        seen = [v for t, v in r["curve"] if before + t <= seconds]
        count += max(seen, default=0)
        before += r["seconds"]
    return count


def table5(found, shares):
    """Violations more than Seq-Fixed at shares of its whole time. A batch mode that is over stays at
    what it had."""
    rows = []
    for share in shares:
        row = [f"{share:.1%} of Seq-Fixed's time"]
        for by in found["table4"].values():
            at = share * total(by["Seq-Fixed"], "seconds")
            seq = violations_at(by["Seq-Fixed"], at)
            gains = [violations_at(by[m], at) - seq for m in METHODS[1:]]
            row.append("/".join(f"{g:+,}" for g in gains))
        rows.append(row)
    return common.table(["time", *found["table4"]], rows)


def table6(found, scales):
    rows = []
    for name, by in found["table6"].items():
        for mode, counts in by.items():
            rows.append([f"{name}, Batch-{mode.capitalize()}", *(f"{c:,}" for c in counts)])
    return common.table(["violations at s =", *map(str, scales)], rows)


def matrix(yields, thresholds):
    names = list(yields)
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    adjusted = benjamini_hochberg([mann_whitney(yields[a], yields[b]) for a, b in pairs])
    p = {frozenset(pair): q for pair, q in zip(pairs, adjusted, strict=True)}
    rows = []
    for a in names:
        cells = [
            "—" if a == b else mark(cohens_d(yields[a], yields[b]), p[frozenset((a, b))], thresholds)
            for b in names
        ]
        rows.append([f"{a} ({statistics.fmean(yields[a]):.1f})", *cells])
    return common.table(["", *names], rows)


def claim_table(found, scales):
    parts = []
    for name, by in found["claim"].items():
        rows, p = [], []
        for s in scales:
            fixed, iso, ani = (by[scale, s] for scale in ("fixed", "iso", "ani"))
            p += [mann_whitney(ani, iso), mann_whitney(ani, fixed)]
            rows.append([s, *(f"{statistics.fmean(v):.1f}" for v in (fixed, iso, ani))])
        adjusted = benjamini_hochberg(p)
        for i, row in enumerate(rows):
            row += [f"{adjusted[2 * i]:.3f}", f"{adjusted[2 * i + 1]:.3f}"]
        head = [f"{name}: s", "fixed", "iso", "ani", "p ani/iso", "p ani/fixed"]
        parts.append(common.table(head, rows))
    return "\n\n".join(parts)


# --- figure ----------------------------------------------------------------------------------------

COLORS = {"Seq-Fixed": "#8a8a8a", "Batch-Iso": "#2b6cb0", "Batch-Ani": "#c05621"}


def merged_curve(results):
    """(seconds, violations) of groups one after the other."""
    points, before, count = [(0.0, 0)], 0.0, 0
    for r in results:
        points += [(before + t, count + v) for t, v in r["curve"]]
        before += r["seconds"]
        count += r["violations"]
    return points


def figure6(name, by):
    """Cumulative violations over time: the first window, and all of Seq-Fixed on a log scale."""
    width, height, left, bottom = 360, 220, 60, 40
    curves = {m: merged_curve(by[m]) for m in METHODS}
    short = max(curves["Batch-Iso"][-1][0], curves["Batch-Ani"][-1][0])
    longest = max(c[-1][0] for c in curves.values())
    most = max(v for c in curves.values() for _, v in c) or 1
    parts = []
    for panel, (limit, log) in enumerate(((short, False), (longest, True))):
        x0 = left + panel * (width + left)
        low = max(limit / 1000, 1e-3)

        def x_of(t, x0=x0, limit=limit, log=log, low=low):
            share = math.log(max(t, low) / low) / math.log(limit / low) if log else t / limit
            return x0 + width * min(max(share, 0.0), 1.0)

        def y_of(v):
            return 20 + height * (1 - v / most)

        parts.append(f'<rect x="{x0}" y="20" width="{width}" height="{height}" fill="none" stroke="#444"/>')
        for k in range(5):
            v = most * k / 4
            parts.append(f'<text x="{x0 - 6}" y="{y_of(v) + 4:.0f}" text-anchor="end">{v:,.0f}</text>')
            t = low * (limit / low) ** (k / 4) if log else limit * k / 4
            parts.append(
                f'<text x="{x_of(t):.0f}" y="{height + 36}" text-anchor="middle">{t:.3g} s</text>'
            )
        for method, curve in curves.items():
            seen = [(t, v) for t, v in curve if t <= limit * 1.001]
            seen.append((limit, seen[-1][1]))
            line = " ".join(f"{x_of(t):.1f},{y_of(v):.1f}" for t, v in seen)
            parts.append(f'<polyline points="{line}" fill="none" stroke="{COLORS[method]}" stroke-width="2"/>')
    for k, method in enumerate(METHODS):
        parts.append(
            f'<text x="{left + 10 + 110 * k}" y="14" fill="{COLORS[method]}">{method}</text>'
        )
    total_width, total_height = 2 * (width + left) + 20, height + bottom + 20
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total_width}" height="{total_height}" '
        f'font-family="sans-serif" font-size="11"><title>{name}: cumulative violations</title>'
        + "".join(parts)
        + "</svg>\n"
    )


# --- the page --------------------------------------------------------------------------------------


def page(found, machine, scales, shares):
    published = [[f"{s}, {m}", f"{v:,}", t, c, r] for s, m, v, t, c, r in PUBLISHED]
    figures = "\n".join(
        f"![{name}](paper/fig6-{name.lower().replace(' ', '-')}.svg)" for name in found["table4"]
    )
    sevens = "\n\n".join(
        f"{name}, marks at |d| of 6, 9 and 13:\n\n{matrix(yields, (6, 9, 13))}\n\n"
        f"{name}, marks at the usual |d| of .2, .5 and .8:\n\n{matrix(yields, (0.2, 0.5, 0.8))}"
        for name, yields in found["table7"].items()
    )
    head = ["the paper's, on a 96 GB GPU", "violations", "first after s", "coverage %", "candidates/s"]
    return f"""# The paper's experiments

Made by `grapeshot bench paper --budget {found["budget"]:.0f}`; {found["window"]:.2f} s a window, T = {found["steps"]}, on {machine["cores"]} cores ({machine["processor"]}), load {machine["load_before"]}
before. Batch modes have a window per group, Seq-Fixed one per instance.

## Table 3: groups

{table3(found)}

## Table 4: methods

{table4(found)}

{common.table(head, published)}

## Figure 6: cumulative violations

{figures}

## Table 5: violations more than Seq-Fixed, Iso/Ani

{table5(found, shares)}

## Table 6: scale factor

{table6(found, scales)}

## Table 7: batch size, violations for every row of the batch

Two-sided Mann-Whitney U, five runs, Benjamini-Hochberg at .05, Cohen's d; means in parentheses.

{sevens}

## Boxes of unequal widths: instances falsified by Fixed, Iso and Ani

Five seeds, 50 candidates an instance, all networks of a set in one campaign under the paper's schedule and mutations, one\nbatch mixing the boxes of a network's instances; a fixed step is s input units. p-values as above.

{claim_table(found, scales)}
"""
