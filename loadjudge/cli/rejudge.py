"""``loadjudge rejudge``: verdicts anew, from a run's log or from a record alone."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from loadjudge.cli.ci import Ci, Github, Junit


def rejudge(
    run: Annotated[Path, typer.Argument(help="A run directory, or an evaluation record (JSON).")],
    limits: Annotated[
        Path | None,
        typer.Option(
            "--limits",
            metavar="FILE.toml",
            help="Limits that take the place of all recorded ones; a task.toml will do.",
        ),
    ] = None,
    rule: Annotated[
        Literal["decide", "reject"] | None,
        typer.Option("--rule", help="decide: undecided is not passed; reject: it is."),
    ] = None,
    junit: Junit = None,
    github: Github = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Judges a run or a record anew, offline, and exits with the verdict's status.

    Nothing is written.
    """
    from loadjudge.cli.outcome import finish
    from loadjudge.gates.rejudge import read_limits, rejudge_record, rejudge_run
    from loadjudge.record.evaluation import read_evaluation
    from loadjudge.record.run import read_run

    held = None if limits is None else read_limits(limits)
    if run.is_dir():
        evaluation = rejudge_run(read_run(run), held, rule)
    else:
        evaluation = rejudge_record(read_evaluation(run), held, rule)
    finish(evaluation, None, Ci(junit, github, as_json), as_json=as_json)
