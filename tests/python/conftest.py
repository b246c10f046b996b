"""What all Python tests share: where things are, and which tests need models from elsewhere."""

import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"


def pytest_configure(config):
    config.addinivalue_line("markers", "shared: needs the benchmark models in ../shared")


def pytest_collection_modifyitems(items):
    if not SHARED.is_dir():
        for item in items:
            if "shared" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="../shared is not there"))


@pytest.fixture(scope="session")
def root():
    return ROOT
