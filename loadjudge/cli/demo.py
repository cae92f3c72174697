"""``loadjudge demo``: the main job on the embedded engines, in about a minute."""

from pathlib import Path
from typing import Annotated

import typer


def demo(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Run directory; must be new or empty.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of sessions, sampling and intervals.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Judges an n-gram speculator against stock on the embedded engines: needs no model, no GPU
    and no network, and takes about a minute."""
    from loadjudge.cli.judge import new_directory, run_and_exit
    from loadjudge.load.header import Options, session_files
    from loadjudge.load.task import find_task
    from loadjudge.servers.engine import find_engine

    task = find_task("demo")
    options = Options(
        task=task,
        stock=find_engine(task.stock or "servers/demo/stock"),
        candidate=find_engine("servers/demo/ngram"),
        session_files=session_files(task, "dev"),
        dataset_format=task.dataset_format,
        split="dev",
        seed=seed,
        extra={},
        model=task.model,
        insecure=False,
        idle_timeout_s=60.0,
    )
    typer.echo(
        "Two engines of the same small model run on this machine: stock decodes a token a step, "
        "the candidate\nguesses ahead by looking up what was said before. Both play the same "
        "sessions.",
        err=True,
    )
    run_and_exit(options, new_directory(output, "demo"), {}, resume=False, as_json=as_json)
