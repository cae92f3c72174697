"""``loadjudge demo``: the main job on the embedded engines: an honest speculator and a cheat."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from loadjudge.load.header import Options

INTRODUCTION = """\
Engines of the same small model run on this machine: stock decodes a token a step, the candidates
guess ahead. All play the same sessions. The honest one looks up what was said before and verifies
its guesses; the cheat drafts with a smaller model and lets too many of its guesses pass."""


def demo(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder of the runs; new or empty.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of sessions, sampling and intervals.")] = 0,
) -> None:
    """Judges an honest and a cheating speculator against stock on the embedded engines.

    Needs no model, no GPU and no network, and takes about a minute and a half. Exit status 0: the
    honest one passed and the cheat was caught.
    """
    from loadjudge.cli.judge import play
    from loadjudge.cli.outcome import show, status_of, write_outcome
    from loadjudge.cli.playing import new_directory
    from loadjudge.errors import Status

    folder = new_directory(output, "demo")
    typer.echo(INTRODUCTION, err=True)
    outcomes = {}
    for name, engine in (("honest", "ngram"), ("cheat", "lenient")):
        typer.echo(f"\n{name}: servers/demo/{engine}", err=True)
        directory = folder / name
        directory.mkdir()
        play(_options(engine, seed), directory, {}, resume=False)
        outcomes[name] = write_outcome(directory)
    for name, evaluation in outcomes.items():
        typer.echo(f"\n== {name} ==")
        show(evaluation, folder / name, as_json=False)
    caught = status_of(outcomes["cheat"]) == Status.FAILED
    honest = status_of(outcomes["honest"])
    typer.echo(
        f"\nThe cheat was {'caught' if caught else 'NOT caught'}. "
        f"Reports: {folder}/honest/report.html and {folder}/cheat/report.html"
    )
    raise typer.Exit(honest if honest or caught else Status.FAILED)


def _options(engine: str, seed: int) -> "Options":
    from loadjudge.load.budget import Budget
    from loadjudge.load.header import Options, session_files
    from loadjudge.load.task import find_task
    from loadjudge.servers.engine import find_engine

    task = find_task("demo")
    if engine == "lenient":
        # A cheat is found by what it says: one pass of one workload is enough of it.
        team = task.workloads["team"].model_copy(update={"sessions": 24})
        task = task.model_copy(update={"passes": 1, "workloads": {"team": team}})
    return Options(
        task=task,
        stock=find_engine("servers/demo/stock"),
        candidate=find_engine(f"servers/demo/{engine}"),
        session_files=session_files(task, "dev"),
        dataset_format=task.dataset_format,
        split="dev",
        seed=seed,
        extra={},
        model=task.model,
        insecure=False,
        idle_timeout_s=60.0,
        budget=Budget(seconds=0),
    )
