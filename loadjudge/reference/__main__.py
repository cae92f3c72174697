"""``python -m loadjudge.reference``: serves the embedded engine."""

import argparse
import asyncio
import gc
import logging
import signal
import sys
from dataclasses import fields, replace
from pathlib import Path

import uvloop
from aiohttp import web

from loadjudge.errors import JudgeError
from loadjudge.reference.configuration import EngineConfig, parts_of, scheduler_of
from loadjudge.reference.cost import Cost
from loadjudge.reference.engine import Engine
from loadjudge.reference.generation import RequestLog
from loadjudge.reference.redteam import ATTACKS
from loadjudge.reference.scheduler import Limits
from loadjudge.reference.server import Server
from loadjudge.reference.store import shipped_model


def main(argv: list[str] | None = None) -> int:
    """Serves until SIGTERM or SIGINT; returns the exit status."""
    flags = parser().parse_args(argv)
    logging.basicConfig(level=flags.log_level.upper(), format="%(name)s: %(message)s")
    config = config_of(flags)
    try:
        model = shipped_model()
        parts = parts_of(config, model)
    except JudgeError as error:
        print(error.sentence, file=sys.stderr)
        return int(error.status)
    ballast = b"x" * (parts.memory_mib * 2**20)  # held while it serves
    engine = Engine(scheduler_of(config, model, parts), clock=flags.clock == "on")
    log = RequestLog(flags.request_log) if flags.request_log else None
    name, key = flags.served_model_name, flags.api_key
    uvloop.run(_serve(Server(engine, parts.told, name, key, log, parts.report).app(), flags))
    del ballast
    return 0


def config_of(flags: argparse.Namespace) -> EngineConfig:
    """The configuration that flags of ``parser`` ask for."""
    costs = {f.name: getattr(flags, f"cost.{f.name}") for f in fields(Cost)}
    return EngineConfig(
        speculate=flags.speculate,
        tokens=flags.num_speculative_tokens,
        lookup_longest=flags.prompt_lookup_max,
        lookup_shortest=flags.prompt_lookup_min,
        cost=replace(Cost(), **{k: v for k, v in costs.items() if v is not None}),
        limits=Limits(
            kv_tokens=flags.kv_tokens,
            max_model_len=flags.max_model_len,
            max_num_seqs=flags.max_num_seqs,
            max_num_batched_tokens=flags.max_num_batched_tokens,
        ),
        attack=flags.redteam,
        strength=flags.strength,
    )


async def _serve(app: web.Application, flags: argparse.Namespace) -> None:
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=2.0)
    await runner.setup()
    gc.freeze()  # what is there now stays; collections needn't look at it
    gc.set_threshold(20_000, 20, 20)
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    if flags.socket:
        await web.UnixSite(runner, flags.socket).start()
        print(f"serving on {flags.socket}", file=sys.stderr, flush=True)
    else:
        await web.TCPSite(runner, flags.host, flags.port).start()
        for address in runner.addresses:
            print(f"serving on http://{address[0]}:{address[1]}", file=sys.stderr, flush=True)
    await stop.wait()
    await runner.cleanup()


def parser() -> argparse.ArgumentParser:
    """The flags of ``python -m loadjudge.reference``."""
    parser = argparse.ArgumentParser(
        prog="python -m loadjudge.reference",
        description="The embedded engine: an exact small language model behind vLLM's surface.",
    )
    limits = Limits()
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--socket", metavar="PATH", help="serve on a unix socket")
    where.add_argument("--port", type=int, metavar="N", help="serve on TCP; 0 takes a free port")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--speculate", choices=("none", "ngram", "draft"), default="none")
    parser.add_argument("--num-speculative-tokens", type=int, default=4, metavar="K")
    parser.add_argument("--prompt-lookup-max", type=int, default=5, metavar="N")
    parser.add_argument("--prompt-lookup-min", type=int, default=2, metavar="N")
    parser.add_argument("--served-model-name", default="reference", metavar="NAME")
    parser.add_argument("--kv-tokens", type=int, default=limits.kv_tokens, metavar="N")
    parser.add_argument("--max-model-len", type=int, default=limits.max_model_len, metavar="N")
    parser.add_argument("--max-num-seqs", type=int, default=limits.max_num_seqs, metavar="N")
    parser.add_argument(
        "--max-num-batched-tokens", type=int, default=limits.max_num_batched_tokens, metavar="N"
    )
    attacks = "; ".join(f"{a.name}: {a.does} ({a.means}, {a.strength:g})" for a in ATTACKS.values())
    parser.add_argument(
        "--redteam", choices=tuple(ATTACKS), metavar="ATTACK", help=f"cheats. {attacks}"
    )
    parser.add_argument(
        "--strength", type=float, metavar="X", help="of the attack; its own by default, see there"
    )
    parser.add_argument("--clock", choices=("on", "off"), default="on")
    parser.add_argument("--request-log", type=Path, metavar="FILE")
    parser.add_argument("--api-key", metavar="KEY")
    parser.add_argument("--log-level", default="info", choices=("debug", "info", "warning"))
    for f in fields(Cost):
        parser.add_argument(
            f"--cost.{f.name}",
            type=int if isinstance(f.default, int) else float,
            metavar="N" if isinstance(f.default, int) else "SECONDS",
            help=f"of the cost model; {f.default} by default",
        )
    return parser


if __name__ == "__main__":
    sys.exit(main())
