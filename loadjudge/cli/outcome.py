"""A finished run: its record written and shown, and the exit status that it asks for."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from loadjudge.cli.ci import Ci, write_export
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


def finish(
    evaluation: "Evaluation",
    directory: Path | None,
    ci: Ci,
    export: tuple[str, Path] | None = None,
    *,
    as_json: bool,
) -> NoReturn:
    """Shows a record, tells CI, and exits with the record's status."""
    show(evaluation, directory, as_json=as_json)
    tell(evaluation, directory, ci, export)
    raise typer.Exit(status_of(evaluation))


def tell(
    evaluation: "Evaluation", directory: Path | None, ci: Ci, export: tuple[str, Path] | None
) -> None:
    """Writes what CI systems and other tools were to get of a record."""
    from loadjudge.record.run import read_run
    from loadjudge.report.cases import evaluation_suite
    from loadjudge.report.github import evaluation_summary

    if directory is not None and export is not None:
        write_export(export, read_run(directory))
    ci.tell(evaluation_suite(evaluation), evaluation_summary(evaluation))


def status_of(evaluation: "Evaluation") -> Status:
    return STATUS[evaluation.verdict or "passed"]
