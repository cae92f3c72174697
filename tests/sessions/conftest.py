"""The real files beside the repository, read in place."""

from collections.abc import Callable
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "sessions"


@pytest.fixture
def shared_file() -> Callable[[str], Path]:
    """The path of a shared file, or a skip where it is absent."""

    def find(name: str) -> Path:
        path = SHARED / name
        if not path.is_file():
            pytest.skip(f"{path} is not there")
        return path

    return find
