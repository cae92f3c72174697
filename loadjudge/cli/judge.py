"""``loadjudge judge``: the judge."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loadjudge.cli.ci import Ci, Export, Github, Junit, check_export
from loadjudge.cli.playing import (
    Metrics,
    MetricsHost,
    MetricsPort,
    extra_of,
    headers_of,
    new_directory,
    play_run,
)
from loadjudge.errors import JudgeError, Status

if TYPE_CHECKING:
    from loadjudge.load.header import Options
    from loadjudge.load.task import Task


def judge(
    candidate: Annotated[
        str | None,
        typer.Option(
            help="Engine directory, or the base URL of an endpoint.", metavar="DIR_OR_URL"
        ),
    ] = None,
    stock: Annotated[
        str | None, typer.Option(help="The same; the task's own by default.", metavar="DIR_OR_URL")
    ] = None,
    task: Annotated[
        str, typer.Option(help="A task that ships, its folder, or a task.toml.")
    ] = "any",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Run directory; must be new or empty.")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Go on with a run that was killed.", metavar="RUN")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Model name; the endpoint's only one by default.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of sessions, sampling and intervals.")] = 0,
    split: Annotated[str, typer.Option(help="Which of the task's splits to play.")] = "dev",
    dataset: Annotated[
        list[Path] | None, typer.Option(help="Session files instead of the task's.")
    ] = None,
    dataset_format: Annotated[str, typer.Option(help="Format of --dataset.")] = "auto",
    num_sessions: Annotated[
        int | None, typer.Option(min=1, help="Measured sessions of each pass.")
    ] = None,
    concurrency: Annotated[
        str | None, typer.Option(help="Lanes of the workloads: 1,4,32 or 1,4,kv.")
    ] = None,
    passes: Annotated[
        int | None, typer.Option(min=1, help="Passes of each arm at each workload.")
    ] = None,
    history: Annotated[
        str | None,
        typer.Option(help="own: the model's replies stay in the history; recorded: the file's."),
    ] = None,
    residency: Annotated[
        str | None,
        typer.Option(
            help="together: both engines stay up; exclusive: one at a time on the device, "
            "restarted between the arms' passes."
        ),
    ] = None,
    rule: Annotated[
        str | None, typer.Option(help="decide: undecided is not passed; reject: it is.")
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            help="What passes beyond the plan may take while a gate is undecided, under the rule "
            "decide: a time (90s, 20m, 1h) or tokens (200000); the task's by default."
        ),
    ] = None,
    extra_body: Annotated[
        str | None, typer.Option(help="JSON merged into every request.", metavar="JSON")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option(help="Of every request; repeatable.", metavar="NAME=VALUE")
    ] = None,
    insecure: Annotated[bool, typer.Option(help="Don't check TLS certificates.")] = False,
    idle_timeout: Annotated[
        float, typer.Option(min=1, help="Seconds without a byte that end the run.")
    ] = 60.0,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = "127.0.0.1",
    junit: Junit = None,
    github: Github = False,
    export: Export = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Plays the same sessions on a stock and a candidate engine: how much faster, and is it the
    same model? The API key is read from OPENAI_API_KEY."""
    from loadjudge.cli.outcome import finish, write_outcome

    ci = Ci(junit, github, as_json)
    with ci.telling_failures():
        check_export(export)
        headers, extra = headers_of(header), extra_of(extra_body)
        if resume is not None:
            options, directory = _resumed(resume)
        else:
            from loadjudge.load.budget import parse_budget
            from loadjudge.load.header import Options, session_files
            from loadjudge.load.task import find_task
            from loadjudge.servers.engine import find_engine

            if candidate is None:
                raise JudgeError("say what is to be judged: --candidate DIR_OR_URL", Status.USAGE)
            its = _with_overrides(
                find_task(task), num_sessions, concurrency, passes, history, residency, rule, model
            )
            stock = stock or its.stock
            if stock is None:
                raise JudgeError(
                    f"task {its.name} has no stock engine of its own: give --stock DIR_OR_URL",
                    Status.USAGE,
                )
            stock_engine = find_engine(stock)
            options = Options(
                task=its,
                stock=stock_engine,
                candidate=find_engine(candidate, stock_engine.kit),
                session_files=tuple(dataset) if dataset else session_files(its, split),
                dataset_format=dataset_format if dataset else its.dataset_format,
                split=split if not dataset else "given files",
                seed=seed,
                extra=extra,
                model=its.model,
                insecure=insecure,
                idle_timeout_s=idle_timeout,
                budget=parse_budget(budget or its.budget),
            )
            directory = new_directory(output, f"{its.name}-{Path(options.candidate.name).name}")
        metrics = Metrics.at(metrics_port, metrics_host, directory)
        play(options, directory, headers, resume=resume is not None, metrics=metrics)
        evaluation = write_outcome(directory)
    finish(evaluation, directory, ci, export, as_json=as_json)


def play(
    options: "Options",
    directory: Path,
    headers: dict[str, str],
    *,
    resume: bool,
    metrics: Metrics | None = None,
) -> None:
    """Plays a run into its directory. A run that fails leaves its record as far as it goes."""
    from loadjudge.cli.outcome import write_outcome
    from loadjudge.cli.servers import make_missing
    from loadjudge.judge import Judge
    from loadjudge.load.arm import Access

    make_missing([options.stock, options.candidate])
    access = Access.from_environment(headers, options.insecure, options.idle_timeout_s)
    play_run(
        lambda watcher: Judge(options, access, directory, watcher, resume=resume).run(),
        f"loadjudge judge --resume {directory}",
        lambda: write_outcome(directory),
        metrics,
    )


def _resumed(directory: Path) -> "tuple[Options, Path]":
    from loadjudge.load.header import options_of
    from loadjudge.record.run import read_run

    run = read_run(directory)
    if run.header.get("kind") == "sweep":
        raise JudgeError(
            f"{directory} is a sweep: go on with it by loadjudge sweep --resume", Status.USAGE
        )
    if run.complete:
        raise JudgeError(f"{directory} is complete: see loadjudge report {directory}", Status.USAGE)
    return options_of(run.header, directory), directory


def _with_overrides(
    task: "Task",
    num_sessions: int | None,
    concurrency: str | None,
    passes: int | None,
    history: str | None,
    residency: str | None,
    rule: str | None,
    model: str | None,
) -> "Task":
    """The task with what the command line changes; validated again."""
    from loadjudge.load.task import Task

    values: dict[str, Any] = task.model_dump()
    if concurrency is not None:
        values["workloads"] = _workloads(concurrency, values["workloads"])
    if num_sessions is not None:
        for table in values["workloads"].values():
            table["sessions"] = num_sessions
    if history not in (None, "own", "recorded"):
        raise JudgeError(f"--history is own or recorded, not {history!r}", Status.USAGE)
    if rule not in (None, "decide", "reject"):
        raise JudgeError(f"--rule is decide or reject, not {rule!r}", Status.USAGE)
    if residency not in (None, "together", "exclusive"):
        raise JudgeError(f"--residency is together or exclusive, not {residency!r}", Status.USAGE)
    given = {
        "passes": passes,
        "history": history,
        "residency": residency,
        "rule": rule,
        "model": model,
    }
    values.update({k: v for k, v in given.items() if v is not None})
    return Task.model_validate(values)


def _workloads(concurrency: str, before: dict[str, Any]) -> dict[str, Any]:
    """Workloads for ``1,4,kv``: three are solo, team and busy, others are named by their lanes."""
    lanes: list[int | str] = []
    for word in concurrency.split(","):
        if word == "kv" or (word.isdecimal() and int(word) > 0):
            lanes.append("kv" if word == "kv" else int(word))
        else:
            raise JudgeError(
                f"--concurrency takes numbers of lanes or kv, as in 1,4,kv; not {word!r}",
                Status.USAGE,
            )
    names = list(before)
    if len(lanes) == len(names):
        return {n: {**before[n], "lanes": x} for n, x in zip(names, lanes, strict=True)}
    sessions = max(table["sessions"] for table in before.values())
    return {
        f"lanes-{x}": {"lanes": x, "sessions": sessions if x == "kv" else max(sessions, int(x))}
        for x in lanes
    }
