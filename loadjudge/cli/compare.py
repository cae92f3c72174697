"""``loadjudge compare``: two runs beside each other."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from loadjudge.record.evaluation import Evaluation


def compare(
    first: Annotated[Path, typer.Argument(help="A run directory or an evaluation record.")],
    second: Annotated[Path, typer.Argument(help="The same.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Shows two runs beside each other and says which differences exceed their intervals."""
    import json

    from rich.console import Console

    from loadjudge.report.compare import render_compare, render_compare_json

    a, b = _read(first), _read(second)
    if as_json:
        typer.echo(json.dumps(render_compare_json(a, b), indent=2))
        return
    render_compare(a, b, Console())


def _read(path: Path) -> "Evaluation":
    from loadjudge.evaluate import evaluate
    from loadjudge.record.evaluation import read_evaluation
    from loadjudge.record.run import read_run

    return evaluate(read_run(path)) if path.is_dir() else read_evaluation(path)
