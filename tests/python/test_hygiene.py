"""Rules that every file of the repository keeps."""

import re
import subprocess

import pytest
from conftest import ROOT

MOST_LINES = 500
CODE = {".cpp", ".h", ".py", ".cmake", ".sh"}
TEXT = CODE | {".md", ".txt", ".json", ".toml", ".yml", ".csv", ".vnnlib", ""}
# Absolute paths of one machine: a checkout must work anywhere.
FOREIGN = re.compile(r"(?<![\w.])/(work|home/\w+|root)/")


def files():
    """Tracked and new files, without what git ignores; all files where there is no git."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        names = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [ROOT / n for n in names if (ROOT / n).is_file()]


def test_no_source_file_is_too_long():
    long = {
        str(p.relative_to(ROOT)): n
        for p in files()
        if p.suffix in CODE and (n := p.read_text().count("\n")) > MOST_LINES
    }
    assert not long, f"more than {MOST_LINES} lines: {long}"


def test_no_text_names_a_path_of_some_machine():
    found = [
        f"{p.relative_to(ROOT)}:{number}"
        for p in files()
        if p.suffix in TEXT and p.name not in ("LICENSE", "test_hygiene.py")
        for number, line in enumerate(p.read_text(errors="replace").splitlines(), 1)
        if FOREIGN.search(line)
    ]
    assert not found


def test_text_ends_with_one_newline_and_has_no_trailing_spaces():
    bad = []
    for path in files():
        if path.suffix in TEXT and path.name != "LICENSE":
            text = path.read_text(errors="replace")
            if text and (
                not text.endswith("\n") or text.endswith("\n\n") or re.search(r"[ \t\r]\n", text)
            ):
                bad.append(str(path.relative_to(ROOT)))
    assert not bad


def test_every_source_file_starts_with_what_it_is_for():
    wanted = {
        p: f"// {p.relative_to(ROOT)}: "
        for p in files()
        if p.suffix == ".h" and p.is_relative_to(ROOT / "grapeshot")
    }
    bad = [
        str(p.relative_to(ROOT))
        for p, start in wanted.items()
        if not p.read_text().startswith(start)
    ]
    assert not bad


def test_large_files_stay_out():
    large = {
        str(p.relative_to(ROOT)): p.stat().st_size for p in files() if p.stat().st_size > 300_000
    }
    assert not large
