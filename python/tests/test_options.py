"""Options are the program's: names, defaults, values, messages."""

import json
import pathlib
import re
import sys

import numpy as np
import pytest
from conftest import DIGITS, ROOT, program

import grapeshot

MLP = DIGITS / "mlp.onnx"
SPEC = DIGITS / "vnnlib" / "mlp_top1_0_radius_0.18.vnnlib"
COMMANDS = ("fuzz", "falsify", "diff", "coverage")


def test_the_types_are_those_of_the_program():
    sys.path.insert(0, str(ROOT / "tools"))
    import make_python_options

    text = (ROOT / "python/grapeshot/_options.py").read_text()
    assert text == make_python_options.make(grapeshot.options), (
        "run PYTHONPATH=build/release/python python tools/make_python_options.py"
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_the_help_page_is_there(command):
    page = program(command, "--help").stdout
    shown = set(re.findall(r"^ +(?:-\w,)?--([\w-]+)", page, re.MULTILINE))
    here = {each["name"] for each in grapeshot.options(command)}
    elsewhere = {"data", "labels", "eps", "instances", "out", "json", "quiet"}
    general = {"help", "help-all", "verbose", "max-file-mib"}
    assert shown - elsewhere - general == here


def test_defaults_reach_the_run_as_from_the_command_line(tmp_path):
    program("fuzz", MLP, SPEC, "--candidates", 1, "--out", tmp_path / "a", "--threads", 1)
    grapeshot.fuzz(MLP, SPEC, candidates=1, out=tmp_path / "b", threads=1)
    a, b = (json.loads((tmp_path / n / "run.json").read_text())["options"] for n in "ab")
    assert a == b


def test_values_of_all_kinds_reach_the_run(tmp_path):
    grapeshot.fuzz(
        MLP,
        SPEC,
        candidates=np.int64(1),
        out=tmp_path / "run",
        keep_going=True,
        every_tap=False,
        scale_factor=np.float32(0.5),
        eta=1e-3,
        mutations=["descent", "random"],
        weights={"descent": 0.25},
        criteria=("nbc",)[:0],
        mode=None,
        batch=7,
    )
    options = json.loads((tmp_path / "run" / "run.json").read_text())["options"]
    assert options["keep-going"] is True and options["every-tap"] is False
    assert options["scale-factor"] == 0.5 and options["eta"] == 1e-3 and options["batch"] == "7"
    assert options["mutations"] == "descent,random" and options["weights"] == "descent=0.25"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"second": 1}, "fuzz: no option is called 'second'; did you mean seconds?"),
        ({"zzz": 1}, "fuzz: no option is called 'zzz'; grapeshot.options('fuzz') lists them"),
        ({"eps": 0.1}, "fuzz: eps is said by Specs.from_arrays(x, y, eps=...) here"),
        ({"json": True}, "fuzz: json is said by the result here"),
        ({"keep_going": 1}, "keep_going: 1 is neither True nor False"),
        ({"seconds": True}, "seconds: True is no value"),
        ({"seconds": object()}, "is no value of an option"),
        ({"seed": -1}, "must be at least 0"),
        ({"mutations": "nothing"}, "no mutation is called 'nothing'; known: "),
        ({"scale_factor": 2}, "--scale-factor must be in (0, 1]"),
        ({"seconds": "soon"}, "seconds"),
    ],
)
def test_wrong_options_are_said(given, message):
    with pytest.raises(ValueError) as error:
        grapeshot.fuzz(MLP, SPEC, **given)
    assert isinstance(error.value, grapeshot.Error) and message in str(error.value)


@pytest.mark.parametrize(
    "flags",
    [("--steps", "0"), ("--mutations", "nothing"), ("--threads", "-5"), ("--schedule", "x")],
    ids=lambda flags: flags[0],
)
def test_messages_are_the_programs(flags):
    said = program("fuzz", MLP, SPEC, *flags).stderr
    with pytest.raises(grapeshot.Error) as error:
        grapeshot.fuzz(MLP, SPEC, **{flags[0][2:]: flags[1]})
    assert said.startswith(f"grapeshot: {error.value}")


def test_nothing_stays_on_disk_after_an_error(tmp_path):
    with pytest.raises(grapeshot.Error):
        grapeshot.fuzz(MLP, SPEC, out=tmp_path / "run", steps=0)
    assert not (tmp_path / "run").exists()


def test_a_word_of_python_takes_an_underscore(digits):
    result = grapeshot.diff(MLP, digits[0], lambda_=0.1, candidates=8)
    assert result.summary["command"] == "diff"


def test_stubs_name_what_the_module_has():
    stub = (pathlib.Path(grapeshot.__file__).parent / "_core.pyi").read_text()
    public = [name for name in dir(grapeshot._core) if not name.startswith("_")]
    assert all(f" {name}(" in stub or f"{name}:" in stub for name in public), public
