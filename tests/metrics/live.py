"""Live traffic through proxies, and sweeps, whose exporters are scraped meanwhile."""

import subprocess
import sys
from pathlib import Path
from time import monotonic
from typing import Any

import httpx

from tests.e2e.conftest import ROOT, Engine

PROXY_SECONDS = 8.0
REQUESTS = 120  # at least: an interval wants ten sessions of each arm


def feed_proxies(folder: Path, ports: tuple[int, int], seconds: float) -> None:
    """A proxy that splits and one that mirrors and records, asked for at least as long.

    Each ends once its exporter was scraped a last time.
    """
    engines = []
    for arm in ("stock", "candidate"):
        (folder / arm).mkdir()
        engines.append(Engine(folder / arm, "--clock", "off"))
    stock, candidate = (engine.url for engine in engines)
    record = ("--record", str(folder / "live.jsonl"), "--record-idle", "0.5")
    proxies = [
        _proxy(folder, stock, ports[0], "--split", f"50:{candidate}"),
        _proxy(folder, stock, ports[1], "--mirror", candidate, *record),
    ]
    try:
        sockets = [_socket(folder, port) for port in ports]
        for proxy in proxies:
            assert proxy.stdout is not None
            while (line := proxy.stdout.readline()) and "proxy on" not in line:
                pass
            assert line, "a proxy did not start"
        clients = [
            httpx.Client(transport=httpx.HTTPTransport(uds=uds), base_url="http://proxy/v1")
            for uds in sockets
        ]
        end, i = monotonic() + seconds, 0
        while i < REQUESTS or monotonic() < end:
            http = clients[i % 2]
            http.post("/chat/completions", json=_body(i))
            if i % 5 == 0:
                http.get("/models")
            if i % 7 == 0:
                http.post("/chat/completions", json={"model": "reference"})
            i += 1
        for http in clients:
            http.close()
    finally:
        for proxy in proxies:
            proxy.terminate()
        for proxy in proxies:
            proxy.wait(60)
        for engine in engines:
            engine.stop()


def play_sweeps(folder: Path, task: Path, ports: tuple[int, int]) -> None:
    """A search over two engines side by side, and an open loop; at once."""
    each = [
        ("--stock", "servers/reference/stock", "--candidate", "servers/reference/ngram",
         "--search", "ttft:p90:60000", "--max-concurrency", "2", "--goodput", "e2el:600"),
        ("--base-url", "servers/reference/ngram", "--request-rate", "2"),
    ]  # fmt: skip
    sweeps = [
        subprocess.Popen(
            [
                sys.executable, "-m", "loadjudge", "sweep", "--task", str(task), *flags,
                "--num-sessions", "6", "--passes", "1", "--num-warmups", "0",
                "--output", str(folder / f"sweep-{port}"), "--metrics-port", str(port),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
        )
        for flags, port in zip(each, ports, strict=True)
    ]  # fmt: skip
    for sweep in sweeps:
        # A busy machine may make its points invalid; they are exported all the same.
        assert sweep.wait(120) in (0, 4)


def _socket(folder: Path, port: int) -> str:
    return str(folder / f"proxy-{port}.sock")


def _proxy(folder: Path, upstream: str, port: int, *flags: str) -> "subprocess.Popen[str]":
    command = [
        sys.executable, "-m", "loadjudge", "proxy", "--upstream", upstream,
        "--uds", _socket(folder, port), "--metrics-port", str(port), *flags,
    ]  # fmt: skip
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def _body(i: int) -> dict[str, Any]:
    return {
        "model": "reference",
        "messages": [{"role": "user", "content": f"Count to {i}."}],
        "max_tokens": 16,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_token_ids": True,
    }
