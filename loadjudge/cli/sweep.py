"""``loadjudge sweep``: one endpoint, or two side by side, over numbers of lanes or rates."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loadjudge.cli.ci import Ci, Export, Github, Junit, check_export, write_export
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
    from loadjudge.record.values import Arm
    from loadjudge.servers.engine import Engine
    from loadjudge.sweep.options import SweepOptions
    from loadjudge.sweep.points import Point
    from loadjudge.sweep.record import SweepRecord


def sweep(
    more: Annotated[
        list[str] | None,
        typer.Argument(
            hidden=True,
            metavar="SLO",
            help="Further words of --goodput and --search, as vllm bench serve has it.",
        ),
    ] = None,
    base_url: Annotated[
        list[str] | None,
        typer.Option(
            help="The endpoint, or an engine directory; given twice, two side by side.",
            metavar="URL_OR_DIR",
        ),
    ] = None,
    stock: Annotated[
        str | None, typer.Option(help="One of two side by side.", metavar="URL_OR_DIR")
    ] = None,
    candidate: Annotated[
        str | None, typer.Option(help="The other one.", metavar="URL_OR_DIR")
    ] = None,
    concurrency: Annotated[
        str | None,
        typer.Option(
            help="Lanes, as in 1,2,4,8,busy; busy fills the KV cache. 1,2,4,8,16,32 by default."
        ),
    ] = None,
    request_rate: Annotated[
        str | None,
        typer.Option(
            help="An open loop instead: sessions that arrive a second, as in 0.5,1,2, as a Poisson "
            "process."
        ),
    ] = None,
    search: Annotated[
        list[str] | None,
        typer.Option(
            help="Find the largest number of lanes that keeps an objective: METRIC:STATISTIC:MS, "
            "as in ttft:p99:200; with several, all of them.",
            metavar="SLO",
        ),
    ] = None,
    max_concurrency: Annotated[
        int, typer.Option(min=1, help="The most lanes that --search tries.")
    ] = 256,
    goodput: Annotated[
        list[str] | None,
        typer.Option(
            help="Count the turns that keep these limits in ms, as in ttft:200 tpot:50.",
            metavar="SLO",
        ),
    ] = None,
    num_sessions: Annotated[
        int,
        typer.Option(
            min=1,
            help="Measured sessions of a pass; as many as there are lanes where those are more.",
        ),
    ] = 24,
    passes: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Passes of each endpoint at each point, 2 by default; with --search, at most so "
            "many near the border, 4 by default.",
        ),
    ] = None,
    order: Annotated[
        str,
        typer.Option(
            help="alternate: through the points and back again in turn; given; or shuffle."
        ),
    ] = "alternate",
    num_warmups: Annotated[
        int, typer.Option(min=0, help="Sessions played on each endpoint first, unmeasured.")
    ] = 2,
    task: Annotated[
        str, typer.Option(help="Sampling and sessions: a task that ships, or a task.toml.")
    ] = "any",
    split: Annotated[str, typer.Option(help="Which of the task's splits to play.")] = "dev",
    dataset: Annotated[
        list[Path] | None, typer.Option(help="Session files instead of the task's.")
    ] = None,
    dataset_format: Annotated[str, typer.Option(help="Format of --dataset.")] = "auto",
    model: Annotated[
        str | None, typer.Option(help="Model name; the endpoint's only one by default.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of sessions, arrivals, sampling, intervals.")] = 0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Directory; must be new or empty.")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Go on with a sweep that was killed.", metavar="DIR")
    ] = None,
    extra_body: Annotated[
        str | None, typer.Option(help="JSON merged into every request.", metavar="JSON")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option(help="Of every request; repeatable.", metavar="NAME=VALUE")
    ] = None,
    insecure: Annotated[bool, typer.Option(help="Don't check TLS certificates.")] = False,
    idle_timeout: Annotated[
        float, typer.Option(min=1, help="Seconds without a byte that end the sweep.")
    ] = 60.0,
    csv: Annotated[
        Path | None, typer.Option(help="The table as CSV here as well as in the directory.")
    ] = None,
    parquet: Annotated[
        Path | None, typer.Option(help="The table as Parquet; needs the extra parquet.")
    ] = None,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = "127.0.0.1",
    junit: Junit = None,
    github: Github = False,
    export: Export = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Plays sessions over numbers of lanes, or rates of arrival: throughput, latencies, the knee.

    Exit status 0: measured; 1: --search found no number of lanes that keeps the objective; 4: a
    point that the answer needs can't be trusted. The API key is read from OPENAI_API_KEY.
    """
    ci = Ci(junit, github, as_json)
    with ci.telling_failures():
        check_export(export)
        headers, extra = headers_of(header), extra_of(extra_body)
        if parquet is not None:
            from loadjudge.report.sweep.table import arrow

            arrow()  # said before hours of measuring, not after
        if resume is not None:
            options, directory = _resumed(resume)
        else:
            from loadjudge.load.header import session_files
            from loadjudge.load.task import find_task
            from loadjudge.sweep.options import Search, SweepOptions
            from loadjudge.sweep.points import ORDERS, parse_concurrency, parse_rates
            from loadjudge.sweep.slo import parse_goodput, parse_search

            objectives, goodput = _with_more(search or [], goodput or [], more or [])
            given = {
                "--concurrency": concurrency,
                "--request-rate": request_rate,
                "--search": objectives,
            }
            loads = [flag for flag, value in given.items() if value]
            if len(loads) > 1:
                raise JudgeError(f"{loads[0]} and {loads[1]} exclude each other", Status.USAGE)
            if order not in ORDERS:
                raise JudgeError(f"--order is {', '.join(ORDERS)}; not {order!r}", Status.USAGE)
            slos = parse_search(objectives)
            its = find_task(task)
            points: tuple[Point, ...] = ()
            if request_rate is not None:
                points = parse_rates(request_rate)
            elif not slos:
                points = parse_concurrency(concurrency or "1,2,4,8,16,32")
            options = SweepOptions(
                task=its,
                engines=_engines(base_url or [], stock, candidate),
                points=points,
                search=Search(slos, max_concurrency, passes or 4) if slos else None,
                passes=passes or 2,
                order=next(o for o in ORDERS if o == order),
                num_sessions=num_sessions,
                num_warmups=num_warmups,
                goodput=parse_goodput(goodput),
                session_files=tuple(dataset) if dataset else session_files(its, split),
                dataset_format=dataset_format if dataset else its.dataset_format,
                seed=seed,
                extra=extra,
                model=model or its.model,
                insecure=insecure,
                idle_timeout_s=idle_timeout,
            )
            directory = new_directory(output, "sweep")
        metrics = Metrics.at(metrics_port, metrics_host, directory)
        _play(options, directory, headers, resume=resume is not None, metrics=metrics)
        record = write_outcome(directory, csv, parquet)
    show(record, directory, as_json=as_json)
    tell(record, directory, ci, export)
    raise typer.Exit(status_of(record))


def write_outcome(
    directory: Path, csv: Path | None = None, parquet: Path | None = None
) -> "SweepRecord":
    """Derives sweep.json, sweep.csv and report.html from the log, and from it alone."""
    from loadjudge.record.files import write_whole
    from loadjudge.record.run import read_run
    from loadjudge.report.sweep.files import write_sweep
    from loadjudge.report.sweep.table import to_csv, write_parquet
    from loadjudge.sweep.figures import sweep_record

    record = sweep_record(read_run(directory))
    write_sweep(directory, record)
    if csv is not None:
        write_whole(csv, to_csv(record))
    if parquet is not None:
        write_parquet(record, parquet)
    return record


def show(record: "SweepRecord", directory: Path | None, *, as_json: bool) -> None:
    """The record on standard output: for people, or as JSON."""
    import sys

    from rich.console import Console

    from loadjudge.report.sweep.terminal import render_sweep

    if as_json:
        sys.stdout.buffer.write(record.to_bytes())
        return
    render_sweep(record, Console(), directory)


def tell(record: "SweepRecord", directory: Path, ci: Ci, export: tuple[str, Path] | None) -> None:
    """Writes what CI systems and other tools were to get of a sweep."""
    from loadjudge.record.run import read_run
    from loadjudge.report.cases import sweep_suite
    from loadjudge.report.github import sweep_summary

    if export is not None:
        write_export(export, read_run(directory))
    ci.tell(sweep_suite(record), sweep_summary(record))


def status_of(record: "SweepRecord") -> Status:
    """What a sweep's exit status is: see the command's help."""
    outcomes = {result.outcome for result in record.search.values()}
    valid = [figures.valid for point in record.points for figures in point.arms.values()]
    if not record.complete or "invalid" in outcomes or not any(valid):
        return Status.RUN
    return Status.FAILED if "none keeps" in outcomes else Status.PASSED


def _play(
    options: "SweepOptions",
    directory: Path,
    headers: dict[str, str],
    *,
    resume: bool,
    metrics: Metrics | None,
) -> None:
    from loadjudge.load.arm import Access
    from loadjudge.sweep.runner import Sweep

    access = Access.from_environment(headers, options.insecure, options.idle_timeout_s)
    play_run(
        lambda watcher: Sweep(options, access, directory, watcher, resume=resume).run(),
        f"loadjudge sweep --resume {directory}",
        lambda: write_outcome(directory),
        metrics,
    )


def _resumed(directory: Path) -> "tuple[SweepOptions, Path]":
    from loadjudge.record.run import read_run
    from loadjudge.sweep.options import options_of

    run = read_run(directory)
    options = options_of(run.header, directory)
    if run.complete:
        raise JudgeError(f"{directory} is complete: see loadjudge report {directory}", Status.USAGE)
    return options, directory


def _engines(base_urls: list[str], stock: str | None, candidate: str | None) -> "dict[Arm, Engine]":
    from loadjudge.servers.engine import find_engine

    given = [*base_urls]
    if stock or candidate:
        if base_urls or not (stock and candidate):
            raise JudgeError(
                "give --base-url once or twice, or --stock and --candidate", Status.USAGE
            )
        given = [stock, candidate]
    if not given:
        raise JudgeError("say what is to be swept: --base-url URL_OR_DIR", Status.USAGE)
    if len(given) > 2:
        raise JudgeError("--base-url can be given twice at most", Status.USAGE)
    engines: dict[Arm, Engine] = {"stock": find_engine(given[0])}
    if len(given) == 2:
        engines["candidate"] = find_engine(given[1], engines["stock"].kit)
    return engines


def _with_more(
    search: list[str], goodput: list[str], more: list[str]
) -> tuple[list[str], list[str]]:
    """Both flags' words; further ones stand alone on the line: ``--goodput ttft:200 tpot:50``."""
    for word in more:
        flags = {1: goodput, 2: search}.get(word.count(":"))
        if not flags:  # there is no such flag on the line
            raise JudgeError(f"unexpected argument {word!r}", Status.USAGE)
    return (
        [*search, *(w for w in more if w.count(":") == 2)],
        [*goodput, *(w for w in more if w.count(":") == 1)],
    )
