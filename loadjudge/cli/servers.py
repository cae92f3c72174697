"""``loadjudge servers``: what engines need before they can start."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from loadjudge.servers.engine import Engine

app = typer.Typer(help="Engines' environments and models.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Engines' environments and models."""


@app.command()
def install(
    task: Annotated[str, typer.Argument(help="A task whose engines have an install.toml.")],
    directory: Annotated[
        Path | None,
        typer.Option(
            "--dir",
            help="Where environments and models live; LOADJUDGE_HOME for judge and serve. "
            "By default loadjudge in the user's cache folder.",
        ),
    ] = None,
) -> None:
    """Makes the environment and the models that a task's engines need, and has the stock engine
    answer one prompt. What is there already is kept; an interrupted installation goes on."""
    import os

    from loadjudge.servers.home import home
    from loadjudge.servers.install import check, engines_of, missing
    from loadjudge.servers.install import install as make
    from loadjudge.servers.kit import find_kit

    if directory is not None:
        os.environ["LOADJUDGE_HOME"] = str(directory)
    kit = find_kit(task)
    engines = engines_of(kit)
    if not missing(engines):
        typer.echo(f"all that {kit.name} needs is there: {home()}")
    make(engines, typer.echo)
    check(kit, typer.echo)
    if directory is not None:
        typer.echo(f"for judge and serve: export LOADJUDGE_HOME={home()}")


def make_missing(engines: "list[Engine]") -> None:
    """Installs what is missing for engines that are about to start, saying so."""
    from loadjudge.servers.install import install as make
    from loadjudge.servers.install import missing

    if said := missing(engines):
        typer.echo(f"to be installed first: {', '.join(said)}", err=True)
        make(engines, lambda text: typer.echo(text, err=True))
