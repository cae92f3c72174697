"""The factories of tests/factories.py, as the fixture ``make``."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest


@pytest.fixture(scope="session")
def make() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[1] / "factories.py")))
