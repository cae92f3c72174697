"""What commands that play sessions share: their directory, requests' extras, the live view."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loadjudge.errors import JudgeError, Status

if TYPE_CHECKING:
    from loadjudge.load.live import Watcher

MetricsPort = Annotated[
    int | None,
    typer.Option(min=0, max=65535, help="Serve metrics for Prometheus there meanwhile."),
]
MetricsHost = Annotated[str, typer.Option(help="And at this address.")]


@dataclass(frozen=True, slots=True)
class Metrics:
    """Where a process of its own serves a run's metrics; ``run``: its directory."""

    port: int
    host: str
    run: Path

    @classmethod
    def at(cls, port: int | None, host: str, run: Path) -> "Metrics | None":
        """By the flags ``--metrics-port`` and ``--metrics-host``."""
        return None if port is None else cls(port, host, run)


def play_run(
    run: Callable[["Watcher"], Coroutine[Any, Any, None]],
    again: str,
    write_what_there_is: Callable[[], object],
    metrics: Metrics | None = None,
) -> None:
    """Plays a run with a live view, and its metrics served. ``again``: the command that goes on
    with it.

    A run that fails leaves its record as far as it goes.
    """
    import asyncio
    import contextlib

    from loadjudge.client.loop import run as run_loop

    watcher = _watcher(metrics)
    try:
        run_loop(run(watcher))
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise JudgeError(f"interrupted; go on with: {again}", Status.INTERRUPTED) from None
    except JudgeError as error:
        if error.status == Status.RUN:
            # What there is is worth a look, but the failure is what has to be told.
            with contextlib.suppress(JudgeError, OSError):
                write_what_there_is()
        raise
    finally:
        watcher.close()


def _watcher(metrics: Metrics | None) -> "Watcher":
    """The live view, or lines where there is no terminal; and the exporter, where asked for."""
    import sys

    from loadjudge.load.live import LiveTable, PlainLines

    exporter = None
    if metrics is not None:
        from loadjudge.metrics.process import ExporterProcess
        from loadjudge.metrics.watching import ExportedWatcher

        exporter = ExporterProcess(metrics.port, metrics.host, run=metrics.run)
    watcher: Watcher = (
        LiveTable() if sys.stderr.isatty() else PlainLines(lambda text: typer.echo(text, err=True))
    )
    if exporter is not None:
        watcher = ExportedWatcher(watcher, exporter)
        watcher.line(f"metrics: http://{exporter.host}:{exporter.port}/metrics")
    return watcher


def new_directory(given: Path | None, name: str) -> Path:
    """The run directory: new or empty. Raises JudgeError (usage)."""
    import datetime
    import re

    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S")
    directory = given or Path("runs", re.sub(r"[^\w.+-]+", "-", name).strip("-") + "-" + stamp)
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise JudgeError(
            f"the output directory {directory} is not empty: choose another, "
            f"or go on with a run by --resume {directory}",
            Status.USAGE,
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise JudgeError(
            f"the output directory {directory} can't be made: {(e.strerror or str(e)).lower()}"
        ) from None
    return directory


def extra_of(text: str | None) -> dict[str, Any]:
    """The object of ``--extra-body``. Raises JudgeError (usage)."""
    import json

    try:
        value = json.loads(text or "{}")
    except json.JSONDecodeError as e:
        raise JudgeError(f"--extra-body is not JSON: {e}", Status.USAGE) from None
    if not isinstance(value, dict):
        raise JudgeError("--extra-body must be a JSON object", Status.USAGE)
    return value


def headers_of(given: list[str] | None) -> dict[str, str]:
    """The headers of ``--header NAME=VALUE``. Raises JudgeError (usage)."""
    headers = {}
    for text in given or ():
        name, found, value = text.partition("=")
        if not found or not name.strip():
            raise JudgeError(f"--header takes NAME=VALUE, not {text!r}", Status.USAGE)
        headers[name.strip()] = value.strip()
    return headers
