"""The proxy as users run it: the command, real clients, real engines, real trouble."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import orjson
import psutil
import pytest

from loadjudge.record.run import read_run
from loadjudge.sessions.read import read_sessions
from tests.e2e.conftest import SHARED, Cli, Engine

HTTP = httpx.Client(verify=False, timeout=60, trust_env=False)  # certificates take long to load
FILES = {"mt_bench.spec_bench.jsonl": (60, 120), "tau_bench_airline.openai.jsonl": (20, 265)}
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]


class ProxyProcess:
    """The command in a process of its own."""

    def __init__(self, log: Path, *arguments: object) -> None:
        self.log = log
        with open(log, "wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "loadjudge", "proxy", "--port", "0", *map(str, arguments)],
                stdout=said,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + 30
        while b"see http" not in log.read_bytes():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(log.read_text())
            time.sleep(0.02)  # nothing tells when a process has printed
        self.url = log.read_text().split("/v1", 1)[0].split()[-1]

    def state(self) -> dict[str, Any]:
        return dict(HTTP.get(f"{self.url}/loadjudge.json").json())

    def until(self, holds: Callable[[dict[str, Any]], bool], timeout_s: float = 20) -> Any:
        deadline = time.monotonic() + timeout_s
        while not holds(state := self.state()):
            assert time.monotonic() < deadline, state
            time.sleep(0.05)
        return state

    def stop(self, sign: int = signal.SIGINT) -> int:
        if self.process.poll() is None:
            self.process.send_signal(sign)
        return self.process.wait(30)


Start = Callable[..., ProxyProcess]


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Start]:
    """Starts proxies before an upstream; they end with the test."""
    started: list[ProxyProcess] = []

    def start(upstream: str, *arguments: object) -> ProxyProcess:
        log = tmp_path / f"proxy-{len(started)}.log"
        started.append(ProxyProcess(log, "--upstream", upstream, *arguments))
        return started[-1]

    yield start
    for one in started:
        one.stop(signal.SIGKILL)


@pytest.fixture
def before(proxy: Start, engine: Callable[..., Engine]) -> Callable[..., ProxyProcess]:
    """A proxy before an embedded engine of its own."""

    def start(*arguments: object, flags: tuple[str, ...] = ("--clock", "off")) -> ProxyProcess:
        return proxy(engine(*flags).url, *arguments)

    return start


def ask(one: ProxyProcess, text: str = "hello", **more: Any) -> httpx.Response:
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": 8, "seed": 1, **more}
    return HTTP.post(f"{one.url}/v1/chat/completions", json=body, timeout=30)


# --- clients


def test_the_openai_client(before: Callable[..., ProxyProcess]) -> None:
    with openai.OpenAI(base_url=before().url + "/v1", api_key="k", max_retries=0) as client:
        assert [m.id for m in client.models.list()] == ["reference"]
        one: dict[str, Any] = {
            "model": "reference",
            "messages": [{"role": "user", "content": "Tell me of Paris."}],
            "max_tokens": 12,
            "seed": 7,
        }
        whole = client.chat.completions.create(**one)
        pieces = client.chat.completions.create(**one, stream=True)
        text = "".join(c.choices[0].delta.content or "" for c in pieces if c.choices)
        assert text == whole.choices[0].message.content
        called = client.chat.completions.create(**{**one, "max_tokens": 60}, tools=TOOLS)
        streamed = client.chat.completions.create(
            **{**one, "max_tokens": 60}, tools=TOOLS, stream=True
        )
        names = [
            call.function.name
            for chunk in streamed
            for choice in chunk.choices
            for call in choice.delta.tool_calls or ()
            if call.function and call.function.name
        ]
        assert names == [c.function.name for c in called.choices[0].message.tool_calls or ()]  # type: ignore[union-attr]
        with pytest.raises(openai.NotFoundError, match="does not exist"):
            client.chat.completions.create(**{**one, "model": "gpt-9"})


async def test_the_async_openai_client(before: Callable[..., ProxyProcess]) -> None:
    import asyncio

    url = before().url + "/v1"
    async with openai.AsyncOpenAI(base_url=url, api_key="k", max_retries=0) as client:

        async def text(seed: int, *, stream: bool) -> str:
            asked: dict[str, Any] = {
                "model": "reference",
                "messages": [{"role": "user", "content": "Tell me of Paris."}],
                "max_tokens": 12,
                "seed": seed,
            }
            if not stream:
                whole = await client.chat.completions.create(**asked)
                return whole.choices[0].message.content or ""
            pieces = await client.chat.completions.create(**asked, stream=True)
            return "".join([c.choices[0].delta.content or "" async for c in pieces if c.choices])

        streamed = await asyncio.gather(*(text(i, stream=True) for i in range(12)))
        whole = await asyncio.gather(*(text(i, stream=False) for i in range(12)))
        assert streamed == whole
        assert len(set(whole)) > 6


def test_httpx_and_curl_get_what_they_get_without_it(
    proxy: Start, engine: Callable[..., Engine]
) -> None:
    served = engine("--clock", "off")
    url = proxy(served.url).url

    def parts(lines: list[str]) -> list[Any]:
        """Chunks but for their ids and times, which the engine makes anew for each request."""
        values = [orjson.loads(x[6:]) for x in lines if x.startswith("data: {")]
        return [{k: v for k, v in one.items() if k not in ("id", "created")} for one in values]

    body = {"messages": [{"role": "user", "content": "é" * 100}], "max_tokens": 20, "seed": 3,
            "stream": True}  # fmt: skip
    with served.http.stream("POST", "/v1/chat/completions", json=body) as answer:
        direct = parts(list(answer.iter_lines()))
    with HTTP.stream("POST", f"{url}/v1/chat/completions", json=body) as answer:
        assert parts(list(answer.iter_lines())) == direct
    for flag in ("--http1.1", "--http2", "--http1.0"):
        done = subprocess.run(
            ["curl", "-sSN", flag, "-H", "Expect: 100-continue", "--json", orjson.dumps(body),
             f"{url}/v1/chat/completions"],
            capture_output=True, check=True, timeout=30,
        )  # fmt: skip
        assert parts(done.stdout.decode().splitlines()) == direct
    head = subprocess.run(
        ["curl", "-sSI", f"{url}/v1/models"], capture_output=True, check=True, timeout=30
    )
    assert head.stdout.startswith(b"HTTP/1.1 200 OK")


# --- recording


def test_a_conversation_is_recorded_redacted_and_comes_back(
    before: Callable[..., ProxyProcess], tmp_path: Path, cli: Cli
) -> None:
    file = tmp_path / "traffic.jsonl"
    one = before("--record", file, "--redact", "all", "--redact-pattern", "Zanzibar")
    history: list[Any] = [{"role": "system", "content": "Be brief."}]
    for text in ("I am ada@mail.example", "and my card is 4111 1111 1111 1111", "Zanzibar?"):
        history.append({"role": "user", "content": text})
        reply = HTTP.post(
            f"{one.url}/v1/chat/completions",
            json={"messages": history, "max_tokens": 8},
            headers={"Authorization": "Bearer sk-very-secret-indeed"},
        ).json()["choices"][0]["message"]
        history.append({"role": "assistant", "content": reply["content"]})
    one.until(lambda s: s["recording"]["turns"] == 3)
    assert one.stop() == 0
    (session,) = read_sessions(file)
    assert [len(t.messages) for t in session.turns] == [2, 1, 1]
    assert [t.recorded["content"] for t in session.turns if t.recorded] == [
        m["content"] for m in history if m["role"] == "assistant"
    ]
    data = file.read_bytes()
    for hidden in (b"ada@", b"4111", b"Zanzibar", b"very-secret"):
        assert hidden not in data
    done = cli("sessions", "check", file)
    assert done.returncode == 0
    assert "1 sessions, 3 turns, 0 warnings" in done.stdout


def test_a_proxy_that_is_killed_has_written_what_it_was_told(
    before: Callable[..., ProxyProcess], tmp_path: Path
) -> None:
    file = tmp_path / "traffic.jsonl"
    one = before("--record", file)
    for text in ("one", "two", "three"):
        ask(one, text)
    one.until(lambda s: s["recording"]["turns"] == 3)
    one.stop(signal.SIGKILL)
    deadline = time.monotonic() + 10
    while file.read_bytes().count(b"\n") != 3:  # its recorder outlives it for a moment
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert len(read_sessions(file)) == 3


def test_proxy_and_recorder_killed_together_lose_nothing_that_was_told(
    before: Callable[..., ProxyProcess], proxy: Start, tmp_path: Path
) -> None:
    file = tmp_path / "traffic.jsonl"
    one = before("--record", file)
    ask(one, "one")
    one.until(lambda s: s["recording"]["turns"] == 1)
    (recorder,) = psutil.Process(one.process.pid).children()
    os.kill(one.process.pid, signal.SIGSTOP)
    recorder.kill()
    one.stop(signal.SIGKILL)
    again = proxy("http://127.0.0.1:9", "--record", file)
    again.until(lambda s: s["recording"]["sessions_written"] == 1)
    assert "open sessions of an earlier run were written" in again.log.read_text()
    assert len(read_sessions(file)) == 1


def test_a_recorder_that_dies_is_started_again(
    before: Callable[..., ProxyProcess], tmp_path: Path
) -> None:
    file = tmp_path / "traffic.jsonl"
    one = before("--record", file)
    ask(one, "one")
    one.until(lambda s: s["recording"]["turns"] == 1)
    psutil.Process(one.process.pid).children()[0].kill()
    one.until(lambda s: any("died" in i["what"] for i in s["incidents"]))
    assert ask(one, "while it is away").status_code == 200
    one.until(lambda s: s["recording"]["sessions_written"] == 1)  # what the dead one left
    ask(one, "two")
    one.until(lambda s: s["recording"]["turns"] == 2)
    assert one.stop() == 0
    assert len(read_sessions(file)) == 2


def test_a_full_disk_while_recording(before: Callable[..., ProxyProcess], tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(small)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        one = before("--record", small / "traffic.jsonl")
        for number in range(8):
            assert ask(one, f"{number} " + "x" * 3000).status_code == 200
        state = one.until(lambda s: s["recording"]["drops"].get("the disk", 0) > 0)
        assert "no space left on device" in state["recording"]["trouble"]
        assert "no space left on device" in one.log.read_text()
        assert ask(one).status_code == 200
        one.stop()
    finally:
        subprocess.run(["umount", str(small)], check=True)


@pytest.mark.parametrize("name", FILES)
def test_real_sessions_recorded_live_are_judged(
    name: str,
    before: Callable[..., ProxyProcess],
    cli: Cli,
    tmp_path: Path,
    task: Callable[..., Path],
) -> None:
    source = SHARED / "sessions" / name
    if not source.exists():
        pytest.skip("the shared session files are not here")
    sessions, turns = FILES[name]
    path = task(
        workloads=f"[workloads.team]\nlanes = 8\nsessions = {sessions}\nramp_s = 0", greedy=0
    )
    file = tmp_path / "traffic.jsonl"
    one = before("--record", file, "--path", "/")
    # Both arms are the proxy: it passes each session at least twice.
    done = cli(
        "judge", "--task", path, "--dataset", source, "--output", tmp_path / "live",
        "--stock", one.url, "--candidate", one.url, timeout_s=400,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    assert one.stop() == 0
    recorded = read_sessions(file)
    given = {first_of(s): s for s in read_sessions(source)}
    played = [s for s in recorded if first_of(s) in given]
    # Measured on both arms; the ramp and the fillers play some of them again, cut short.
    whole = [s for s in played if len(replies(s)) == len(given[first_of(s)].turns)]
    assert {first_of(s) for s in whole} == given.keys()
    assert len(whole) >= 2 * sessions
    assert sum(len(replies(s)) for s in whole) >= 2 * turns
    for session in whole:
        origin = given[first_of(session)]
        assert session.tools == origin.tools
        # Where the model made fewer calls than the session has results, they were sent as user
        # messages: between those and results of calls the format has a turn of its own.
        if not any("a model turn comes" in note for note in session.notes):
            assert len(session.turns) == len(origin.turns)
        said = "\n".join(m["content"] for t in session.turns for m in t.messages)
        assert all(m["content"] in said for t in origin.turns for m in t.messages)
    checked = cli("sessions", "check", file)
    assert checked.returncode == 0, checked.stderr
    again = tmp_path / "again"
    judged = cli(
        "judge", "--task", path, "--dataset", file, "--output", again, "--num-sessions", 10,
        "--stock", "servers/reference/stock", "--candidate", "servers/reference/ngram",
        timeout_s=400,
    )  # fmt: skip
    assert judged.returncode in (0, 1, 5), judged.stderr
    lengths = {s.id: len(s.turns) for s in recorded}
    for one_pass in read_run(again).passes:
        assert len(one_pass.measured) == 10
        assert all(len(p.turns) == lengths[p.session] for p in one_pass.measured)


def replies(session: Any) -> list[Any]:
    return [turn.recorded for turn in session.turns if turn.recorded is not None]


def first_of(session: Any) -> bytes:
    return orjson.dumps(session.turns[0].messages)


# --- mirror and split


def test_a_mirror_that_hangs_costs_users_nothing_and_is_counted(
    before: Callable[..., ProxyProcess],
) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=512) as hangs:  # accepts, says nothing
        url = f"http://127.0.0.1:{hangs.getsockname()[1]}"
        plain, mirrored = before(), before("--mirror", url, "--mirror-concurrency", 2)
        times: dict[str, list[float]] = {"plain": [], "mirrored": []}
        ask(plain)
        ask(mirrored)
        for number in range(24):
            for name, one in (("plain", plain), ("mirrored", mirrored)):
                began = time.perf_counter()
                assert ask(one, f"{number}").status_code == 200
                times[name].append(time.perf_counter() - began)
        ratio = sorted(times["mirrored"])[12] / sorted(times["plain"])[12]
        assert ratio < 1.5  # a mirror in the way would cost its whole time-out
        state = mirrored.until(lambda s: sum(s["mirror"]["drops"].values()) >= 15)
        assert state["mirror"]["in_flight"] == 2
        assert state["mirror"]["queued"] == 8
        assert state["mirror"]["drops"] == {"the queue is full": 15}
        assert "can't keep up" in mirrored.log.read_text()


def test_a_mirror_is_measured_in_pairs(
    before: Callable[..., ProxyProcess], engine: Callable[..., Engine]
) -> None:
    slow = engine("--cost.overhead_s", "0.02")
    one = before("--mirror", slow.url, flags=())
    for number in range(12):
        ask(one, f"question {number}", stream=True, stream_options={"include_usage": True})
    state = one.until(
        lambda s: (
            any(a["mirrored"] and a["requests"] == 12 for a in s["arms"])
            and any(r["figure"] == "tpot_s" for r in s["live_ab"])
        ),
    )
    one.until(lambda s: s["live_ab"][0]["sessions"] == [12, 12])
    (tpot,) = [r for r in one.state()["live_ab"] if r["figure"] == "tpot_s"]
    assert tpot["paired"]
    assert 1.5 < tpot["low"] < tpot["ratio"] < tpot["high"] < 6
    assert state["mirror"]["drops"] == {}


def test_keys_of_users_go_to_the_upstream_alone(
    proxy: Start, engine: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    locked, other = engine("--clock", "off", "--api-key", "mine"), engine("--api-key", "its")
    key = {"Authorization": "Bearer mine"}

    def statuses(*flags: object) -> dict[str, int]:
        one = proxy(locked.url, "--mirror", other.url, *flags)
        body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
        assert HTTP.post(f"{one.url}/v1/chat/completions", json=body, headers=key).is_success
        state = one.until(lambda s: any(a["mirrored"] for a in s["arms"]))
        (mirrored,) = [a for a in state["arms"] if a["mirrored"]]
        return dict(mirrored["statuses"])

    assert statuses() == {"4xx": 1}
    monkeypatch.setenv("LOADJUDGE_CANDIDATE_KEY", "its")
    assert statuses() == {"2xx": 1}
    assert statuses("--share-key") == {"4xx": 1}


def test_a_split_goes_by_sessions_and_is_compared_and_scored(
    before: Callable[..., ProxyProcess], engine: Callable[..., Engine]
) -> None:
    candidate = engine("--clock", "off")
    one = before(
        "--split", f"50:{candidate.url}", "--score", 4, "--likelihood-bound", 5,
        "--ask-token-ids", "--path", "/",
    )  # fmt: skip
    drawn = {"temperature": 1.0, "top_k": 20, "stream": True,
             "stream_options": {"include_usage": True}}  # fmt: skip
    for number in range(24):
        history: list[Any] = []
        for text in (f"question {number}", "and more?"):
            history.append({"role": "user", "content": text})
            body = {"messages": history, "max_tokens": 6, **drawn}
            said = HTTP.post(f"{one.url}/v1/chat/completions", json=body).text
            assert "[DONE]" in said
            history.append({"role": "assistant", "content": "whatever"})

    def seen_by_candidate() -> dict[str, set[int]]:
        sessions: dict[str, set[int]] = {}
        for line in candidate.log.read_bytes().splitlines():
            messages = orjson.loads(line)["messages"]
            sessions.setdefault(messages[0]["content"], set()).add(len(messages))
        return sessions

    # Whole sessions, never a part; the last line comes after its answer's end.
    one.until(lambda _: all(turns == {1, 3} for turns in seen_by_candidate().values()))
    seen = seen_by_candidate()
    assert 4 < len(seen) < 20
    state = one.until(
        lambda s: (
            (s["scoring"]["verdict"] or "").startswith("pass")
            and any(r["sessions"] == [24 - len(seen), len(seen)] for r in s["live_ab"])
        ),
        timeout_s=60,
    )
    assert state["split_sessions"] == {"stock": 24 - len(seen), "candidate": len(seen)}
    assert state["scoring"]["replies"] == {"stock": 4, "candidate": 4}
    figures = {(r["figure"], r["of"]) for r in state["live_ab"]}
    assert {("ttft_s", "mean"), ("ttft_s", "median"), ("e2el_s", "median")} <= figures


# --- trouble


def test_2000_idle_connections_and_it_still_serves(before: Callable[..., ProxyProcess]) -> None:
    one = before()
    host, port = one.url.removeprefix("http://").split(":")
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    idle = []
    try:
        for number in range(2000):
            idle.append(socket.create_connection((host, int(port))))
            if number % 2:
                idle[-1].sendall(b"GET /v1/models HTTP/1.1\r\nHo")  # and no more
        state = one.until(lambda s: s["connections"] >= 2000)
        assert ask(one).status_code == 200
        assert state["defects"] == 0
    finally:
        for connection in idle:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    one.until(lambda s: s["connections"] < 10)


def test_an_engine_that_is_killed_in_the_middle(
    proxy: Start, engine: Callable[..., Engine]
) -> None:
    served = engine()
    one = proxy(served.url)
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 500, "stream": True,
            "ignore_eos": True}  # fmt: skip

    def read() -> None:
        with HTTP.stream("POST", f"{one.url}/v1/chat/completions", json=body) as answer:
            for number, _ in enumerate(answer.iter_lines()):
                if number == 6:
                    served.process.kill()

    with pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read"):
        read()
    served.process.wait(10)  # until then its socket still takes connections
    assert ask(one).status_code == 502
    # An answer counts once it is out, which its reader may see first.
    state = one.until(lambda s: sum(s["arms"][0]["errors"].values()) > 1)
    assert state["arms"][0]["errors"] == {"cut": 1, "connect": 1}
    assert "cut:" in one.log.read_text()


def test_a_client_that_leaves_frees_the_engine(proxy: Start, engine: Callable[..., Engine]) -> None:
    served = engine()
    one = proxy(served.url)
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 500, "stream": True,
            "ignore_eos": True}  # fmt: skip
    with HTTP.stream("POST", f"{one.url}/v1/chat/completions", json=body) as answer:
        lines = answer.iter_lines()  # held: the stream ends with it
        next(lines)
        assert served.http.get("/reference/inflight").json()["current"] == 1
    began = time.monotonic()
    while served.http.get("/reference/inflight").json()["current"]:
        assert time.monotonic() - began < 0.1 + 0.1  # and what the engine itself takes
    one.until(lambda s: s["arms"][0]["errors"] == {"client_gone": 1})


def test_shutdown_lets_an_answer_end(before: Callable[..., ProxyProcess]) -> None:
    one = before(flags=())
    got: list[httpx.Response] = []
    asking = threading.Thread(target=lambda: got.append(ask(one, max_tokens=60, ignore_eos=True)))
    asking.start()
    one.until(lambda s: s["in_flight"]["stock"] == 1)
    assert one.stop(signal.SIGTERM) == 0
    asking.join(10)
    assert got[0].json()["usage"]["completion_tokens"] == 60


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("--upstream", "nowhere"), 2, "no base URL"),
        (("--upstream", "http://a", "--split", "URL"), 2, "PERCENT:URL"),
        (("--upstream", "http://a", "--split", "100:http://b"), 2, "between 0 and 100"),
        (("--upstream", "http://a", "--mirror", "http://b", "--split", "1:http://c"), 2, "can't"),
        (("--upstream", "http://a", "--redact", "all"), 2, "--record"),
        (("--upstream", "http://a", "--record", "/tmp/x", "--redact", "cards"), 2, "keys, email"),
        (("--upstream", "http://a", "--record", "/tmp/x", "--redact-pattern", "("), 2, "regular"),
        (("--upstream", "http://a", "--record", "/proc/x/y"), 3, "can't be written"),
        (("--upstream", "http://a", "--record", "/tmp/x", "--rotate", "big"), 2, "512M"),
        (("--upstream", "http://a", "--score", "3"), 2, "--split"),
        (("--upstream", "http://a", "--path", "tokenize"), 2, "--path"),
        (("--upstream", "http://a", "--host", "203.0.113.1"), 3, "can't listen on 203.0.113.1"),
    ],
)  # fmt: skip
def test_wrong_usage(cli: Cli, arguments: tuple[str, ...], status: int, said: str) -> None:
    done = cli("proxy", *arguments)
    assert done.returncode == status, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("loadjudge: ")
    assert said in line
