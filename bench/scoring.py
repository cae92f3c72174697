"""Whether the endpoint scorer keeps the server busy, and what scoring in process takes.

Starts an embedded engine without its clock in a process of its own and has it score the recorded
replies of the sessions that ship, twice in turns: through the scorer, and by bare sockets that
send bodies made beforehand and throw the answers away. Prints the medians of prompt and reply
tokens a second, and the median of the rounds' ratios.

On a machine with other work on it read the last figure: the client's CPU seconds as a share
of the server's while it is driven by the scorer. Below 1 the server is what there is to wait
for, with a core for each.

    python bench/scoring.py [--replies 48] [--rounds 3] [--at-once 8]
"""

import argparse
import asyncio
import itertools
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import orjson
import psutil

from loadjudge.client.http import PlainClient
from loadjudge.gates.scorers.endpoint import Allowed, EndpointScorer, endpoint_scorer, k_for
from loadjudge.gates.scorers.exact import ExactScorer
from loadjudge.reference.chat import render, reply_ids
from loadjudge.reference.corpus import read_corpus, shipped_files
from loadjudge.reference.model import Model
from loadjudge.reference.store import shipped_model
from loadjudge.reference.tokenizer import END
from loadjudge.wire.request import Sampling

Replies = Sequence[tuple[list[int], list[int]]]
CASES = (("top k 20", Sampling(0.7, 0.9, 20)), ("no top k", Sampling(1.0)))


def main() -> None:
    """Runs the bench."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replies", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=8)
    flags = parser.parse_args()
    model = shipped_model()
    replies = some_replies(model, flags.replies)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/engine.sock"
        engine = start(path)
        try:
            for name, sampling in CASES:
                asyncio.run(compare(name, sampling, path, engine.pid, model, replies, flags))
        finally:
            engine.terminate()
            engine.wait()


def some_replies(model: Model, n: int) -> Replies:
    """Recorded replies and their prompts, spread over the sessions."""
    every = []
    for document in read_corpus(shipped_files()).documents:
        messages = document.get("messages") or []
        for i, message in enumerate(messages):
            if message.get("role") == "assistant":
                prompt = render(model.tokenizer, messages[:i], document.get("tools") or ())
                every.append((prompt, [*reply_ids(model.tokenizer, message), END]))
    return every[:: max(1, len(every) // n)][:n]


def start(path: str) -> "subprocess.Popen[bytes]":
    """The engine, ready."""
    engine = subprocess.Popen(
        [sys.executable, "-m", "loadjudge.reference", "--socket", path, "--clock", "off"],
        stderr=subprocess.DEVNULL,
    )
    while not Path(path).exists():
        time.sleep(0.05)
    return engine


async def compare(
    name: str,
    sampling: Sampling,
    path: str,
    server: int,
    model: Model,
    replies: Replies,
    flags: argparse.Namespace,
) -> None:
    tokens = sum(len(p) + len(r) for p, r in replies)
    scored = sum(len(r) for _, r in replies)
    async with PlainClient(f"unix:{path}") as http:
        scorer = await endpoint_scorer(http, "reference", 16384, (END,), at_once=flags.at_once)
        bodies = [body_of(p + r, sampling) for p, r in replies]
        await through_scorer(scorer, replies[:8], sampling)
        ours, bare = [], []
        client_cpu = server_cpu = 0.0
        for number in range(flags.rounds):
            for which in (0, 1) if number % 2 else (1, 0):
                if which:
                    before = time.process_time(), cpu_of(server)
                    ours.append(tokens / await through_scorer(scorer, replies, sampling))
                    client_cpu += time.process_time() - before[0]
                    server_cpu += cpu_of(server) - before[1]
                else:
                    seconds = await asyncio.to_thread(bare_sockets, path, bodies, flags.at_once)
                    bare.append(tokens / seconds)
    started = time.perf_counter()
    exact = ExactScorer(model)
    for prompt, reply in replies:
        await exact.score(prompt, reply, sampling)
    in_process = time.perf_counter() - started
    ratio = statistics.median(a / b for a, b in zip(ours, bare, strict=True))
    print(
        f"{name}: {len(replies)} replies, {tokens:,} tokens of which {scored:,} are scored: "
        f"scorer {statistics.median(ours):,.0f}, bare sockets {statistics.median(bare):,.0f} "
        f"tokens/s, ratio {ratio:.3f} (rounds "
        f"{', '.join(f'{a / b:.3f}' for a, b in zip(ours, bare, strict=True))}); "
        f"client CPU {client_cpu / server_cpu:.1%} of the server's; "
        f"in process {scored / in_process:,.0f} scored tokens/s against "
        f"{scored / tokens * statistics.median(ours):,.0f}"
    )


def cpu_of(pid: int) -> float:
    """CPU seconds of a process so far."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def body_of(ids: list[int], sampling: Sampling) -> bytes:
    """A request as the scorer sends it."""
    content = orjson.dumps(
        {
            "model": "reference",
            "prompt": ids,
            "prompt_logprobs": k_for(len(ids), sampling, Allowed(2048, True), 1024),
            "temperature": 1.0,
            "max_tokens": 1,
        }
    )
    head = "POST /v1/completions HTTP/1.1\r\nHost: engine\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


async def through_scorer(scorer: EndpointScorer, replies: Replies, sampling: Sampling) -> float:
    """Seconds until all are scored."""
    started = time.perf_counter()
    await asyncio.gather(*(scorer.score(p, r, sampling) for p, r in replies))
    return time.perf_counter() - started


def bare_sockets(path: str, bodies: Sequence[bytes], at_once: int) -> float:
    """Seconds until all are answered."""
    left = itertools.chain(bodies)
    lock = threading.Lock()

    def work() -> None:
        buffer = bytearray(2**20)
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            while True:
                with lock:
                    body = next(left, None)
                if body is None:
                    return
                connection.sendall(body)
                read_answer(connection, buffer)

    threads = [threading.Thread(target=work) for _ in range(at_once)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - started


def read_answer(connection: socket.socket, buffer: bytearray) -> None:
    """Reads one answer and throws it away."""
    head = b""
    while b"\r\n\r\n" not in head:
        head += connection.recv(65536)
    head, _, rest = head.partition(b"\r\n\r\n")
    if b" 200 " not in head[:20]:
        raise RuntimeError(rest.decode())
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    left = length - len(rest)
    while left:
        left -= connection.recv_into(buffer, min(left, len(buffer)))


if __name__ == "__main__":
    main()
