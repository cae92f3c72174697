"""What does it cost a timed event loop to have its metrics scraped?

    python bench/exporter.py

A loop that is otherwise idle is told values and scraped ten times a second: without an exporter,
with one in a thread of its own, with one in a process of its own. Printed is the loop's lag.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable

from loadjudge.client.lag import LagProbe
from loadjudge.client.loop import run
from loadjudge.metrics.exporter import Exporter
from loadjudge.metrics.process import ExporterProcess
from loadjudge.metrics.serve import serve
from loadjudge.metrics.values import Look, Reply, Value

SECONDS = 10.0
REPLY_S = 0.02  # fifty replies a second, of 200 reads each
COUNTERS = {"drafts": 1e6, "accepted": 3e6, **{f"accepted_at_{i}": 1e5 for i in range(8)}}
_SCRAPE = """
import sys, time, urllib.request
while True:
    time.sleep(0.1)
    urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/metrics").read()
"""


def reply(i: int) -> Reply:
    return Reply(
        ("stock", "candidate")[i % 2], f"lanes-{i % 8}", 0.1, 0.1, 0.01, 2.0,
        tuple((0.01 + i * 1e-6, 2) for _ in range(200)), 1000, 400,
    )  # fmt: skip


async def loop(take: Callable[[Value], None] | None) -> str:
    probe = LagProbe(0.001)
    probe.start()
    spent: list[float] = []
    end, i = time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        await asyncio.sleep(REPLY_S)
        if take is not None:
            value = reply(i)
            before = time.perf_counter()
            take(value)
            spent.append(time.perf_counter() - before)
            i += 1
    lag = probe.window()
    probe.stop()
    told = f"{sorted(spent)[len(spent) // 2] * 1e6:5.0f} µs a reply" if spent else " " * 16
    lags = {"p50": lag.p50_s, "p99": lag.p99_s, "max": lag.max_s}
    said = ", ".join(f"{name} {seconds * 1e6:6.0f}" for name, seconds in lags.items())
    return f"{told}   lag {said} µs"


def scraped(port: int, take: Callable[[Value], None]) -> str:
    """The loop, scraped from another process meanwhile."""
    scraper = subprocess.Popen([sys.executable, "-c", _SCRAPE, str(port)])
    try:
        return run(loop(take))
    finally:
        scraper.kill()
        scraper.wait()


def main() -> None:
    print(f"none     {run(loop(None))}")
    exporter = Exporter()
    server = serve(exporter, 0)
    print(f"thread   {scraped(server.port, exporter.take)}")
    server.close()
    process = ExporterProcess(0, linger_s=0.1)
    print(f"process  {scraped(process.port, process.take)}   {process.lost} lost")
    look = Look(
        "stock", "team", 0, 32, 32, 9, (32.0, 0.0, 0.5), COUNTERS, 0.001, 0.2
    )  # the judge sends four a second
    began = time.perf_counter()
    for _ in range(100):
        process.take(look)
    print(f"a look   {(time.perf_counter() - began) * 1e4:6.0f} µs")
    process.close()


if __name__ == "__main__":
    main()
