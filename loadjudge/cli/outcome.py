"""A finished run: its record written and shown, and the exit status that it asks for."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from loadjudge.errors import Status

if TYPE_CHECKING:
    from loadjudge.record.evaluation import Evaluation

STATUS = {
    "passed": Status.PASSED,
    "failed": Status.FAILED,
    "inconclusive": Status.INCONCLUSIVE,
    "invalid": Status.RUN,
}


def write_outcome(directory: Path) -> "Evaluation":
    """Derives evaluation.json and report.html from the log, and from it alone."""
    from loadjudge.evaluate import evaluate
    from loadjudge.record.files import write_whole
    from loadjudge.record.run import read_run
    from loadjudge.report.files import write_report

    run = read_run(directory)
    evaluation = evaluate(run)
    write_whole(directory / "evaluation.json", evaluation.to_bytes())
    write_report(directory, evaluation, run)
    return evaluation


def show(evaluation: "Evaluation", directory: Path | None, *, as_json: bool) -> None:
    """The record on standard output: for people, or as JSON."""
    from rich.console import Console

    from loadjudge.report.terminal import render_terminal

    if as_json:
        sys.stdout.buffer.write(evaluation.to_bytes())
        return
    render_terminal(evaluation, Console(), directory)


def status_of(evaluation: "Evaluation") -> Status:
    return STATUS[evaluation.verdict or "passed"]
