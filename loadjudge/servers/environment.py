"""An engine's virtual environment: made once, found again, gone on with after an interrupt.

It counts as finished from its marker on, which is written last. A pip that was interrupted leaves
a folder that pip itself can go on with; only one that has no pip yet is made anew.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic

from loadjudge.errors import JudgeError
from loadjudge.servers.kit import Kit
from loadjudge.servers.logtail import tail_of

MARKER = "finished.json"
Say = Callable[[str], None]


def is_finished(folder: Path) -> bool:
    """Whether an environment or a model was made to its end."""
    return (folder / MARKER).is_file()


def finish(folder: Path, facts: dict[str, object]) -> None:
    """Marks a folder as finished, on the disk."""
    partial = folder / f"{MARKER}.partial"
    with partial.open("w") as file:
        json.dump(facts, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(folder / MARKER)


def make_environment(kit: Kit, more: Sequence[str], folder: Path, log: Path, say: Say) -> None:
    """Makes the environment of a kit, with ``more`` requirements of one engine's own.

    Raises JudgeError with the end of pip's output.
    """
    table = kit.environment
    started = monotonic()
    python = folder / "bin" / "python"
    if not (folder / "bin" / "pip").exists():  # the last that making one brings
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        call([sys.executable, "-m", "venv", str(folder)], log, "making an environment")
    wanted = [*kit.requirements, *more]
    say(f"installing {', '.join(wanted)} into {folder}; its output goes to {log}")
    pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    # Not compiled: what is used is when it is first imported, and that is a small part.
    call([*pip, "install", "--no-compile", *wanted], log, f"installing {', '.join(wanted)}")
    if table.remove:
        call([*pip, "uninstall", "--yes", *table.remove], log, "uninstalling what must not stay")
        say(f"uninstalled {', '.join(table.remove)}: nothing here needs them, and they break it")
    seconds = round(monotonic() - started, 1)
    finish(folder, {"requirements": wanted, "removed": table.remove, "seconds": seconds})
    say(f"the environment is ready after {seconds:.0f} s")


def call(command: Sequence[str], log: Path, what: str, env: dict[str, str] | None = None) -> None:
    """Runs a command to its end, output to ``log``. Raises JudgeError with the log's end."""
    with log.open("ab") as file:
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env={**os.environ, **(env or {})},
                close_fds=False,  # the installation's lock goes on for as long as this does
                check=False,
            )
        except OSError as e:
            raise JudgeError(f"{what} failed: {command[0]}: {e.strerror}") from None
    if done.returncode:
        raise JudgeError(
            f"{what} failed (exit status {done.returncode}); {log} ends:\n{tail_of(log)}"
        )
