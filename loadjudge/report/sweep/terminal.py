"""A sweep on a terminal: a line for each arm at each point, from 72 columns up."""

from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from loadjudge.report import formats
from loadjudge.report.sweep.words import doubts, findings, title
from loadjudge.sweep.record import ArmPoint, Estimate, PointFigures, SweepRecord

WIDE = 100  # columns from which intervals stand beside their figures


def render_sweep(record: SweepRecord, console: Console, where: Path | None = None) -> None:
    """Print a sweep. ``where`` is its directory, named in the last line if given."""
    console.print(Text(title(record), style="bold"))
    console.print(_table(record, console))
    console.print()
    for sentence in findings(record):
        console.print(Text(sentence))
    for doubt in doubts(record):
        console.print(Text(f"- {doubt}", style="yellow"))
    for note in record.notes:
        console.print(Text(f"note: {note}", style="dim"))
    if where is not None:
        console.print(Text(f"record: {where}"), soft_wrap=True)


def _table(record: SweepRecord, console: Console) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD if console.is_terminal else None,
        pad_edge=False,
        padding=(0, 2 if console.width >= WIDE else 1, 0, 0),
        show_edge=False,
        header_style="bold" if console.is_terminal else "",
    )
    two, wide = len(record.arms) > 1, console.width >= WIDE
    rates = any(point.rate is not None for point in record.points)
    heads = ["sessions\na second" if rates else "lanes"]
    heads += ["arm"] if two else []
    heads += ["tokens/s\nof all", "tokens/s\na user"]
    heads += ["± %"] if wide else []
    heads += ["TTFT, ms\np50/p99", "ITL, ms\np50/p99"]
    heads += ["good\nturns/s"] if record.goodput_limits_ms else []
    heads += ["speedup"] if two else []
    for head in heads:
        table.add_column(head, justify="left" if head == "arm" else "right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for point in record.points:
        for number, (arm, figures) in enumerate(point.arms.items()):
            cells = [_load(point) if number == 0 else ""]
            cells += [arm] if two else []
            cells += _figures(figures, wide)
            if record.goodput_limits_ms:
                goodput = figures.goodput
                cells.append(formats.decimal(goodput.value if goodput else None, 2))
            if two:
                cells.append(_speedup(point, wide) if arm == "candidate" else "")
            knee = record.knees.get(arm)
            marks = ["knee"] if knee is not None and knee.point == point.point else []
            marks += [] if figures.valid else ["invalid"]
            table.add_row(*cells, " ".join(marks), style="dim" if not figures.valid else "")
    return table


def _load(point: PointFigures) -> str:
    """A point's load as a number, its unit being the column's."""
    if point.rate is not None:
        return f"{point.rate:g}"
    return f"busy {point.lanes}" if point.point == "busy" else str(point.lanes)


def _figures(figures: ArmPoint, wide: bool) -> list[str]:
    latencies = figures.figures.latencies
    cells = [
        formats.decimal(figures.total.value, 1),
        formats.decimal(figures.per_user.value, 1),
        *([_error(figures.per_user)] if wide else []),
    ]
    for metric in ("ttft", "itl"):
        latency = latencies.get(metric)
        both = (None, None) if latency is None else (latency.p50.value, latency.p99.value)
        cells.append("/".join(formats.millis(value, "", "–") for value in both))
    return cells


def _error(estimate: Estimate) -> str:
    """Half of the interval in per cent of the figure."""
    half = (estimate.high - estimate.low) / 2
    if not estimate.value or half == float("inf"):
        return "unknown"
    return f"{100 * half / estimate.value:.1f}"


def _speedup(point: PointFigures, wide: bool) -> str:
    if point.speedup is None:
        return "–"
    return formats.times(point.speedup.ratio) + (
        f" ({formats.span(point.speedup)})" if wide else ""
    )
