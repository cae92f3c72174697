"""The verdict, the speedups and the gates on a terminal, from 72 columns up."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from loadjudge.record.evaluation import Evaluation
from loadjudge.record.values import ARMS, Arm
from loadjudge.report import formats
from loadjudge.report.checks import Check, checks_of
from loadjudge.report.notes import notes_of
from loadjudge.report.summary import Row, rows_of
from loadjudge.report.verdict import big_score, headline_of

STYLES = {
    "passed": "bold green",
    "failed": "bold red",
    "invalid": "bold red",
    "inconclusive": "bold yellow",
    "pass": "green",
    "fail": "bold red",
    "n/a": "dim",
}
LABEL, COLUMN = 25, 18  # characters: a figure's name, a workload's column with its gap
WIDE = 130  # columns from which a gate's sentence stands in its row


def render_terminal(evaluation: Evaluation, console: Console, where: Path | None = None) -> None:
    """Print a record. ``where`` is the run's directory, named in the last line if given."""
    _print_verdict(evaluation, console)
    rows = rows_of(evaluation)
    together = max(1, (console.width - LABEL) // COLUMN)
    for start in range(0, len(rows), together):
        console.print(_workloads(rows[start : start + together], console))
        console.print()
    checks = checks_of(evaluation)
    console.print(_gates(checks, console))
    if console.width < WIDE:
        for check in checks:
            if check.verdict in ("fail", "inconclusive"):
                console.print(Text.assemble((f"{check.title}: ", "bold"), check.sentence))
    console.print()
    for note in notes_of(evaluation):
        console.print(Text(f"note: {note}", style="dim"))
    if where is not None:
        console.print(Text(f"record: {where}"), soft_wrap=True)


def _print_verdict(evaluation: Evaluation, console: Console) -> None:
    headline = headline_of(evaluation)
    big, remark = big_score(evaluation)
    interval = evaluation.specscore_interval
    line = Text.assemble(
        (headline.word, STYLES.get(headline.verdict or "", "bold")), "  SpecScore ", (big, "bold")
    )
    if interval is not None and headline.verdict in ("passed", "inconclusive"):
        line.append(f" (95 %: {formats.span(interval, 3)})")
    if evaluation.control is not None:
        own = evaluation.control.specscore
        beside = f"A/A {formats.score(own.specscore)} ({formats.span(own, 3)})"
        fits = len(line) + len(beside) + 2 <= console.width
        line.append(f", {beside}" if fits else f"\n  {beside}")
    console.print(line)
    said = [headline.sentence, headline.speed]
    if headline.verdict != "passed":
        said.append(f"SpecScore: {remark}.")
    console.print(Text(" ".join(filter(None, said))))
    for reason in headline.reasons:
        console.print(Text(f"- {reason}"))
    console.print()


def _table(console: Console) -> Table:
    """Rules under headers on a terminal, nothing but columns elsewhere."""
    return Table(
        box=box.SIMPLE_HEAD if console.is_terminal else None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        show_edge=False,
        header_style="bold" if console.is_terminal else "",
    )


def _workloads(rows: Sequence[Row], console: Console) -> Table:
    """A column a workload, so that any number of figures fits."""
    table = _table(console)
    table.add_column("", no_wrap=True)
    for row in rows:
        table.add_column(row.workload, no_wrap=True)
    for name, cells in _lines(rows):
        style = "bold" if name == "speedup (median)" else ""
        table.add_row(name, *cells, style=style)
    return table


def _lines(rows: Sequence[Row]) -> Iterator[tuple[str, list[str]]]:
    """Each figure's name and its text for every workload; unknown figures are said so."""
    yield "speedup (median)", [formats.times(row.ratio.ratio) for row in rows]
    yield from _passes(rows)
    yield "pooled", [formats.times(row.pooled.ratio if row.pooled else None) for row in rows]
    if any(row.pooled for row in rows):
        yield "  95 % interval", [formats.span(row.pooled) for row in rows]
    yield "A/A", [formats.times(row.control.ratio if row.control else None) for row in rows]
    if any(row.control_pooled for row in rows):
        yield "  95 % interval", [formats.span(row.control_pooled) for row in rows]
    yield "lanes", [formats.count(row.lanes, formats.MISSING) for row in rows]
    if any(row.kv is not None for row in rows):
        yield "KV cache in use, stock", [_kv_use(row) for row in rows]
    yield "tokens per verify step", [formats.decimal(row.acceptance) for row in rows]
    if any(row.stock_acceptance is not None for row in rows):
        yield "  stock", [formats.decimal(row.stock_acceptance) for row in rows]
    if not any(row.arms for row in rows):
        for name in ("TTFT p50, p99", "TPOT p50", "tokens/s"):
            yield name, [formats.MISSING for _ in rows]
        return
    for title, latency, quantile in (
        ("TTFT p50", "ttft", "p50"),
        ("TTFT p99", "ttft", "p99"),
        ("TPOT p50", "tpot", "p50"),
    ):
        for arm in ARMS:
            yield f"{title}, {arm}", [_latency(row, arm, latency, quantile) for row in rows]
    for arm in ARMS:
        rates = [row.arms[arm].tokens_per_s if arm in row.arms else None for row in rows]
        yield f"tokens/s, {arm}", [formats.decimal(rate, 1, formats.MISSING) for rate in rates]


def _kv_use(row: Row) -> str:
    """In the mean; where the lanes were to fill the cache and didn't, what was meant."""
    figures = row.arms.get("stock")
    use = formats.share(figures.kv_usage_mean if figures else None)
    return use if row.kv is None or row.kv.reached else f"{use} of {formats.share(row.kv.fill)}"


def _passes(rows: Sequence[Row]) -> Iterator[tuple[str, list[str]]]:
    """The passes' ratios, three a line, so that a column stays narrow."""
    longest = max((len(row.ratio.passes) for row in rows), default=0)
    for start in range(0, longest, 3):
        cells = [formats.several(row.ratio.passes[start : start + 3]) for row in rows]
        yield "" if start else "passes", cells


def _latency(row: Row, arm: Arm, name: str, quantile: str) -> str:
    latency = row.latency(arm, name)
    return formats.millis(None if latency is None else getattr(latency, quantile).value)


def _gates(checks: Sequence[Check], console: Console) -> Table:
    table = _table(console)
    sentences = console.width >= WIDE
    for name in ("gate", "measured", "limit", "verdict"):
        table.add_column(name, no_wrap=name != "gate")
    if sentences:
        table.add_column("")
    for check in checks:
        figure, _, interval = check.measured.partition(" (")
        measured = Text(figure)
        if interval:
            measured.append(f" ({interval}" if console.width >= 100 else f"\n({interval}")
        verdict = Text(check.verdict, style=STYLES.get(check.verdict, "yellow"))
        cells = [Text(check.title), measured, Text(check.limit), verdict]
        table.add_row(*cells, *([Text(check.sentence)] if sentences else []))
    return table
