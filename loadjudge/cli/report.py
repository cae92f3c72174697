"""``loadjudge report``: a run's record and page, rebuilt from its log alone."""

from pathlib import Path
from typing import Annotated

import typer

from loadjudge.cli.ci import Ci, Export, Github, Junit, check_export
from loadjudge.errors import JudgeError, Status


def report(
    run: Annotated[Path, typer.Argument(help="A run directory, or an evaluation record (JSON).")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where the page of a record goes (a file)."),
    ] = None,
    junit: Junit = None,
    github: Github = False,
    export: Export = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Rebuilds the record and the page of a run or a sweep offline and prints the report."""
    from loadjudge.cli import outcome, sweep
    from loadjudge.record.evaluation import read_evaluation
    from loadjudge.record.files import write_whole
    from loadjudge.record.run import read_run
    from loadjudge.report.page import render_html
    from loadjudge.sweep.options import is_sweep

    check_export(export)
    ci = Ci(junit, github, as_json)
    if run.is_dir() and is_sweep(read_run(run).header):
        record = sweep.write_outcome(run)
        sweep.show(record, run, as_json=as_json)
        sweep.tell(record, run, ci, export)
        return
    if run.is_dir():
        evaluation = outcome.write_outcome(run)
        outcome.show(evaluation, run, as_json=as_json)
        outcome.tell(evaluation, run, ci, export)
        return
    if export is not None:
        raise JudgeError("--export needs a run directory: a record has no turns", Status.USAGE)
    evaluation = read_evaluation(run)
    page = output or Path(f"{run.stem}-report.html")
    write_whole(page, render_html(evaluation, None).encode())
    outcome.show(evaluation, None, as_json=as_json)
    outcome.tell(evaluation, None, ci, None)
    if not as_json:
        typer.echo(f"report   {page}")
