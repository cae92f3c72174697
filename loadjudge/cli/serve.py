"""``loadjudge serve``: one engine directory in the foreground."""

from pathlib import Path
from typing import Annotated

import typer


def serve(
    directory: Annotated[str, typer.Argument(help="An engine directory.", metavar="DIR")],
    model: Annotated[str, typer.Option(help="What {model} in its command stands for.")] = "",
    log: Annotated[
        Path | None, typer.Option(help="Where its output goes; a new file in the current folder.")
    ] = None,
    dry_run: Annotated[bool, typer.Option(help="Print the command and don't run it.")] = False,
) -> None:
    """Starts one engine, says where it listens, and stops it on Ctrl-C."""
    import asyncio
    import re
    import shlex

    from loadjudge.cli.servers import make_missing
    from loadjudge.errors import JudgeError, Status
    from loadjudge.servers.engine import find_engine
    from loadjudge.servers.process import EngineProcess

    engine = find_engine(directory)
    if engine.url:
        raise JudgeError(f"{directory} is a URL: it is served already", Status.USAGE)
    if dry_run:
        words = engine.filled(socket=Path("SOCKET"), port=0, model=model)
        env = engine.filled_env(socket=Path("SOCKET"), port=0, model=model)
        typer.echo(
            " ".join([*(f"{k}={shlex.quote(v)}" for k, v in env.items()), shlex.join(words)])
        )
        return
    make_missing([engine])
    path = log or Path(re.sub(r"[^\w.+-]+", "-", engine.name).strip("-") + ".log")

    async def whole() -> None:
        process = EngineProcess(engine, model, path)
        try:
            seconds = await process.start()
            typer.echo(f"{engine.name} is ready after {seconds:.1f} s at {process.url}")
            typer.echo(f"its output goes to {path}; Ctrl-C stops it")
            await process.died()
        finally:
            await process.stop()

    asyncio.run(whole())
