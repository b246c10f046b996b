"""The reader of VNN-LIB 2.0 against the standard's own parser, against translations to VNN-LIB 1.0,
and against its formulas in rational numbers.

Needs GRAPESHOT_BUILD, a build folder with spec_probe.
"""

import collections
import os
import pathlib
import re
import subprocess
from fractions import Fraction

import pytest
from query_cases import Files

np = pytest.importorskip("numpy")
vnnlib = pytest.importorskip("vnnlib")

# What the grammar allows and the reader refuses: types that are not searched, numbers that mean
# nothing, and what contradicts itself.
REFUSALS = [
    r"the element type '.*' is not supported",
    r"the (index|size) .* is no whole number",
    r"a network is called .* already",
    r"the network .* is linked to another one already",
    r"has no (bounds|lower bound|upper bound)",
    r"the lower bound .* of .* (exceeds|is its upper bound too)",
    r"every disjunct contradicts",
    r"multiplies out to more than",
    r"has more than \d+ elements",
]


@pytest.fixture(scope="module")
def probe():
    build = os.environ.get("GRAPESHOT_BUILD")
    if not build:
        pytest.skip("GRAPESHOT_BUILD does not name a build folder")
    path = pathlib.Path(build) / "spec_probe"
    assert path.exists(), f"{path} is not built"
    return path


def ask(probe, mode, lines):
    done = subprocess.run(
        [probe, mode], input="".join(f"{line}\n" for line in lines), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    answers = done.stdout.splitlines()
    assert len(answers) == len(lines)
    return answers


def accepted(path):
    """What the standard's parser says; it also throws what std::stoi and its like do."""
    try:
        return vnnlib.parse_query_file(str(path)) is not None
    except (vnnlib.VNNLibException, ValueError, IndexError, UnicodeDecodeError):
        return False


def test_a_thousand_files_are_accepted_as_the_standards_parser_does(probe, tmp_path):
    counts, wrong = collections.Counter(), []
    paths = []
    for number in range(1000):
        files = Files(number)
        text = files.well_formed() if number % 2 == 0 else files.mutated()
        paths.append(tmp_path / f"{number}.vnnlib")
        paths[-1].write_text(text)
    for path, answer in zip(paths, ask(probe, "query", paths)):
        expected = accepted(path)
        verdict = answer.split(":")[0]
        counts[expected, verdict] += 1
        known = verdict != "refused" or any(re.search(each, answer) for each in REFUSALS)
        if expected != (verdict != "error") or not known:
            wrong.append(f"{path.name}: expected {expected}, got {answer}\n{path.read_text()}")
    print(dict(counts))
    assert not wrong, f"{len(wrong)} files\n" + "\n".join(wrong[:3])
    assert counts[True, "ok"] > 300 and counts[False, "error"] > 300


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("(<= Y[0] 1e-5)", 18),
        ("(<= Y[0] 1.5E+3)", 18),
        ("(= Y[0] 0.5)", 10),
        ("(not (<= Y[0] 0.5))", 10),
        ("(<= Y[0] 1)", 18),
        ("(<= Y 1.0)", 13),
        ("(<= Y[2] 1.0)", 13),
        ("(<= Z[0] 1.0)", 13),
        ("(and)", 13),
        ("(<= Y[0] 1.0 2.0)", 22),
        ("(<= Y[0] (+ ))", 21),
        ("(<= Y[0] 99999999999999999999.)", 38),
    ],
)
def test_what_it_rejects_is_named_by_line_and_column(probe, tmp_path, text, column):
    path = tmp_path / "q.vnnlib"
    path.write_text(
        "(vnnlib-version <2.0>)\n"
        "(declare-network f (declare-input X float32 []) (declare-output Y float32 [2]))\n"
        f"(assert {text})\n"
    )
    assert not accepted(path)
    (answer,) = ask(probe, "query", [path])
    assert re.match(rf"error: .*:3:{column}: ", answer), answer


def judge(probe, tmp_path, name, text, points):
    """A digit for each row of points."""
    spec, data = tmp_path / f"{name}.vnnlib", tmp_path / f"{name}.bin"
    spec.write_text(text)
    points.astype("<f4").tofile(data)
    return f"{spec} {data}"


def test_verdicts_are_those_of_the_translation_to_version_1(probe, tmp_path):
    lines = []
    rng = np.random.default_rng(1)
    for number in range(200):
        two, one, n, k = Files(number).both_versions()
        values = np.array([-1.1, -1, -0.5, 0, 0.1, 0.5, 0.7, 1, 1.1], np.float32)
        points = rng.choice(values, (60, n + k))
        lines.append(judge(probe, tmp_path, f"two{number}", two, points))
        lines.append(judge(probe, tmp_path, f"one{number}", one, points))
    answers = ask(probe, "judge", lines)
    digits = "".join(answers[::2])
    same = [
        (a, b)
        for a, b in zip(answers[::2], answers[1::2])
        if a != b and not (a.startswith("error") and b.startswith("error"))
    ]
    assert not same
    assert digits.count("1") > 300 and digits.count("0") > 300


class Meaning:
    """A formula of S-expressions, in rational numbers."""

    def __init__(self, text):
        self.tokens = re.findall(r"[()]|[^\s()]+", text)
        self.tree = self.parse()

    def parse(self):
        token = self.tokens.pop(0)
        if token != "(":
            return token
        out = []
        while self.tokens[0] != ")":
            out.append(self.parse())
        self.tokens.pop(0)
        return out

    def value(self, tree, at):
        if isinstance(tree, str):
            return at[tree] if tree in at else Fraction(tree)
        op, *rest = tree
        values = [self.value(each, at) for each in rest]
        if op == "-" and len(values) == 1:
            return -values[0]
        out = values[0]
        for each in values[1:]:
            out = out + each if op == "+" else out - each if op == "-" else out * each
        return out

    def holds(self, at, tree=None):
        op, *rest = tree or self.tree
        if op in ("and", "or"):
            return (all if op == "and" else any)(self.holds(at, each) for each in rest)
        a, b = (self.value(each, at) for each in rest)
        return {"<=": a <= b, ">=": a >= b, "<": a < b, ">": a > b, "==": a == b, "!=": a != b}[op]


def test_polynomials_are_judged_exactly(probe, tmp_path):
    lines, expected = [], []
    for number in range(150):
        files = Files(1000 + number)
        # Elements of one type: two inputs, two outputs; values on a grid, so that much is equal.
        files.variables = [("X", "real", [2], "input"), ("Y", "real", [2], "output")]
        # In a disjunction, where inputs that are equal stay two. A bound that is no float32 means
        # the nearest one, which rational numbers do not know.
        formula = f"(or {files.formula()} {files.formula()})"
        while "==" in formula and "0.1" in formula:
            formula = f"(or {files.formula()} {files.formula()})"
        text = (
            "(vnnlib-version <2.0>)\n"
            "(declare-network f (declare-input X real [2]) (declare-output Y real [2]))\n"
            + files.bounds()
            + f"(assert {formula})\n"
        )
        rng = np.random.default_rng(number)
        points = rng.choice(np.array([-1, -0.5, 0, 0.1, 0.25, 1, 2, 3], np.float32), (80, 4))
        lines.append(judge(probe, tmp_path, str(number), text, points))
        meaning = Meaning(formula)
        names = ["X[0]", "X[1]", "Y[0]", "Y[1]"]
        expected.append(
            "".join(
                "01"[meaning.holds({n: Fraction(float(v)) for n, v in zip(names, point)})]
                for point in points
            )
        )
    wrong = [
        (line, answer, digits)
        for line, answer, digits in zip(lines, ask(probe, "judge", lines), expected)
        if answer != digits and "contradicts" not in answer and "exceeds" not in answer
        and "upper bound" not in answer
    ]  # fmt: skip
    assert not wrong, "\n".join(map(str, wrong[:3]))
    digits = "".join(expected)
    assert digits.count("1") > 1000 and digits.count("0") > 1000
