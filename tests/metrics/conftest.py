"""A real Prometheus that scrapes a real run and a proxy's exporter; one of each for all tests."""

import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.metrics.live import PROXY_SECONDS, feed_proxies, play_sweeps

ROOT = Path(__file__).resolve().parents[2]
GRAFANA = ROOT / "grafana"
RATE_INTERVAL = "3s"
READY_S = 30.0
_TASK = """
stock = "servers/reference/stock"
max_tokens = 40
max_turns = 2
passes = 2
rule = "reject"
[sessions]
dev = ["sessions/chat.jsonl"]
[sampling]
top_k = 20
[workloads.team]
lanes = 4
sessions = 6
ramp_s = 0.2
[texts]
count = 1
[greedy]
sessions = 1
max_tokens = 8
[scoring]
tokens = 500
[limits]
memory_slack_mib = 256
length_margin = 0.1
"""


@pytest.fixture(scope="session")
def tools() -> Path:
    """The folder of promtool and prometheus."""
    for tool in ("promtool", "prometheus"):
        if shutil.which(tool) is None:
            pytest.skip(f"there is no {tool} on this machine (Debian: apt-get install prometheus)")
    return Path(shutil.which("promtool") or "").parent


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Prometheus:
    """A Prometheus in a process of its own, with the repository's configuration."""

    def __init__(self, folder: Path, ports: tuple[int, ...]) -> None:
        targets = ", ".join(f'"localhost:{port}"' for port in ports)
        config = (GRAFANA / "prometheus.yml").read_text()
        start, end = config.index("targets: [") + len("targets: ["), config.index("]")
        config = config[:start] + targets + config[end:]
        (folder / "prometheus.yml").write_text(config.replace("interval: 5s", "interval: 500ms"))
        shutil.copy(GRAFANA / "rules.yml", folder)
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        self._log = (folder / "prometheus.log").open("wb")
        self._process = subprocess.Popen(
            [
                "prometheus", f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stderr=self._log,
        )  # fmt: skip
        self.http = httpx.Client(base_url=self.url)
        deadline = time.monotonic() + READY_S
        while not self._ready():
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise RuntimeError((folder / "prometheus.log").read_text())
            time.sleep(0.05)  # nothing tells when it is ready

    def _ready(self) -> bool:
        try:
            return self.http.get("/-/ready").status_code == 200
        except httpx.HTTPError:
            return False

    def get(self, path: str, **parameters: Any) -> Any:
        answer = self.http.get(f"/api/v1/{path}", params=parameters).json()
        assert answer["status"] == "success", answer
        return answer["data"]

    def range(self, query: str, start: float, end: float, step: float = 0.5) -> list[Any]:
        found = self.get("query_range", query=query, start=start, end=end, step=step)
        return list(found["result"])

    def stop(self) -> None:
        self.http.close()
        self._process.terminate()
        self._process.wait(10)
        self._log.close()


@dataclass(frozen=True)
class Scraped:
    """What was scraped, from when to when, and what the run's record says."""

    prometheus: Prometheus
    start: float
    end: float
    instances: dict[str, str]  # dashboard → exporter
    run: Path
    evaluation: dict[str, Any]

    def filled(self, query: str, dashboard: str) -> str:
        """A panel's query as Grafana would send it."""
        query = query.replace("$__rate_interval", RATE_INTERVAL).replace("$__range", "2m")
        return query.replace("$instance", self.instances[dashboard])


@pytest.fixture(scope="session")
def scraped(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    """A short run of the embedded engines, judged while a Prometheus scrapes it; sweeps of them,
    and replies of theirs through proxies."""
    folder = tmp_path_factory.mktemp("metrics")
    (folder / "task.toml").write_text(_TASK)
    judge_port, *others = (free_port() for _ in range(5))
    proxy_ports, sweep_ports = (others[0], others[1]), (others[2], others[3])
    prometheus = Prometheus(folder, (judge_port, *others))
    start = time.time()
    try:
        judge = subprocess.Popen(
            [
                sys.executable, "-m", "loadjudge", "judge", "--task", str(folder / "task.toml"),
                "--candidate", "servers/reference/ngram", "-o", str(folder / "run"),
                "--metrics-port", str(judge_port),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )  # fmt: skip
        feed_proxies(folder, proxy_ports, PROXY_SECONDS)
        _, said = judge.communicate(timeout=120)
        # A busy machine may make the run invalid; its figures are the same on both sides.
        assert judge.returncode in (0, 1, 4, 5), said
        assert "Traceback" not in said, said
        play_sweeps(folder, folder / "task.toml", sweep_ports)
        yield Scraped(
            prometheus=prometheus,
            start=start,
            end=time.time(),
            instances={
                "judge": f"localhost:{judge_port}",
                "proxy": "|".join(f"localhost:{port}" for port in proxy_ports),
                "sweep": "|".join(f"localhost:{port}" for port in sweep_ports),
            },
            run=folder / "run",
            evaluation=json.loads((folder / "run" / "evaluation.json").read_bytes()),
        )
    finally:
        prometheus.stop()
