"""The arithmetic of bench/: statistics against SciPy's and textbook values, tables and figures."""

import math
import sys
import xml.etree.ElementTree

import pytest
from conftest import ROOT
from program import grapeshot

pytest.importorskip("scipy")
sys.path.insert(0, str(ROOT / "bench"))
import common  # noqa: E402
import criteria  # noqa: E402
import paper_tables  # noqa: E402


def results(*curves):
    return [
        {
            "curve": curve,
            "seconds": curve[-1][0],
            "violations": curve[-1][1],
            "distinct_violations": 1,
            "instances_falsified": 1,
            "instances": 2,
            "ttfv_s": 0.5,
            "coverage": {"nc": 0.25},
            "candidates_per_s": 10.0,
            "inputs_checked": 100,
        }
        for curve in curves
    ]


def test_an_effect_is_a_difference_in_pooled_standard_deviations():
    assert paper_tables.cohens_d([2, 4, 6], [1, 3, 5]) == pytest.approx(0.5)
    assert paper_tables.cohens_d([1, 1], [1, 1]) == 0.0
    assert paper_tables.cohens_d([2, 2], [1, 1]) == math.inf
    assert paper_tables.cohens_d([1, 1], [2, 2]) == -math.inf


def test_five_runs_that_do_not_overlap_have_the_smallest_p_there_is():
    assert paper_tables.mann_whitney([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]) == pytest.approx(2 / 252)
    assert paper_tables.mann_whitney([1, 1, 1], [1, 1, 1]) == 1.0


def test_p_values_are_adjusted_as_benjamini_and_hochberg_do():
    assert paper_tables.benjamini_hochberg([0.01, 0.04, 0.03, 0.5]) == pytest.approx(
        [0.04, 4 / 3 * 0.04, 4 / 3 * 0.04, 0.5]
    )


@pytest.mark.parametrize(
    ("d", "p", "sign"),
    [(7, 0.01, "✓"), (-10, 0.01, "✗✗"), (20, 0.01, "✓✓✓"), (20, 0.06, "≡"), (5, 0.01, "≡")],
)
def test_marks_grow_with_the_effect_where_it_is_significant(d, p, sign):
    assert paper_tables.mark(d, p, (6, 9, 13)) == sign


def test_a_matrix_is_antisymmetric():
    table = paper_tables.matrix({"a": [1, 2, 3, 4, 5], "b": [11, 12, 13, 14, 15]}, (0.2, 0.5, 0.8))
    rows = [[c.strip() for c in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    assert rows == [["a (3.0)", "—", "✗✗✗"], ["b (13.0)", "✓✓✓", "—"]]


def test_violations_at_a_time_follow_groups_one_after_the_other():
    groups = results([(1, 10), (2, 20)], [(1, 5), (2, 7)])
    assert [paper_tables.violations_at(groups, t) for t in (0.5, 1, 2, 3, 4, 99)] == [0, 10, 20, 25, 27, 27]


def test_table5_compares_at_shares_of_the_sequential_time():
    by = {
        "Seq-Fixed": results([(5, 1), (10, 100)]),
        "Batch-Iso": results([(1, 50)]),
        "Batch-Ani": results([(1, 60)]),
    }
    rows = paper_tables.table5({"table4": {"set": by}}, (0.1, 1.0)).splitlines()[2:]
    assert [row.split("|")[2].strip() for row in rows] == ["+50/+60", "-50/-40"]


def test_the_figure_is_an_image_with_a_line_for_every_method_and_panel():
    by = {m: results([(1, 50), (2, 60)], [(1, 3)]) for m in paper_tables.METHODS}
    root = xml.etree.ElementTree.fromstring(paper_tables.figure6("a < b".replace("<", "and"), by))
    lines = [e for e in root if e.tag.endswith("polyline")]
    assert len(lines) == 6
    for line in lines:
        xs = [float(p.split(",")[0]) for p in line.get("points").split()]
        assert xs == sorted(xs)


def test_an_unknown_measurement_is_named_with_the_known_ones():
    done = grapeshot("bench", "nothing", status=2)
    assert "no measurement is called nothing; known: " in done.stderr
    assert "paper" in done.stderr and "throughput" in done.stderr


def test_a_budget_of_nothing_is_refused():
    assert "--budget" in grapeshot("bench", "paper", "--budget", "-1", status=2).stderr


def test_a_table_takes_its_place_in_the_readme_and_leaves_the_rest(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text("a\n<!-- bench: x -->\nold\n<!-- end -->\nb\n<!-- bench: y -->\n<!-- end -->\nc\n")
    common.show_in_readme("x", "| 1 |", readme)
    common.show_in_readme("y", "| 2 |", readme)
    common.show_in_readme("z", "| 3 |", readme)
    assert readme.read_text() == (
        "a\n<!-- bench: x -->\n| 1 |\n<!-- end -->\nb\n<!-- bench: y -->\n| 2 |\n<!-- end -->\nc\n"
    )


def test_a_driver_is_marked_where_five_seeds_tell_it_from_no_guidance():
    def runs(*areas):
        return [(area, 3, ["command"]) for area in areas]

    seen = {
        "none": runs(0.5, 0.51, 0.52, 0.53, 0.54),
        "better": runs(0.6, 0.61, 0.62, 0.63, 0.64),
        "worse": runs(0.1, 0.11, 0.12, 0.13, 0.14),
        "same": runs(0.5, 0.51, 0.52, 0.53, 0.54),
        "absent": [],
    }
    rows = criteria.column(seen)
    assert rows["none"] == ["0.520", "3.0", ""]
    assert rows["better"][2].endswith(" +") and rows["worse"][2].endswith(" -")
    assert rows["same"][2] == "1"
    assert rows["absent"] == ["-", "-", "-"]
