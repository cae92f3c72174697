"""Where a report is written."""

from pathlib import Path

from loadjudge.record.evaluation import Evaluation
from loadjudge.record.files import write_whole
from loadjudge.record.values import RunRecord
from loadjudge.report.page import render_html

REPORT = "report.html"


def write_report(directory: Path, evaluation: Evaluation, run: RunRecord | None) -> Path:
    """Write ``report.html`` into a run's directory, whole or not at all; returns its path.

    Raises JudgeError where the directory can't be written.
    """
    path = directory / REPORT
    write_whole(path, render_html(evaluation, run).encode())
    return path
