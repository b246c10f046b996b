#!/usr/bin/env python3
"""Writes python/grapeshot/_options.py: the options of commands as types, from the program's own tables.

usage: PYTHONPATH=build/release/python tools/make_python_options.py [FILE]
"""

import keyword
import pathlib
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[1]
FILE = ROOT / "python/grapeshot/_options.py"

HEAD = '''"""Options of the program as types, for editors and type checkers.

Made by tools/make_python_options.py; a test compares it with the program.
"""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, TypedDict

# Names joined by commas, and files of numbers.
Text = str | PathLike | Sequence | Mapping[str, float]
Array = Any
'''

TYPES = {"FLAG": "bool", "INT": "int", "UINT": "int", "FLOAT": "float"}


def type_of(option):
    kind = option["type"].split(":")[0].split(" ")[0]
    if ".npy" in option["help"]:
        return "Array"
    return TYPES.get(kind, "Text | int")


def make(options, commands=("fuzz", "falsify", "diff", "coverage")):
    """The text of the file; ``options(command)`` lists options."""
    out = [HEAD]
    for command in commands:
        out.append(f"\n\nclass {command.capitalize()}Options(TypedDict, total=False):\n")
        for option in options(command):
            name = option["name"].replace("-", "_")
            name += "_" if keyword.iskeyword(name) else ""
            shown = f" ({option['default']})" if option["default"] not in ("", "false") else ""
            lines = textwrap.wrap(option["help"] + shown, 92)
            out.append("".join(f"    # {line}\n" for line in lines))
            out.append(f"    {name}: {type_of(option)} | None\n")
    return "".join(out)


if __name__ == "__main__":
    import grapeshot

    target = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    target.write_text(make(grapeshot.options))
