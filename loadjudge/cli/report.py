"""``loadjudge report``: a run's record and page, rebuilt from its log alone."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    run: Annotated[Path, typer.Argument(help="A run directory, or an evaluation record (JSON).")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where the page of a record goes (a file)."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Rebuilds evaluation.json and report.html of a run offline and prints the report."""
    from loadjudge.cli import sweep
    from loadjudge.cli.outcome import show, write_outcome
    from loadjudge.record.evaluation import read_evaluation
    from loadjudge.record.files import write_whole
    from loadjudge.record.run import read_run
    from loadjudge.report.page import render_html
    from loadjudge.sweep.options import is_sweep

    if run.is_dir():
        recorded = read_run(run)
        if is_sweep(recorded.header):
            sweep.show(sweep.write_outcome(run), run, as_json=as_json)
            return
        evaluation = write_outcome(run)
        show(evaluation, run, as_json=as_json)
        return
    evaluation = read_evaluation(run)
    page = output or Path(f"{run.stem}-report.html")
    write_whole(page, render_html(evaluation, None).encode())
    show(evaluation, None, as_json=as_json)
    if not as_json:
        typer.echo(f"report   {page}")
