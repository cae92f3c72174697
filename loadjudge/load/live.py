"""The live view of a run, drawn by a process of its own.

Drawing a table takes milliseconds, and in the judge's event loop those would be milliseconds
in which no chunk is stamped. So the judge writes a small JSON line a few times a second to this
process (``python -m loadjudge.load.live``), which draws. Where standard error is no terminal
there is no such process, and the judge prints a plain line for each pass.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import orjson

if TYPE_CHECKING:
    from loadjudge.servers.counters import Load  # the drawing process starts without it


@dataclass(slots=True)
class ArmView:
    """An arm as it stands. Rates are of its last pass, or of the one in progress."""

    name: str
    active: bool = False
    in_flight: int = 0
    tokens_per_s: float | None = None
    ttft_s: float | None = None  # median of the last replies
    per_step: float | None = None  # tokens of one read, as the client sees them
    passes: int = 0
    number: int = 0  # of the pass in progress
    load: "Load | None" = None  # the engine's own gauges
    counters: dict[str, float] | None = None  # its counters' increase in the pass in progress


@dataclass(slots=True)
class View:
    """A run as it stands."""

    title: str
    phase: str = ""
    workload: str = ""
    lanes: int = 0
    passes: int = 0
    passes_planned: int = 0
    measured_done: int = 0
    measured: int = 0
    turns: int = 0  # of the pass in progress
    lag_s: float | None = None  # of the client's event loop, in the last second
    cpu: float | None = None  # the client's share of one core
    elapsed_s: float = 0.0
    left_s: float | None = None
    stock: ArmView = field(default_factory=lambda: ArmView("stock"))
    candidate: ArmView = field(default_factory=lambda: ArmView("candidate"))
    speedups: dict[str, float] = field(default_factory=dict)


class Watcher(Protocol):
    """Whoever watches a run."""

    def show(self, view: View) -> None: ...

    def line(self, text: str) -> None:
        """Something that has happened, to be kept."""

    def close(self) -> None: ...


class PlainLines:
    """Lines for logs and pipes."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write

    def show(self, view: View) -> None:
        """Nothing: a log has no use for every look."""

    def line(self, text: str) -> None:
        self._write(text)

    def close(self) -> None:
        """Nothing to end."""


class LiveTable:
    """The view in a terminal, through the drawing process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "loadjudge.load.live"],
            stdin=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is the judge's
        )
        assert self._process.stdin is not None
        self._fd = self._process.stdin.fileno()
        os.set_blocking(self._fd, False)

    def show(self, view: View) -> None:
        values = asdict(view)
        for arm in (values["stock"], values["candidate"]):
            del arm["counters"]  # not drawn, and as many as drafts are long
        self._send({"view": values})

    def line(self, text: str) -> None:
        self._send({"line": text})

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()

    def _send(self, message: dict[str, Any]) -> None:
        try:
            # Shorter than a pipe's atomic write (4 KiB), so it goes in whole or not at all.
            os.write(self._fd, orjson.dumps(message) + b"\n")
        except (BlockingIOError, BrokenPipeError):
            return  # the drawer is slow or gone; the judge goes on


def draw() -> None:
    """The drawing process: messages from standard input until it closes."""
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    with Live(console=console, refresh_per_second=8, transient=True) as live:
        for message in sys.stdin.buffer:
            values = orjson.loads(message)
            if "line" in values:
                console.print(values["line"], highlight=False, markup=False)
            else:
                live.update(_table(values["view"]))


def _table(view: dict[str, Any]) -> Any:
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    table = Table(title=None, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("")
    for name in ("lanes", "tokens/s", "TTFT", "tokens/step", "passes"):
        table.add_column(name, justify="right")
    for arm in (view["stock"], view["candidate"]):
        style = "bold" if arm["active"] else "dim"
        lanes = f"{arm['in_flight']}/{view['lanes']}" if arm["active"] else "–"
        table.add_row(
            arm["name"],
            lanes,
            _number(arm["tokens_per_s"], "{:,.0f}"),
            _number(arm["ttft_s"] and arm["ttft_s"] * 1e3, "{:,.0f} ms"),
            _number(arm["per_step"], "{:.2f}"),
            str(arm["passes"]),
            style=style,
        )
    left = view["left_s"]
    head = f"{view['title']}  ·  {view['phase']}"
    times = f"{_clock(view['elapsed_s'])} gone"
    if left is not None:
        times += f", about {_clock(left)} left"
    speedups = "   ".join(f"{w} {r:.2f}×" for w, r in view["speedups"].items())
    bar = ProgressBar(total=max(view["passes_planned"], 1), completed=view["passes"], width=40)
    foot = f" pass {view['passes']}/{view['passes_planned']}  {times}"
    if view["measured"]:
        foot += f"  ·  session {view['measured_done']}/{view['measured']}"
    parts: list[Any] = [Text(head, style="bold"), table, bar, Text(foot)]
    if speedups:
        parts.append(Text(f"speedup so far: {speedups}"))
    return Group(*parts)


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02d}"


if __name__ == "__main__":
    draw()
