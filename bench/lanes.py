"""Does the server see exactly L requests in flight through the measured window?

Plays a pass over real sockets at each number of lanes against an embedded engine, which keeps how
long it served how many requests at once. Between two turns of a lane nothing of it is in flight:
that is the client's turnaround, given as the mean of lanes missing.

    python bench/lanes.py [--lanes 1,8,64,256]
"""

import argparse
import asyncio
import itertools
import tempfile
from pathlib import Path

import httpx

from loadjudge.client.client import LoadClient
from loadjudge.client.loop import run
from loadjudge.load.lanes import Lanes, Progress, Requests
from loadjudge.load.plan import fillers, plays, ramp_fillers
from loadjudge.servers.engine import Engine
from loadjudge.servers.process import EngineProcess
from loadjudge.sessions.shipped import load_split
from loadjudge.wire.request import Sampling


async def measure(lanes: int, folder: Path) -> None:
    engine = Engine(
        name="reference",
        family="reference",
        directory=folder,
        # Room for all lanes, and a clock slow enough for two cores to keep at 256 lanes.
        command=(
            "{python}", "-m", "loadjudge.reference", "--socket", "{socket}",
            "--kv-tokens", "400000", "--max-num-seqs", "512", "--cost.weights_s", "0.15",
        ),
    )  # fmt: skip
    process = EngineProcess(engine, "", folder / "engine.log")
    await process.start()
    try:
        sessions = load_split("chat")
        measured = list(itertools.islice(itertools.cycle(sessions), max(4, lanes)))
        transport = httpx.AsyncHTTPTransport(uds=process.url.removeprefix("unix:"))
        async with (
            httpx.AsyncClient(transport=transport, base_url="http://engine") as http,
            LoadClient(process.url) as client,
        ):
            requests = Requests(
                model="reference", sampling=Sampling(), max_tokens=16, want_ids=True, salt=None,
                extra={}, history="own", keep_reasoning=True, seed=0, workload="lanes", number=0,
            )  # fmt: skip
            playing = Lanes(
                client, requests, lanes, plays(measured), ramp_fillers(sessions, lanes, 0),
                fillers(sessions, 0), 2.0 if lanes > 1 else 0.0, lambda _: None, Progress(),
            )  # fmt: skip

            async def window() -> dict[str, float]:
                await playing.opened.wait()
                await http.post("/reference/inflight/reset")
                while playing.measuring:
                    await asyncio.sleep(0.02)
                    last = (await http.get("/reference/inflight")).json()
                    if playing.measuring:
                        seen = last
                return dict(seen)

            watching = asyncio.create_task(window())
            await playing.run()
            seen = await watching
        seconds = {int(n): s for n, s in seen["seconds"].items()}  # type: ignore[attr-defined]
        total = sum(seconds.values())
        mean = sum(n * s for n, s in seconds.items()) / total
        print(
            f"{lanes:4} lanes: at most {seen['maximum']:3}, exactly {lanes} for "
            f"{seconds.get(lanes, 0) / total:.1%} of {total:.1f} s, mean {mean:.2f} "
            f"({lanes - mean:.2f} missing)",
            flush=True,
        )
    finally:
        await process.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lanes", default="1,8,64,256")
    with tempfile.TemporaryDirectory() as folder:
        for lanes in parser.parse_args().lanes.split(","):
            run(measure(int(lanes), Path(folder)))


if __name__ == "__main__":
    main()
