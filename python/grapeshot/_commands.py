"""The program's commands as functions."""

import contextlib
import difflib
import functools
import json
import os
import pathlib
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Mapping
from typing import Unpack

import numpy as np
import torch

from . import _core
from ._errors import Error, GrapeshotWarning, InvalidArgument
from ._model import Model
from ._options import CoverageOptions, DiffOptions, FalsifyOptions, FuzzOptions
from ._result import Answer, Finding, Result
from ._specs import Specs

# Options that are said in another way here.
_ELSEWHERE = {
    "data": "the second argument",
    "labels": "Specs.from_arrays(x, y, eps=...)",
    "eps": "Specs.from_arrays(x, y, eps=...)",
    "instances": "Specs",
    "out": "out=",
    "json": "the result",
    "quiet": "progress=",
}


@functools.cache
def options(command):
    """The options of ``command``: a list of dicts with name, default, type and help.

    A dash is an underscore here; ``lambda_`` is the program's ``--lambda``.
    """
    return [each for each in _core.options(command) if each["name"] not in _ELSEWHERE]


def _text(name, kind, value, folder):
    """The value of an option as on a command line."""
    if kind == "FLAG":
        if not isinstance(value, (bool, np.bool_)):
            raise InvalidArgument(f"{name}: {value!r} is neither True nor False")
        return "true" if value else "false"
    if isinstance(value, (bool, np.bool_)):
        raise InvalidArgument(f"{name}: {value!r} is no value; it is of type {kind}")
    if isinstance(value, Mapping):
        return ",".join(f"{key}={each!r}" for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray) and value.ndim > 0:
        path = folder / f"{name}.npy"
        np.save(path, value)
        return str(path)
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.item()
    return repr(value) if isinstance(value, (int, float)) else os.fspath(value)


def _arguments(command, given, folder):
    """Options as the program's own arguments."""
    known = {each["name"].replace("-", "_"): each for each in options(command)}
    out = []
    for key, value in given.items():
        name = key.rstrip("_")
        if name not in known:
            raise InvalidArgument(_unknown(command, key, known))
        if value is None:
            continue
        try:
            text = _text(key, known[name]["type"], value, folder)
        except TypeError:
            raise InvalidArgument(f"{key}: {value!r} is no value of an option") from None
        flag = f"--{known[name]['name']}"
        out += [f"{flag}={text}"] if text else [flag, ""]  # an empty one would take what follows
    return out


def _unknown(command, key, known):
    if key in _ELSEWHERE:
        return f"{command}: {key} is said by {_ELSEWHERE[key]} here"
    near = difflib.get_close_matches(key, known, 1, 0.6)
    hint = f"; did you mean {near[0]}?" if near else f"; grapeshot.options('{command}') lists them"
    return f"{command}: no option is called '{key}'{hint}"


def _is_bar(progress):
    return hasattr(progress, "update") and hasattr(progress, "n")


def _listener(progress):
    """What is called with a line of JSON, for a function of a dict or a tqdm bar."""
    if progress is None:
        return None
    if _is_bar(progress):
        done = ("instances_falsified", "images_with_differences", "inputs")

        def advance(line):
            now = next((line[key] for key in done if key in line), 0)
            progress.update(now - progress.n)
            if "candidates" in line:
                progress.set_postfix(candidates=line["candidates"], refresh=False)

        return lambda text: advance(json.loads(text))
    if not callable(progress):
        raise InvalidArgument(f"progress: a {type(progress).__name__} is neither a function nor a bar")
    return lambda text: progress(json.loads(text))


class _Place:
    """Where a call keeps its files: the run folder, or one that goes with the result."""

    def __init__(self, out):
        self.temporary = out is None
        if self.temporary:
            self.path = pathlib.Path(tempfile.mkdtemp(prefix="grapeshot-"))
            weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)
        else:
            self.path = pathlib.Path(os.path.abspath(out))
            _core.check_is_new(os.fspath(out))
        self.inputs = self.path / "inputs"
        try:
            self.inputs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidArgument(f"{out}: cannot make the run folder: {error.strerror}") from None

    def put_model(self, model, name="model"):
        """The path that stands for ``model``."""
        if model.path:
            return model.path
        if model.bytes is not None:
            path = self.inputs / f"{name}.onnx"
            path.write_bytes(model.bytes)
        else:
            path = self.inputs / f"{name}.python"
            path.write_text(f"The Python function {model.name}; grapeshot.replay(run, model) replays it.\n")
        return str(path)

    def clear(self):
        """Takes away what nobody uses after an error."""
        with contextlib.suppress(OSError):
            for each in self.inputs.iterdir():
                each.unlink()
            self.inputs.rmdir()
            self.path.rmdir()


@contextlib.contextmanager
def _users_words(place):
    """Errors name arguments, not files that they were put into."""
    try:
        yield
    except Error as error:
        text = str(error)
        for path in sorted(place.inputs.glob("*"), key=lambda p: -len(str(p))):
            text = text.replace(str(path), path.stem if path.suffix == ".npy" else path.name)
        if not (place.path / "run.json").exists():
            place.clear()
        if text == str(error):
            raise
        raise type(error)(text) from error.__cause__


def _as_model(model, example=None):
    return model if isinstance(model, Model) else Model(model, example=None if _knows(model) else example)


def _knows(model):
    """Whether it says itself what it takes."""
    return isinstance(model, (str, os.PathLike, bytes, bytearray, memoryview))


def _as_specs(specs):
    if isinstance(specs, Specs):
        return specs
    if isinstance(specs, (str, os.PathLike)):
        return Specs.from_vnnlib(specs)
    if isinstance(specs, (list, tuple)) and all(isinstance(s, (str, os.PathLike)) for s in specs):
        return Specs.from_vnnlib(*specs)
    raise InvalidArgument(f"specs: a {type(specs).__name__} is neither Specs nor the path of a file")


def _run(command, models, arguments, given, progress, place):
    """(summary, findings of the first model's shape); ``models`` are Model objects."""
    paths = {place.put_model(m, f"model{i or ''}"): m for i, m in enumerate(models)}
    arguments = [*paths, *arguments, *_arguments(command, given, place.inputs)]
    handles = {path: m._core for path, m in paths.items()}
    hear = _listener(progress)
    with _users_words(place):
        text, found, notes = _core.call(command, arguments, handles, hear)
    if _is_bar(progress):
        hear(text)  # its end
    for note in notes:
        warnings.warn(note, GrapeshotWarning, stacklevel=3)
    return json.loads(text), [Finding(f, models[0].shape, place) for f in found]


def _for_callable(command, model, given):
    """Options that a Python function needs, and what to know of it."""
    if not model.is_callable:
        return given
    known = {each["name"] for each in options(command)}
    if given.get("threads", 1) not in (0, 1):
        raise InvalidArgument(f"threads: {model.name} is a Python function, which runs on one thread")
    defaults = {"threads": 1, "criterion": "none", "precision": "float32", "strategy": "none"}
    given = {**{k: v for k, v in defaults.items() if k in known}, **given}
    if model.has_gradient:
        return given
    if not model._told:
        model._told = True
        text = f"{model.name}: no gradient passes through it, so that only mutations without gradients move inputs"
        warnings.warn(text, GrapeshotWarning, stacklevel=3)
    if "weights" in known and given.get("mutations") in (None, "default", "paper"):
        given.setdefault("weights", dict.fromkeys(_core.gradient_mutations(), 0))
    return given


def fuzz(model, specs, *, out=None, progress=None, **given: Unpack[FuzzOptions]):
    """Looks for inputs that violate ``specs``, all instances at once.

    ``model``: a Model or what makes one; ``specs``: Specs, or paths of VNN-LIB files; ``out``: the
    run folder, as the program writes it, nothing is left without; ``progress``: called with a dict
    of numbers a few times a second, or a tqdm bar of ``len(specs)``. Other arguments are options of
    ``grapeshot fuzz``. Ctrl-C ends it in order: the result is returned and is ``interrupted``.
    """
    specs = _as_specs(specs)
    model = specs.model(_as_model(model, specs.example))
    given = _for_callable("fuzz", model, given)
    place = _Place(out)
    if place.temporary:
        given = {"checkpoint": 0, **given}
    arguments = [f"--out={place.path}", *map(str, specs.arguments(place.inputs))]
    summary, found = _run("fuzz", [model], arguments, given, progress, place)
    return Result(summary, found, model, place)


def falsify(model, specs, *, progress=None, **given: Unpack[FalsifyOptions]):
    """Looks for one counterexample of one specification; other arguments as `grapeshot falsify` has.

    ``timeout`` counts from the call. Ctrl-C ends it: the answer is then "unknown".
    """
    specs = _as_specs(specs)
    if len(specs) != 1:
        raise InvalidArgument(f"falsify answers for one instance; these are {len(specs)}")
    model = specs.model(_as_model(model, specs.example))
    given = _for_callable("falsify", model, given)
    place = _Place(None)
    arguments = [str(each) for each in specs.arguments(place.inputs)]
    if any(each.startswith("--") for each in arguments):
        raise InvalidArgument("falsify takes a VNN-LIB file, constraints or a margin; fuzz takes data")
    if model.is_callable:
        given = {"confirm": "none", **given}
    summary, found = _run("falsify", [model], arguments, given, progress, place)
    return Answer(summary, found[0] if found else None)


def _data(data, place):
    """The data of ``diff`` and ``coverage`` as arguments: an array, (x, y), or a path."""
    if isinstance(data, (str, os.PathLike)):
        return [f"--data={os.fspath(data)}"], None
    x, y = data if isinstance(data, tuple) and len(data) == 2 else (data, None)
    specs = Specs.from_arrays(x, y, eps=1.0)
    arguments = [a for a in map(str, specs.arguments(place.inputs)) if not a.startswith("--eps")]
    return arguments, specs.example


def diff(model, data, *others, out=None, progress=None, **given: Unpack[DiffOptions]):
    """Looks for inputs near ``data`` that are predicted otherwise (DLFuzz).

    ``data``: an array [N, ...], (x, labels), or the path of an .npy file; ``others``: more models
    of the same inputs and classes. Other arguments are options of ``grapeshot diff``.
    """
    place = _Place(out)
    arguments, example = _data(data, place)
    models = [_as_model(each, example) for each in (model, *others)]
    for each in models:
        given = _for_callable("diff", each, given)
    summary, found = _run("diff", models, [f"--out={place.path}", *arguments], given, progress, place)
    return Result(summary, found, models[0], place)


def coverage(model, data, *, progress=None, **given: Unpack[CoverageOptions]):
    """How much of the network ``data`` exercises: the object that `grapeshot coverage --json` prints."""
    place = _Place(None)
    arguments, example = _data(data, place)
    model = _as_model(model, example)
    if model.is_callable:
        raise InvalidArgument(f"{model.name} is a Python function: it has no layers to look into")
    return _run("coverage", [model], arguments, given, progress, place)[0]


def replay(path, model=None):
    """Confirms the findings of a run folder, or one finding, again; as `grapeshot replay --json`.

    ``model`` stands for that of the run where it was a Python function.
    """
    models = {}
    if model is not None and model.is_callable:
        for each in pathlib.Path(path).absolute().glob("**/inputs/model.python"):
            models[str(each)] = model._core
    text, _, _ = _core.call("replay", [os.fspath(path)], models, None)
    return json.loads(text)
