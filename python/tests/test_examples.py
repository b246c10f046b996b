"""The examples and the notebook run to their end."""

import os
import pathlib
import re
import subprocess
import sys

import pytest
from conftest import BUILD, ROOT

FOLDER = ROOT / "examples" / "python"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(BUILD / "python")}


@pytest.mark.parametrize("script", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_a_script_runs(script, tmp_path):
    pytest.importorskip("sklearn")
    done = subprocess.run(
        [sys.executable, "-W", "error", script],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout and not list(tmp_path.iterdir())


def test_the_notebook_runs(tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    pytest.importorskip("ipykernel")
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    monkeypatch.setenv("PYTHONPATH", str(BUILD / "python"))
    for name in ("JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "JUPYTER_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    book = nbformat.read(FOLDER / "quickstart.ipynb", as_version=4)
    nbclient.NotebookClient(book, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    texts = [str(output) for cell in book.cells for output in cell.get("outputs", [])]
    assert any(re.search(r"\d+ of \d+ broken", text) for text in texts)
    assert any("is read as" in text for text in texts)


def test_the_notebook_is_kept_without_outputs():
    nbformat = pytest.importorskip("nbformat")
    book = nbformat.read(pathlib.Path(FOLDER / "quickstart.ipynb"), as_version=4)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in book.cells)
