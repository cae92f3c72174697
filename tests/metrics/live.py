"""Live traffic through proxies whose exporters are scraped meanwhile."""

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
