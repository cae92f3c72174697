"""``loadjudge compare``: two runs beside each other, and whether the second has regressed."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loadjudge.cli.ci import Ci, Github, Junit
from loadjudge.errors import JudgeError, Status

if TYPE_CHECKING:
    from loadjudge.record.evaluation import Evaluation


def compare(
    base: Annotated[Path, typer.Argument(help="A run directory or an evaluation record.")],
    new: Annotated[Path, typer.Argument(help="The same.")],
    max_regression: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="By how much the new run's speedups may lie below the base's, as in 5% or 0.05: "
            "exits 0 if they are shown not to by more, 1 if they are shown to, or a gate fails "
            "anew, 5 if neither.",
        ),
    ] = None,
    junit: Junit = None,
    github: Github = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Shows two runs beside each other and says which differences exceed their intervals."""
    import json
    from dataclasses import asdict

    from rich.console import Console

    from loadjudge.report.compare import render_compare, render_compare_json
    from loadjudge.report.github import regression_summary
    from loadjudge.report.regression import STATUS, parse_share, regression, regression_suite

    if max_regression is None and (junit is not None or github):
        raise JudgeError(
            "--junit and --github tell a verdict: say what it is to be on, by --max-regression 5%",
            Status.USAGE,
        )
    allowed = None if max_regression is None else parse_share(max_regression)
    a, b = _read(base), _read(new)
    found = None if allowed is None else regression(a, b, allowed)
    if as_json:
        values = render_compare_json(a, b)
        if found is not None:
            values["regression"] = {**asdict(found), "sentence": found.sentence}
        typer.echo(json.dumps(values, indent=2))
    else:
        render_compare(a, b, Console(), (str(base), str(new)))
        if found is not None:
            typer.echo(f"\n{found.word}. {found.sentence}")
            for reason in found.reasons:
                typer.echo(f"- {reason}")
    if found is not None:
        Ci(junit, github, as_json).tell(regression_suite(found), regression_summary(found))
        raise typer.Exit(STATUS[found.verdict])


def _read(path: Path) -> "Evaluation":
    from loadjudge.evaluate import evaluate
    from loadjudge.record.evaluation import read_evaluation
    from loadjudge.record.run import read_run
    from loadjudge.sweep.options import is_sweep

    if not path.is_dir():
        return read_evaluation(path)
    run = read_run(path)
    if is_sweep(run.header):
        raise JudgeError(f"{path} is a sweep: compare takes runs of the judge", Status.USAGE)
    return evaluate(run)
