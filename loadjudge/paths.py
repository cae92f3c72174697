"""Where the data that ships lies: beside the package in a checkout, inside it in a wheel."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def data_root() -> Path:
    """The folder that holds ``sessions/``, ``servers/`` and ``gates/``."""
    checkout = _PACKAGE.parent
    return checkout if (checkout / "pyproject.toml").is_file() else _PACKAGE / "data"
