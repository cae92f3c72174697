"""What the proxy costs: added TTFT, throughput beside direct, against a plain aiohttp pass-through.

Builds ../shared/tools/mockserver.c and plays the same closed loop on it directly and through each
proxy, in turn and in one run (D P A A P D ...), so that what else the machine does meets all of
them. The proxies have core 1 to themselves; server and client share core 0 in all ways, the direct
one too. With ``--shared`` the server is on the proxies' core and each takes it from the other.
Run: python bench/proxy.py [--lanes 64] [--rounds 6] [--shared]. Results: bench/proxy.md.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
from client_truth import Mock, Played, closed_loop, mock_server

from loadjudge.client.loop import run

OURS = [sys.executable, "-m", "loadjudge", "proxy", "--upstream"]
AIOHTTP = [sys.executable, __file__, "--be-aiohttp"]


def main() -> None:
    """Prints a line for each way and round, then medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lanes", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--replies", type=int, default=384)
    parser.add_argument("--record", help="also record to this file")
    parser.add_argument("--mirror-hangs", action="store_true", help="and a mirror that does")
    parser.add_argument("--shared", action="store_true", help="the server on the proxies' core")
    parser.add_argument("--be-aiohttp", metavar="URL", help="be the other proxy")
    parser.add_argument("--port", type=int, default=0, help="of the other proxy")
    args = parser.parse_args()
    if args.be_aiohttp:
        run(aiohttp_proxy(args.be_aiohttp, args.port))
        return
    extra = ["--record", args.record] if args.record else []
    with ExitStack() as stack:
        mock = stack.enter_context(mock_server(beside_client=not args.shared))
        ways = {
            "direct": Way(mock.url, None),
            "proxy": stack.enter_context(proxied([*OURS, mock.url, *extra])),
            "aiohttp": stack.enter_context(proxied([*AIOHTTP, mock.url])),
        }
        if args.mirror_hangs:
            hang = f"http://127.0.0.1:{stack.enter_context(never_answers())}"
            ways["mirror"] = stack.enter_context(proxied([*OURS, mock.url, "--mirror", hang]))
        paced = measure(mock, ways, args, ttft_us=50_000, itl_us=10_000)
        own = state(ways["proxy"])["arms"][0]["latencies"]["added_s"]
        fast = measure(mock, ways, args, ttft_us=0, itl_us=0)
        mirrored = state(ways["mirror"])["mirror"] if args.mirror_hangs else None
    report(args.lanes, paced, fast)
    print(f"{'':8} of it in the proxy itself, from reads to writes: p50 {1e3 * own['p50']:.3f}, "
          f"p99 {1e3 * own['p99']:.3f} ms (last {own['n']} requests)")  # fmt: skip
    if mirrored is not None:
        moved = [
            [np.quantile(ttft(m), q) / np.quantile(ttft(p), q) for q in (0.5, 0.99)]
            for (m, _), (p, _) in zip(paced["mirror"], paced["proxy"], strict=True)
        ]
        p50, p99 = np.median(moved, axis=0)
        print(f"TTFT while the mirror hangs, of without one: p50 {p50:.3f}, p99 {p99:.3f}; "
              f"sent to it {mirrored['sent']}, dropped {mirrored['drops']}")  # fmt: skip


def state(way: "Way") -> dict:
    """What the proxy says of itself."""
    with urllib.request.urlopen(f"{way.url}/loadjudge.json") as answer:
        return json.loads(answer.read())


@contextmanager
def never_answers() -> Iterator[int]:
    """A port on which connections are made, and nothing more comes."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listening:
        yield listening.getsockname()[1]


@dataclass(frozen=True, slots=True)
class Way:
    """How the client gets to the server."""

    url: str
    process: psutil.Process | None

    def cpu_s(self) -> float:
        """Of the proxy and its helpers, so far."""
        if self.process is None:
            return 0.0
        every = [self.process, *self.process.children()]
        return sum(sum(one.cpu_times()[:2]) for one in every)


def measure(mock: Mock, ways: dict[str, Way], args: argparse.Namespace, **pace: int) -> dict:
    """Rounds of all ways, forth and back; what was played, and the proxy's CPU time."""
    draw = random.Random(0)
    # Varied lengths: equal ones put all lanes in lockstep, which no traffic does.
    lengths = [draw.randrange(16, 112) for _ in range(args.replies)]
    found: dict[str, list[tuple[Played, float]]] = {way: [] for way in ways}
    for number in range(args.rounds):
        for way in list(ways) if number % 2 == 0 else list(reversed(ways)):
            mock.configure(per_write=1, tpc=1, ts=1, role=1, **pace)
            before_s = ways[way].cpu_s()
            played = run(closed_loop(ways[way].url, args.lanes, lengths))
            cpu_us = 1e6 * (ways[way].cpu_s() - before_s) / played.chunks
            found[way].append((played, cpu_us))
            print(f"{way:8} {played.chunks / played.wall_s:9.0f} chunks/s, {cpu_us:5.1f} µs CPU, "
                  f"TTFT p50 {1e3 * np.quantile(ttft(played), 0.5):6.2f} "
                  f"p99 {1e3 * np.quantile(ttft(played), 0.99):6.2f} ms", flush=True)  # fmt: skip
    return found


def ttft(played: Played) -> np.ndarray:
    """Of each call, in seconds; the first calls, which all lanes send at once, are left out."""
    calls = sorted(played.calls, key=lambda call: call.t_sent_ns)[64:]
    return np.array([(c.reply.arrivals[0].t_ns - c.t_sent_ns) / 1e9 for c in calls])


def itl(played: Played) -> np.ndarray:
    """Gaps between reads, in seconds."""
    return np.concatenate([np.diff([a.t_ns for a in c.reply.arrivals]) for c in played.calls]) / 1e9


def report(lanes: int, paced: dict, fast: dict) -> None:
    """Medians over rounds of what each round adds to the direct one beside it."""
    print(f"\n{lanes} lanes, medians of {len(fast['direct'])} rounds; added to direct, in ms:")
    for way in [way for way in paced if way != "direct"]:
        pairs = [(d, w) for (d, _), (w, _) in zip(paced["direct"], paced[way], strict=True)]
        added = {
            f"{name} p{100 * q:g}": [
                1e3 * (np.quantile(of(w), q) - np.quantile(of(d), q)) for d, w in pairs
            ]
            for name, of in (("TTFT", ttft), ("ITL", itl))
            for q in (0.5, 0.99)
        }
        ratios = [
            (w.chunks / w.wall_s) / (d.chunks / d.wall_s)
            for (d, _), (w, _) in zip(fast["direct"], fast[way], strict=True)
        ]
        said = ", ".join(
            f"{name} {np.median(v):+.2f} ({min(v):+.2f} to {max(v):+.2f})"
            for name, v in added.items()
        )
        rate = np.median([w.chunks / w.wall_s for w, _ in fast[way]])
        cpu = [np.median([cpu for _, cpu in table[way]]) for table in (paced, fast)]
        print(f"{way:8} {said}")
        print(f"{'':8} throughput {np.median(ratios):.2f} of direct ({rate:,.0f} chunks/s); "
              f"CPU {cpu[0]:.1f} µs a chunk paced, {cpu[1]:.1f} at full speed")  # fmt: skip


@contextmanager
def proxied(command: list[str]) -> Iterator[Way]:
    """A proxy in a process of its own, on core 1."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    root = Path(__file__).resolve().parents[1]
    process = subprocess.Popen(
        [*command, "--port", str(port)],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", str(root))},
    )
    try:
        cores = sorted(os.sched_getaffinity(0) | os.sched_getaffinity(os.getppid()))
        os.sched_setaffinity(process.pid, {cores[-1]})
        for _ in range(400):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.02)
        yield Way(f"http://127.0.0.1:{port}", psutil.Process(process.pid))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


async def aiohttp_proxy(upstream: str, port: int) -> None:
    """The least that a pass-through on aiohttp's server and client is, on uvloop."""
    from aiohttp import ClientSession, ClientTimeout, TCPConnector, web

    session = ClientSession(
        connector=TCPConnector(limit=0), auto_decompress=False, timeout=ClientTimeout(total=None)
    )
    hop = {"connection", "transfer-encoding", "keep-alive", "host"}

    async def relay(request: web.Request) -> web.StreamResponse:
        headers = [(k, v) for k, v in request.headers.items() if k.lower() not in hop]
        async with session.request(
            request.method, upstream + request.raw_path, headers=headers, data=await request.read()
        ) as answer:
            out = web.StreamResponse(status=answer.status, reason=answer.reason)
            for key, value in answer.headers.items():
                if key.lower() not in hop:
                    out.headers.add(key, value)
            await out.prepare(request)
            async for data in answer.content.iter_any():
                await out.write(data)
            await out.write_eof()
            return out

    app = web.Application(client_max_size=1 << 30)
    app.router.add_route("*", "/{path:.*}", relay)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await stop.wait()
    await session.close()


if __name__ == "__main__":
    main()
