"""Live traffic for a proxy's exporter: real replies of the embedded engine, told as the proxy
tells them."""

import asyncio
from pathlib import Path
from time import monotonic

from loadjudge.client.client import Call, LoadClient
from loadjudge.metrics.exporter import Exporter
from loadjudge.metrics.proxied import ProxyFeed
from loadjudge.metrics.serve import serve
from loadjudge.servers.engine import find_engine
from loadjudge.servers.process import EngineProcess
from loadjudge.wire.request import Sampling, chat_body
from tests.metrics.exchanges import Exchange, snapshot

PROXY_SECONDS = 5.0


def exchange_of(call: Call, arm: str, mirrored: bool) -> Exchange:
    reply = call.reply
    times = [(a.t_ns - call.t_sent_ns) / 1e9 for a in reply.arrivals]
    tokens = tuple(float(a.tokens or 0) for a in reply.arrivals[1:])
    assert all(tokens), "the embedded engine sends an id with every read"
    assert reply.usage is not None
    return Exchange(
        arm,
        mirrored,
        "/v1/chat/completions",
        200,
        prompt_tokens=reply.usage.prompt_tokens,
        output_tokens=reply.usage.completion_tokens,
        ttft_s=times[0],
        ttfot_s=times[0],
        itl_s=tuple((b - a) / k for a, b, k in zip(times, times[1:], tokens, strict=False)),
        itl_tokens=tokens,
        tpot_s=(times[-1] - times[0]) / sum(tokens) if sum(tokens) else None,
        e2el_s=times[-1],
    )


def feed_proxy(folder: Path, port: int, seconds: float) -> None:
    """Serves an exporter for as long, fed with what an engine answers meanwhile."""
    asyncio.run(_feed(folder, port, seconds))


async def _feed(folder: Path, port: int, seconds: float) -> None:
    exporter = Exporter()
    feed = ProxyFeed(exporter, (("stock", "reference"),))
    server = serve(exporter, port)
    engine = EngineProcess(find_engine("servers/reference/ngram"), "", folder / "engine.log")
    await engine.start()
    client = LoadClient(engine.url)
    ratio = {"figure": "ttft_s", "of": "mean", "ratio": 0.9, "low": 0.8, "high": 1.1}
    arms = (("stock", False), ("candidate", False), ("candidate", True))
    end, requests = monotonic() + seconds, 0
    telling = asyncio.create_task(feed.keep_telling(lambda: snapshot(requests), lambda: [ratio]))
    try:
        async with client:
            while monotonic() < end:
                body = chat_body(
                    "reference",
                    [{"role": "user", "content": f"Count to {requests}."}],
                    tools=None,
                    sampling=Sampling(temperature=1.0, top_p=1.0, top_k=20),
                    max_tokens=16,
                    seed=requests,
                    want_ids=True,
                    cache_salt=None,
                    extra={},
                )
                call = await client.chat(body)
                feed(exchange_of(call, *arms[requests % 3]))
                if requests % 5 == 0:
                    feed(Exchange("stock", False, "/v1/models", 503, "http", stream=False))
                requests += 1
        server.wait_for_scrape(5.0)
    finally:
        telling.cancel()
        await engine.stop()
        server.close()
