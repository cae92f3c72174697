"""Where a sweep's derived files are written."""

from pathlib import Path

from loadjudge.record.files import write_whole
from loadjudge.report.files import REPORT
from loadjudge.report.sweep.page import render_sweep_html
from loadjudge.report.sweep.table import to_csv
from loadjudge.sweep.record import SweepRecord


def write_sweep(directory: Path, record: SweepRecord) -> None:
    """Writes ``sweep.json``, ``sweep.csv`` and ``report.html`` into a sweep's directory.

    Raises JudgeError where it can't be written.
    """
    write_whole(directory / "sweep.json", record.to_bytes())
    write_whole(directory / "sweep.csv", to_csv(record))
    write_whole(directory / REPORT, render_sweep_html(record).encode())
