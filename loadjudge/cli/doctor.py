"""``loadjudge doctor``: what this machine can run, and what is missing."""

from typing import Annotated

import typer


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Looks at this machine: what loadjudge can run here and what is missing."""
    import json

    from loadjudge.doctor import examine
    from loadjudge.errors import Status

    findings = examine()
    if as_json:
        typer.echo(json.dumps([f.as_dict() for f in findings], indent=2))
    else:
        width = max(len(f.what) for f in findings)
        for f in findings:
            typer.echo(f"{f.state:<8}{f.what:<{width + 2}}{f.detail}")
    if any(f.state == "missing" for f in findings):
        raise typer.Exit(Status.SETUP)
