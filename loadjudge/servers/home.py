"""Where engine environments and prepared models live: one folder of the user's, not of a run's."""

import os
from pathlib import Path


def home() -> Path:
    """``LOADJUDGE_HOME``, else ``loadjudge`` in the user's cache folder (XDG)."""
    if given := os.environ.get("LOADJUDGE_HOME"):
        return Path(given).expanduser().absolute()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "loadjudge"
