"""How much the paper's constants matter: alpha, beta, e_min, tau and the mutations' weights, five
values each, one at a time, on the groups of paper.py. `--seconds` is the budget of all runs."""

import statistics

import common
import paper

SEEDS = 3
PAGE = """# How much the paper's constants matter

Made by `grapeshot bench sensitivity --budget {budget:.0f}`; {window:.2f} s a window, mean of {seeds} seeds, `--mode batch-ani`, T = 10, on
{cores} cores ({processor}). One constant at a time; the paper's values are 10, 100, 0.1, 0.1 and .5/.2/.3.

{table}
"""
VALUES = {
    "--alpha": (0, 1, 10, 100, 1000),
    "--beta": (0, 10, 100, 1000, 10000),
    "--e-min": (0.001, 0.01, 0.1, 1, 10),
    "--tau": (0, 0.05, 0.1, 0.5, 1),
    "--weights": (
        *("gradient=.5,boundary=.2,random=.3", "gradient=1,boundary=0,random=0"),
        *("gradient=.8,boundary=.1,random=.1", "gradient=.2,boundary=.4,random=.4"),
        *("gradient=0,boundary=.4,random=.6",),
    ),
}


def run(seconds, repeats):
    del repeats
    sets = paper.at_hand(paper.SETS)
    groups = [(name, groups[0]) for name, groups in sets.items()]
    count = SEEDS * len(groups) * sum(len(values) for values in VALUES.values())
    window = max(seconds / count - 0.3, 0.2)
    common.say(f"{count} windows of {window:.2f} s")
    runner, rows = paper.Runner(), []
    for flag, values in VALUES.items():
        for value in values:
            row = [f"`{flag} {value}`"]
            for name, group in groups:
                said = [
                    runner.run(
                        {"set": name, "flag": flag, "value": value, "seed": seed},
                        group,
                        paper.batch_options("ani", window, seed, flag, value),
                    )
                    for seed in range(SEEDS)
                ]
                mean = lambda key, s=said: statistics.fmean(r[key] for r in s)  # noqa: E731
                row.append(f"{mean('violations'):.0f} / {mean('instances_falsified'):.1f}")
            rows.append(row)
    head = ["violations / instances falsified", *(f"{n} ({len(g[1])})" for n, g in groups)]
    table = common.table(head, rows)
    page = PAGE.format(budget=seconds, window=window, seeds=SEEDS, table=table, **common.machine())
    (common.ROOT / "docs/results/sensitivity.md").write_text(page)
    return {"window": window, "runs": runner.runs, "table": table}
