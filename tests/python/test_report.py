"""`grapeshot report`: what its formats say, read by others' readers; gates; folders that are damaged."""

import json
import os
import re
import subprocess
import sys

import pytest
from program import BREAKABLE, INSTANCES, MLP, ROBUST, grapeshot, grapeshot_json, needs_program
from report_runs import HOSTILE, data_of, finding, hostile_run, make_run, page_of, pictures_run

np = pytest.importorskip("numpy")

pytestmark = needs_program


def report(run, *args, status=0):
    return grapeshot("report", run, *args, status=status).stdout


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """A real run over all example networks, with the page that it wrote by itself."""
    out = tmp_path_factory.mktemp("report") / "run"
    grapeshot("fuzz", "--instances", INSTANCES, "--candidates", 20000, "--out", out, status=1)
    return out


# --- HTML ------------------------------------------------------------------------------------------


def test_pages_are_valid_html_with_a_strict_policy_and_load_nothing(digits, tmp_path):
    html5lib = pytest.importorskip("html5lib")
    empty = make_run(tmp_path / "empty", [], names=["s"])
    for run in (digits, hostile_run(tmp_path / "hostile"), empty):
        page = page_of(run)
        html5lib.HTMLParser(strict=True).parse(page)
        policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        # Nothing but the data images that the policy allows has an address.
        assert not re.search(r"""(src|href)=["']?(https?:|//)""", page)
        assert not re.search(r"<[a-z]+ [^>]*\bon\w+=", page)


def test_markup_in_names_stays_text(tmp_path):
    run = hostile_run(tmp_path / "run")
    page = page_of(run, "--names", write(tmp_path / "names", HOSTILE.replace("\u2028", "") + "\n"))
    outside = page[: page.index('<script type="application/json"')]
    assert "<script>alert" not in page and "&lt;script&gt;alert(1)" in outside
    shown = data_of(page)
    assert shown["instances"][0][1] == HOSTILE
    assert {HOSTILE, "Y_0 (" + HOSTILE.replace("\u2028", "") + ") <= Y_1"} & {
        f["w"] for f in shown["findings"]
    }


def write(path, text):
    path.write_text(text)
    return path


def test_fuzz_writes_the_page_unless_told_not_to(digits, tmp_path):
    page = (digits / "report.html").read_text()
    summary = json.loads((digits / "summary.json").read_text())
    broken, all_ = summary["instances_falsified"], summary["instances"]
    assert f"<h1>{broken} of {all_} instances broken</h1>" in page
    shown = data_of(page)
    assert [f["id"] for f in shown["findings"]] == summary["findings"]
    assert sorted(i for c in shown["clusters"] for i in c["f"]) == list(range(broken))
    grapeshot(
        "fuzz", MLP, ROBUST, "--candidates", 500, "--no-report", "--out", tmp_path / "run", status=0
    )
    assert not (tmp_path / "run" / "report.html").exists()


def test_the_columns_of_data_in_instances_csv_are_no_reason_for_no_page(tmp_path):
    place = tmp_path / "run"
    data = MLP.parent / "data"
    grapeshot(
        "fuzz", MLP, "--data", data / "X.npy", "--limit", 3, "--eps", ".1,.9",
        "--candidates", 200, "--threads", 1, "--out", place,
    )
    assert len(data_of((place / "report.html").read_text())["instances"]) == 6


def test_outputs_before_and_after_are_those_of_onnx_runtime(digits):
    onnxruntime = pytest.importorskip("onnxruntime")
    shown = data_of((digits / "report.html").read_text())
    for each in shown["findings"]:
        folder = digits / "findings" / each["id"]
        about = json.loads((folder / "finding.json").read_text())
        session = onnxruntime.InferenceSession(about["model"])
        given = session.get_inputs()[0]
        shape = [d if isinstance(d, int) else 1 for d in given.shape]
        for column, name in ((1, "original.npy"), (2, "input.npy")):
            x = np.load(folder / name).reshape(shape)
            (y,) = session.run(None, {given.name: x})
            np.testing.assert_allclose(
                [row[column] for row in each["y"]], y.ravel(), rtol=1e-3, atol=1e-4
            )
        if about["property"] == "top1":
            before, after = each["c"]
            assert before != after and after == f"class {np.argmax(about['outputs'])}"


def test_findings_are_grouped_by_what_they_violate_and_which_way_they_went(tmp_path):
    draw = np.random.default_rng(2)
    one, other = draw.normal(size=(2, 40))
    findings = []
    for i in range(12):
        violated = "Y_0 <= Y_1" if i < 8 else "Y_0 <= Y_2"
        way = one if i % 2 else other
        original = draw.normal(size=40)
        x = original + way + draw.normal(0, 0.1, 40)
        findings.append(finding(i, x, original, violated=violated, margin=-float(i)))
    clusters = data_of(page_of(make_run(tmp_path / "run", findings)))["clusters"]
    groups = {c["t"]: c["f"] for c in clusters}
    assert sorted(map(sorted, groups.values())) == [[0, 2, 4, 6], [1, 3, 5, 7], [8, 10], [9, 11]]
    assert all("direction" in title for title in groups)
    # The deepest violation comes first.
    assert all(f == sorted(f, reverse=True) for f in groups.values())


def test_names_of_classes_and_features_are_shown(tmp_path):
    x = np.zeros(5)
    run = make_run(tmp_path / "run", [finding(0, x + [0, 0.5, 0, -2, 0], x)])
    classes = write(tmp_path / "classes", "cat\r\ndog\n")
    features = write(tmp_path / "features", "a\nb\nc\nage\ne\n")
    (shown,) = data_of(page_of(run, "--names", classes, "--features", features))["findings"]
    assert shown["c"] == ["cat", "dog"] and shown["w"] == "Y_0 (cat) <= Y_1 (dog)"
    assert shown["f"] == [["age", 0, -2], ["b", 0, 0.5]] and shown["l"][:3] == [2, 5, 2]


def test_large_runs_make_bounded_pages_that_say_so(tmp_path):
    page = page_of(pictures_run(tmp_path / "run", 120, (1, 3, 224, 224)))
    assert len(page) < 20 << 20
    drawn = sum("g" in f for f in data_of(page)["findings"])
    assert 10 < drawn < 120 and f"only {drawn} of 120 findings are drawn" in page
    page = page_of(tmp_path / "run", "--most-findings", 7)
    assert "Only 7 of 120 findings are looked at here." in page
    assert "<h1>120 of 121 instances broken</h1>" in page


def test_what_found_nothing_or_was_ended_says_so(tmp_path):
    page = page_of(make_run(tmp_path / "empty", [], names=["s0"]))
    assert "Nothing was found" in page and "<h1>0 of 1 instances broken</h1>" in page
    page = page_of(pictures_run(tmp_path / "interrupted", interrupted=True))
    assert "The run was interrupted after 5.5 s." in page
    killed = pictures_run(tmp_path / "killed")
    (killed / "summary.json").unlink()
    (killed / "instances.csv").unlink()
    with (killed / "stats.jsonl").open("a") as stats:
        stats.write('{"seconds": 6.0, "inst')  # it was writing
    page = page_of(killed)
    assert "it was killed, or it still runs" in page and "<h1>3 of 4 instances broken</h1>" in page
    assert "skipped=\"1\"" in report(killed, "--format", "junit")


def test_pairs_and_runs_of_diff_are_shown_as_such(tmp_path):
    examples = MLP.parent.parent / "properties"
    spec = examples / "diabetes_class_fairness.json"
    out = tmp_path / "pair"
    grapeshot("fuzz", examples / "diabetes_class.onnx", spec, "--seconds", 5, "--out", out, status=1)
    shown = data_of((out / "report.html").read_text())["findings"]
    assert shown and all(f["p"] and len(f["o"]) == 10 and len(f["y"]) == 2 for f in shown)
    assert "fairness" in report(out, "--format", "sarif")
    out = tmp_path / "diff"
    digits = MLP.parent / "data" / "X.npy"
    small = write_rows(tmp_path / "x.npy", digits, 6)
    grapeshot("diff", MLP, "--data", small, "--l2", 0.4, "--candidates", 9000, "--out", out, status=1)
    page = page_of(out)
    assert "of 6 images with findings near them" in page and "prediction" in page
    assert all(len(f["c"]) == 2 for f in data_of(page)["findings"])


def write_rows(path, source, count):
    np.save(path, np.load(source)[:count].reshape(count, -1))
    return path


# --- the others ------------------------------------------------------------------------------------


def test_junit_is_what_junitparser_reads(digits, tmp_path):
    junitparser = pytest.importorskip("junitparser")
    for run in (digits, hostile_run(tmp_path / "hostile")):
        out = tmp_path / "junit.xml"
        report(run, "--junit", out)
        suites = junitparser.JUnitXml.fromfile(str(out))
        about = json.loads((run / "run.json").read_text())
        cases = [case for suite in suites for case in suite]
        assert suites.tests == len(cases) == len(about["instances"])
        failed = [case for case in cases if case.result]
        ids = {p.name.split("-")[0] for p in (run / "findings").iterdir()}
        assert suites.failures == len(failed) == len(ids)
        assert all("/input.npy\ngrapeshot replay " in case.result[0].text for case in failed)
    assert cases[0].name == HOSTILE.replace("\x07", "\ufffd")


def test_sarif_keeps_to_its_schema_with_stable_rules_and_fingerprints(digits, tmp_path):
    sarif = pytest.importorskip("pydantic_sarif.model")
    log = sarif.StaticAnalysisResultsFormatSarifVersion210JsonSchema
    prints = []
    for run in (digits, hostile_run(tmp_path / "one"), hostile_run(tmp_path / "two")):
        text = report(run, "--format", "sarif")
        log.model_validate_json(text)
        (said,) = json.loads(text)["runs"]
        rules = {r["id"] for r in said["tool"]["driver"]["rules"]}
        assert said["results"] and {r["ruleId"] for r in said["results"]} <= rules
        prints.append([r["partialFingerprints"]["grapeshotInstance/v1"] for r in said["results"]])
        assert len(set(prints[-1])) == len(prints[-1])
    assert prints[1] == prints[2]
    assert "grapeshot/top1" in report(digits, "--format", "sarif")
    # Below the working folder paths are relative, so that they mean something in a checkout.
    root = MLP.parents[2]
    done = grapeshot("report", digits, "--format", "sarif", cwd=root, status=0)
    (said,) = json.loads(done.stdout)["runs"]
    place = said["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert (root / place["uri"]).is_file() and place["uriBaseId"] == "%SRCROOT%"


def test_markdown_is_short_and_takes_nothing_in_names_for_markup(digits, tmp_path):
    text = report(digits, "--format", "md")
    assert text.startswith("### Grapeshot: ") and len(text.splitlines()) < 90
    text = report(hostile_run(tmp_path / "run"), "--format", "md")
    plain = re.sub(r"`grapeshot replay [\w/.-]+`", "", text)
    assert "<script" not in plain and "[x](" not in plain and "`" not in plain
    assert all(line.count("|") in (0, 4) for line in text.split("\n"))


@pytest.fixture(scope="module")
def regressions(digits, tmp_path_factory):
    pytest.importorskip("onnxruntime")
    out = tmp_path_factory.mktemp("pytest") / "test_found.py"
    report(digits, "--pytest", out)
    return out


def run_tests(path, **environment):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", path.name]
    return subprocess.run(
        command, cwd=path.parent, capture_output=True, text=True, env=os.environ | environment
    )


def test_regression_tests_fail_while_the_models_still_break(digits, regressions):
    done = run_tests(regressions)
    broken = json.loads((digits / "summary.json").read_text())["instances_falsified"]
    assert f"{broken} failed" in done.stdout and "passed" not in done.stdout, done.stdout


def test_regression_tests_pass_once_a_model_is_mended(tmp_path):
    onnx = pytest.importorskip("onnx")
    run = tmp_path / "run"
    grapeshot("fuzz", MLP, BREAKABLE, "--candidates", 5000, "--out", run, status=1)
    out = tmp_path / "test_found.py"
    report(run, "--format", "pytest", "--out", out)
    assert "1 failed" in run_tests(out).stdout
    # The mended network says what the specification wants, whatever it is given.
    label = int(re.search(r"\(>= Y_\d+ Y_(\d+)\)", BREAKABLE.read_text())[1])
    weights = {"w": np.zeros((64, 10), np.float32), "b": np.eye(10, dtype=np.float32)[label]}
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Gemm", ["input", "w", "b"], ["y"])],
        "mended",
        [value("input", 1, ["batch", 64])],
        [value("y", 1, ["batch", 10])],
        [onnx.numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8
    )
    (tmp_path / "mended").mkdir()
    onnx.save(model, tmp_path / "mended" / MLP.name)
    done = run_tests(out, GRAPESHOT_MODELS=str(tmp_path / "mended"))
    assert "1 passed" in done.stdout, done.stdout


# --- gates -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "status"),
    [
        ("falsified>0", 1),
        ("falsified > 3", 0),
        ("falsified>=3", 1),
        ("falsified", 1),
        ("share>.9", 2),  # a decimal has a digit before its point
        ("share>0.7", 1),
        ("share<0.7", 0),
        ("findings==3", 1),
        ("coverage<0.5", 0),
        ("coverage<=0.6", 1),
        ("unfinished", 0),
        ("falsified>9,coverage<0.7", 1),
        ("nothing>0", 2),
        ("falsified>>0", 2),
        ("falsified>", 2),
        (",", 2),
        ("new", 2),
    ],
)
def test_gates_decide_the_exit_status(tmp_path, condition, status):
    run = pictures_run(tmp_path / "run")
    done = grapeshot("report", run, "--fail-on", condition, status=status)
    said = [line for line in done.stderr.splitlines() if "--fail-on" in line]
    assert len(said) == (status > 0), done.stderr
    assert (run / "report.html").exists() == (status < 2)


def test_new_counts_what_the_baseline_had_not(tmp_path):
    x = np.zeros(4)
    names = ["a", "b", "c"]
    before = make_run(tmp_path / "before", [finding(i, x + 1, x) for i in (0, 1)], names=names)
    # In another order: instances are told by their names.
    after = make_run(
        tmp_path / "after", [finding(i, x + 1, x) for i in (0, 1)], names=["c", "b", "a"]
    )
    gate = ("--fail-on", "new", "--baseline")
    done = grapeshot("report", after, *gate, before, status=1)
    assert "new is 1" in done.stderr
    grapeshot("report", before, *gate, before, status=0)
    grapeshot("report", after, *gate, tmp_path / "none", status=2)


def test_fuzz_takes_gates(tmp_path):
    fuzz = ("fuzz", MLP, BREAKABLE, "--candidates", 5000, "--quiet")
    grapeshot(*fuzz, "--out", tmp_path / "a", status=1)
    grapeshot(*fuzz, "--out", tmp_path / "b", "--fail-on", "falsified>1", status=0)
    done = grapeshot(*fuzz, "--out", tmp_path / "c", "--fail-on", "falsified", status=1)
    assert "falsified is 1" in done.stderr
    grapeshot(*fuzz, "--out", tmp_path / "d", "--fail-on", "flasified", status=2)
    grapeshot(*fuzz, "--out", tmp_path / "e", "--baseline", tmp_path / "a", status=2)
    assert not (tmp_path / "d").exists() and not (tmp_path / "e").exists()


def test_formats_and_gates_are_listed():
    names = {row["name"] for row in grapeshot_json("list", "reports", status=0)["reports"]}
    assert names == {"html", "md", "junit", "sarif", "pytest"}
    assert {"falsified", "new"} <= {
        row["name"] for row in grapeshot_json("list", "gates", status=0)["gates"]
    }


# --- damage ----------------------------------------------------------------------------------------


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def replace(path, **keys):
    path.write_text(json.dumps(json.loads(path.read_text()) | keys))


FIRST = "findings/0000-0000000000000000/"
DAMAGE = {
    "run.json": [
        cut,
        lambda p: replace(p, command="falsify"),
        lambda p: replace(p, models=5),
        lambda p: replace(p, instances=[{"model": 7, "name": "x"}]),
        lambda p: replace(p, instances=[{"model": -1, "name": "x"}]),
        lambda p: replace(p, machine={"grapeshot": []}),
    ],
    "summary.json": [cut, lambda p: replace(p, seconds="x"), lambda p: replace(p, coverage=[1])],
    "stats.jsonl": [lambda p: p.write_text('{"seconds": 1}\n'), lambda p: p.write_text("x\n{}\n")],
    "instances.csv": [cut, lambda p: p.write_text("a\n1,2\n"), lambda p: p.write_text("")],
    FIRST + "finding.json": [
        cut,
        lambda p: p.write_text("[]"),
        lambda p: replace(p, outputs=["x"]),
        lambda p: replace(p, tokens=[{}]),
        lambda p: replace(p, property=3),
    ],
    FIRST + "input.npy": [cut, lambda p: np.save(p, np.zeros(3, np.float32)), os.unlink],
    FIRST + "original.npy": [cut],
    "findings/nothing/finding.json": [lambda p: (p.parent.mkdir(), p.write_text("{}"))],
    "findings/9999-0/finding.json": [lambda p: (p.parent.mkdir(), p.write_text("{}"))],
}
CASES = [(name, i) for name, hurt in DAMAGE.items() for i in range(len(hurt))]


@pytest.mark.parametrize(("name", "which"), CASES)
def test_a_damaged_folder_is_one_sentence_that_names_the_file(tmp_path, name, which):
    run = pictures_run(tmp_path / "run")
    DAMAGE[name][which](run / name)
    done = grapeshot("report", run, status=2)
    assert len(done.stderr.splitlines()) == 1 and done.stdout == ""
    place = name.removesuffix("/finding.json") if "nothing" in name or "9999" in name else name
    assert place in done.stderr, done.stderr
    assert not (run / "report.html").exists()


def test_names_may_hold_commas_quotes_and_line_breaks(tmp_path):
    x = np.zeros(4)
    names = ["a,b", 'say "c",1,2,3,x', "two\nlines"]
    run = make_run(tmp_path / "run", [finding(2, x + 1, x)], names=names)
    shown = data_of(page_of(run))["instances"]
    assert [row[1] for row in shown] == names
    assert [row[4:6] for row in shown] == [[0.25, 100], [0.25, 101], [-0.5, 102]]


def test_wrong_usage_is_told(tmp_path):
    run = pictures_run(tmp_path / "run")
    for args, word in [
        ((tmp_path,), "no run.json"),
        ((tmp_path / "none",), "no run folder"),
        ((run, "--format", "pdf"), "no report format is called 'pdf'"),
        ((run, "--input-shape", "1,x"), "'x' is no dimension"),
        ((run, "--names", tmp_path / "none"), "no such file"),
        ((run, "--most-findings", 0), "--most-findings"),
        ((run, "--out", tmp_path / "none" / "r.html"), "r.html"),
        ((run, "--baseline", run), "--baseline goes with --fail-on"),
    ]:
        done = grapeshot("report", *args)
        assert done.returncode in (2, 3) and word in done.stderr, done.stderr
        assert len(done.stderr.splitlines()) == 1
