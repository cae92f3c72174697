"""``loadjudge metrics``: a run's metrics, live or afterwards, from its log alone."""

from pathlib import Path
from typing import Annotated

import typer


def metrics(
    run: Annotated[Path, typer.Argument(help="Run directory.", metavar="RUN")],
    port: Annotated[int, typer.Option(help="Where to serve them; 0: any that is free.")] = 9464,
    host: Annotated[str, typer.Option(help="Address to serve them at.")] = "127.0.0.1",
) -> None:
    """Serves the metrics of a run or a sweep for Prometheus until Ctrl-C, following its log.

    It goes on elsewhere, or is over. While it goes, `--metrics-port` of judge and sweep knows
    more: lanes in flight, the KV cache, and the pass in progress.
    """
    from threading import Event

    from loadjudge.metrics.exporter import Exporter
    from loadjudge.metrics.follow import follow
    from loadjudge.metrics.followed import Followed
    from loadjudge.metrics.serve import serve
    from loadjudge.record.run import read_run

    read_run(run)  # says what is wrong where it is no run
    exporter = Exporter()
    server = serve(exporter, port, host)
    typer.echo(f"http://{host}:{server.port}/metrics", err=True)
    try:
        follow(run, Followed(run.name, exporter), exporter, Event())
    finally:
        server.close()
