"""loadjudge gates: limits and the evidence that they come from."""

from pathlib import Path
from typing import Annotated

import typer

from loadjudge.errors import JudgeError, Status

app = typer.Typer(no_args_is_help=True, help="Limits of a task, and the evidence for them.")


@app.command()
def calibrate(
    task: Annotated[str, typer.Option(help="A task of the embedded engines.")] = "reference",
    runs: Annotated[int, typer.Option(min=1, help="Of each honest engine.")] = 200,
    attack_runs: Annotated[int, typer.Option(min=1, help="Of each attack.")] = 100,
    tokens: Annotated[int, typer.Option(min=1, help="Scored an arm in a whole run.")] = 100_000,
    passes: Annotated[
        int, typer.Option(min=1, help="Drawn of each honest engine: its pool of replies.")
    ] = 6,
    attack_passes: Annotated[int, typer.Option(min=1, help="Drawn of an attack, at most.")] = 12,
    processes: Annotated[int, typer.Option(min=1)] = 2,
    only: Annotated[
        str,
        typer.Option(
            help="Engines, comma-separated, to try again under the limits that there are: their "
            "rows replace those in the evidence. All engines by default."
        ),
    ] = "",
    keep_limits: Annotated[
        bool, typer.Option("--keep-limits", help="Try the task's limits, with another seed, say.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of replies and runs.")] = 0,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for evidence.json; the task's own."),
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Put the limits into the task's file, too.")
    ] = False,
) -> None:
    """Draws replies of the honest engines and of the red team, sets the limits that honest ones
    pass 99 times in 100, and tries them on all. Takes some minutes."""
    from loadjudge.gates.calibration_evidence import (
        read_evidence,
        with_rows_of,
        write_evidence,
        write_limits,
    )
    from loadjudge.gates.calibration_table import limits_table, power_table
    from loadjudge.gates.calibration_work import Plan
    from loadjudge.gates.calibration_work import calibrate as calibrated
    from loadjudge.load.task import find_task
    from loadjudge.record.evaluation import Limits

    if write and (only or keep_limits):
        raise JudgeError("--write wants limits that were set from all engines", Status.USAGE)
    found = find_task(task)
    folder = output or _folder(task)
    path = folder / "evidence.json"
    there = read_evidence(path) if only and path.exists() else None
    plan = Plan(
        task=found,
        seed=seed,
        runs=runs,
        attack_runs=attack_runs,
        tokens=tokens,
        passes=passes,
        attack_passes=attack_passes,
        only=tuple(filter(None, only.split(","))),
        limits=Limits(**found.limits.model_dump()) if only or keep_limits else None,
    )
    evidence = calibrated(plan, processes, lambda line: typer.echo(line, err=True))
    if there is not None:
        evidence = with_rows_of(there, evidence)
    folder.mkdir(parents=True, exist_ok=True)
    write_evidence(evidence, path)
    limits = limits_table(evidence)
    for line in (*power_table(evidence), "", *limits):
        typer.echo(line)
    if write:
        write_limits(folder / "task.toml", limits)
    typer.echo(f"evidence: {path}", err=True)


@app.command()
def power(
    task: Annotated[str, typer.Option(help="A task that was calibrated.")] = "reference",
    as_json: Annotated[bool, typer.Option("--json", help="The evidence as JSON.")] = False,
) -> None:
    """Shows how many tokens it takes to catch each attack in 95 of 100 runs, at one false alarm in
    100: by plain and by excess statistics, and by the gates with the task's limits."""
    from loadjudge.gates.calibration_evidence import read_evidence
    from loadjudge.gates.calibration_table import power_table, power_words

    evidence = read_evidence(_folder(task) / "evidence.json")
    if as_json:
        typer.echo(evidence.model_dump_json(indent=2))
        return
    for line in (*power_table(evidence), "", *power_words(evidence)):
        typer.echo(line)


def _folder(task: str) -> Path:
    """The folder of a task that ships, or the one that is given."""
    from loadjudge.paths import data_root

    given = Path(task)
    if given.name == "task.toml":
        return given.parent
    return given if given.is_dir() else data_root() / "gates" / task
