"""Files that are written whole or not at all."""

import os
import tempfile
from pathlib import Path

from loadjudge.errors import JudgeError


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file beside its place and moves it there. Raises JudgeError where it can't."""
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
                os.fchmod(file.fileno(), 0o644)
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as e:
        raise JudgeError(f"{path} can't be written: {(e.strerror or str(e)).lower()}") from None
