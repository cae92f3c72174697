"""``loadjudge proxy``: an OpenAI-compatible proxy that measures, records, mirrors and splits."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from loadjudge.proxy.options import Options
    from loadjudge.proxy.server import Proxy

_BYTES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def proxy(
    upstream: Annotated[str, typer.Option(help="Base URL of the endpoint.", metavar="URL")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8100,
    uds: Annotated[
        Path | None, typer.Option(help="Listen on a unix socket instead.", metavar="PATH")
    ] = None,
    path: Annotated[
        list[str] | None,
        typer.Option(
            help="Paths under it pass too, beside /v1; / for all; repeatable.", metavar="PREFIX"
        ),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(help="Write traffic as sessions, JSONL in the native format.", metavar="FILE"),
    ] = None,
    redact: Annotated[
        list[str] | None,
        typer.Option(
            help="Take out of what is recorded: keys, email, phone, card (several with commas) "
            "or all; repeatable.",
            metavar="WHAT",
        ),
    ] = None,
    redact_pattern: Annotated[
        list[str] | None,
        typer.Option(help="Take out what a regular expression finds; repeatable.", metavar="REGEX"),
    ] = None,
    record_idle: Annotated[
        float, typer.Option(min=0.1, help="Seconds after which a session that rests is written.")
    ] = 1800.0,
    record_sessions: Annotated[
        int, typer.Option(min=1, help="Sessions that are kept open at most.")
    ] = 10_000,
    rotate: Annotated[
        str, typer.Option(help="Size at which FILE is moved aside, as in 512M or 1G.")
    ] = "1G",
    mirror: Annotated[
        str | None,
        typer.Option(
            help="Each POST also goes to this candidate; its reply is measured and discarded.",
            metavar="URL",
        ),
    ] = None,
    mirror_concurrency: Annotated[
        int, typer.Option(min=1, help="Mirrored requests in flight; four times as many may wait.")
    ] = 64,
    split: Annotated[
        str | None,
        typer.Option(
            help="This share of sessions, in per cent, goes to a candidate: 10:URL.",
            metavar="PERCENT:URL",
        ),
    ] = None,
    score: Annotated[
        int,
        typer.Option(
            min=0,
            help="Have the upstream score up to N replies of each arm of --split (likelihood "
            "gate); they must carry token ids.",
            metavar="N",
        ),
    ] = 0,
    likelihood_bound: Annotated[
        float | None,
        typer.Option(min=0, help="Limit of that gate in nats a token; none: figures only."),
    ] = None,
    ask_token_ids: Annotated[
        bool,
        typer.Option(
            help="Add return_token_ids to chat requests under --split: replies then carry fields "
            "that the client did not ask for."
        ),
    ] = False,
    share_key: Annotated[
        bool,
        typer.Option(
            help="Send users' keys to the candidate too. Otherwise it gets the one in "
            "LOADJUDGE_CANDIDATE_KEY, if any."
        ),
    ] = False,
    insecure: Annotated[bool, typer.Option(help="Don't check TLS certificates.")] = False,
    answer_timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds to the first byte of an answer.")
    ] = 600.0,
    idle_timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds without a byte that end an answer.")
    ] = 600.0,
    seed: Annotated[int, typer.Option(help="Of the draw of sessions and of samples.")] = 0,
    metrics_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Serve metrics for Prometheus there.")
    ] = None,
    metrics_host: Annotated[str, typer.Option(help="And at this address.")] = "127.0.0.1",
) -> None:
    """Passes OpenAI-compatible traffic through, byte for byte, and shows what it measures at
    /loadjudge. It can record it as sessions, mirror it to a candidate, or split it."""
    from loadjudge.client.loop import run
    from loadjudge.errors import JudgeError, Status
    from loadjudge.proxy.options import (
        Limits,
        MirrorOptions,
        Options,
        RecordOptions,
        SplitOptions,
        parse_paths,
        parse_split,
    )
    from loadjudge.proxy.server import serve

    for flag, given, needs in (
        ("--redact", redact or redact_pattern, record or "--record"),
        ("--score", score, split or "--split"),
        ("--ask-token-ids", ask_token_ids, split or "--split"),
        ("--likelihood-bound", likelihood_bound is not None, score or "--score"),
        ("--share-key", share_key, mirror or split or "--mirror or --split"),
    ):
        if given and isinstance(needs, str) and needs.startswith("--"):
            raise JudgeError(f"{flag} says nothing without {needs}", Status.USAGE)
    recording = mirroring = splitting = None
    if record is not None:
        recording = RecordOptions(
            file=record,
            redact=tuple(redact or ()),
            patterns=tuple(redact_pattern or ()),
            idle_s=record_idle,
            open_sessions=record_sessions,
            rotate_bytes=_size(rotate),
        )
    if mirror is not None:
        mirroring = MirrorOptions(mirror, mirror_concurrency, 4 * mirror_concurrency)
    if split is not None:
        share, url = parse_split(split)
        splitting = SplitOptions(url, share, score, likelihood_bound, ask_token_ids)
    options = Options(
        upstream=upstream,
        host=host,
        port=port,
        uds=uds,
        paths=parse_paths(path),
        insecure=insecure,
        share_key=share_key,
        limits=Limits(answer_s=answer_timeout, idle_s=idle_timeout),
        record=recording,
        mirror=mirroring,
        split=splitting,
        seed=seed,
    )
    if metrics_port is None:
        run(serve(options, ready=lambda address, proxy: _ready(options, address, proxy)))
        return
    from loadjudge.metrics.process import ExporterProcess
    from loadjudge.metrics.proxied import ProxyFeed

    exporter = ExporterProcess(metrics_port, metrics_host)
    feed = ProxyFeed(exporter, _engines(options))
    typer.echo(f"metrics: http://{exporter.host}:{exporter.port}/metrics")
    try:
        run(
            serve(
                options,
                observers=(feed,),
                ready=lambda address, proxy: _ready(options, address, proxy),
                beside=lambda proxy: feed.keep_telling(proxy.snapshot, proxy.live_ab),
            )
        )
    finally:
        exporter.close()


def _engines(options: "Options") -> tuple[tuple[str, str], ...]:
    """Who answers, by arm."""
    engines = [("stock", options.upstream)]
    if options.split is not None:
        engines.append(("candidate", options.split.url))
    if options.mirror is not None:
        engines.append(("mirror", options.mirror.url))
    return tuple(engines)


def _ready(options: "Options", address: str, proxy: "Proxy") -> None:
    """Says what it does, in a few lines."""
    upstream = proxy.upstream("stock").endpoint.url
    typer.echo(f"loadjudge proxy on {address}/v1 for {upstream}; see {address}/loadjudge")
    if options.record is not None:
        typer.echo(f"recording to {options.record.file}")
    if options.mirror is not None:
        typer.echo(f"mirroring to {options.mirror.url}")
    if options.split is not None:
        typer.echo(f"{100 * options.split.share:g} % of sessions go to {options.split.url}")


def _size(text: str) -> int:
    """Bytes of 512M or 1G. Raises JudgeError (usage)."""
    from loadjudge.errors import JudgeError, Status

    number, unit = text.upper().removesuffix("B").removesuffix("I"), 1
    if number[-1:] in _BYTES:
        number, unit = number[:-1], _BYTES[number[-1]]
    if not number.isdecimal() or int(number) * unit < 1:
        raise JudgeError(f"--rotate takes a size, as in 512M or 1G, not {text!r}", Status.USAGE)
    return int(number) * unit
