"""How far the load client's times are from the server's own: TTFT and ITL at 1, 64, 256 lanes.

Builds ../shared/tools/mockserver.c, which paces its tokens and knows when it really sent them,
and plays a closed loop on it through the real LoadClient. Server on core 1, client on core 0.
Run: python bench/client_truth.py [--lanes 1,64,256] [--rounds 4]. Results: bench/client.md.
"""

import argparse
import asyncio
import itertools
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from loadjudge.client.client import Call, LoadClient
from loadjudge.client.lag import LagProbe, LagStats
from loadjudge.client.loop import run
from loadjudge.wire.request import chat_body

SOURCE = Path(__file__).resolve().parents[1] / "../shared/tools/mockserver.c"
PROMPT = "Tell me about the history of the city of Paris. " * 10


@dataclass(frozen=True, slots=True)
class Played:
    """A closed loop that was played to its end."""

    calls: list[Call]
    chunks: int
    wall_s: float
    cpu_s: float
    lag: LagStats


class Mock:
    """The mock server, running."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def configure(self, **values: int) -> None:
        """Sets the pace and clears the counters."""
        query = "&".join(f"{key}={value}" for key, value in values.items())
        self._get(f"/__config?{query}")

    def stats(self) -> dict:
        """The truth, in milliseconds."""
        return json.loads(self._get("/__stats"))

    def _get(self, path: str) -> bytes:
        with urllib.request.urlopen(self.url + path) as answer:
            return answer.read()


@contextmanager
def mock_server(*, beside_client: bool = False) -> Iterator[Mock]:
    """Builds it in a temporary folder, pins it (``beside_client``: to this process's core) and this
    process; leaves with 0 where it can't."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not SOURCE.is_file() or compiler is None or not sys.platform.startswith("linux"):
        print(f"nothing measured: needs Linux, a C compiler and {SOURCE}")
        sys.exit(0)
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "mockserver"
        subprocess.run([compiler, "-O2", "-w", "-o", binary, SOURCE], check=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server = subprocess.Popen([binary, str(port)], stderr=subprocess.DEVNULL)
        try:
            cores = sorted(os.sched_getaffinity(0))
            if len(cores) >= 2:
                os.sched_setaffinity(server.pid, {cores[0 if beside_client else 1]})
                os.sched_setaffinity(0, {cores[0]})
            _until_it_listens(port)
            yield Mock(port)
        finally:
            server.kill()
            server.wait()


def _until_it_listens(port: int) -> None:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.01)
    sys.exit("the mock server did not start")


async def closed_loop(url: str, lanes: int, lengths: Sequence[int]) -> Played:
    """Plays one call per length, ``lanes`` at a time, on connections opened ahead."""
    bodies = {
        length: chat_body(
            "mock", [{"role": "user", "content": PROMPT}], max_tokens=length, want_ids=True
        )
        for length in set(lengths)
    }
    left = iter(lengths)
    calls: list[Call] = []

    async def lane(client: LoadClient) -> None:
        calls.extend([await client.chat(bodies[length]) for length in left])

    async with LoadClient(url) as client:
        await client.open(lanes)
        probe = LagProbe()
        probe.start()
        wall, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(lane(client) for _ in range(lanes)))
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        lag = probe.window()
        probe.stop()
    return Played(calls, sum(lengths), wall, cpu, lag)


def _error(measured: float, true: float) -> str:
    return f"{measured:7.2f} {100 * (measured / true - 1):+6.1f}%"


def _row(name: str, lanes: int, played: Played, truth: dict) -> str:
    ttft = np.array([(c.reply.arrivals[0].t_ns - c.t_sent_ns) / 1e6 for c in played.calls])
    stamps = ([a.t_ns for a in c.reply.arrivals] for c in played.calls)
    gaps = [b - a for times in stamps for a, b in itertools.pairwise(times)]
    itl = np.array(gaps) / 1e6
    return " | ".join(
        (
            f"{lanes:5} {name:6}",
            _error(float(ttft.mean()), truth["ttft"]["mean"]),
            _error(float(np.quantile(ttft, 0.99)), truth["ttft"]["p99"]),
            _error(float(itl.mean()), truth["itl"]["mean"]),
            _error(float(np.quantile(itl, 0.99)), truth["itl"]["p99"]),
            f"{truth['peak']:5}",
            f"{played.chunks / played.wall_s:8.0f}",
            f"{1e6 * played.cpu_s / played.chunks:6.1f}",
            f"{1e3 * played.lag.p99_s:6.2f}",
        )
    )


def main() -> None:
    """Prints one line for each load."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lanes", default="1,64,256")
    parser.add_argument("--rounds", type=int, default=4, help="replies a lane")
    parser.add_argument("--ttft-us", type=int, default=50_000)
    parser.add_argument("--itl-us", type=int, default=10_000)
    args = parser.parse_args()
    with mock_server() as mock:
        print("ms, and the error against the server's own figure; CPU in µs a chunk")
        print(
            "lanes length |      TTFT mean |       TTFT p99 |       ITL mean |        ITL p99 "
            "|  peak | chunks/s |    CPU | lag p99"
        )
        draw = random.Random(7)
        for lanes in map(int, args.lanes.split(",")):
            replies = lanes * args.rounds
            for name, lengths in (
                ("equal", [128] * replies),
                ("varied", [draw.randint(64, 192) for _ in range(replies)]),
            ):
                mock.configure(ttft_us=args.ttft_us, itl_us=args.itl_us, tpc=1, ts=1, role=1)
                played = run(closed_loop(mock.url, lanes, lengths))
                print(_row(name, lanes, played, mock.stats()), flush=True)


if __name__ == "__main__":
    main()
