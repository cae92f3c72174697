"""How fast the embedded engine computes, and whether it keeps its own clock.

Prints microseconds a distribution at several batch sizes, then plays a busy load on a running
engine for some seconds: tokens a step, CPU a token, and the share of steps that were late.

    python bench/reference_speed.py [--lanes 48] [--seconds 10]
"""

import argparse
import asyncio
import time

from loadjudge.reference.chat import render
from loadjudge.reference.configuration import EngineConfig, scheduler_of
from loadjudge.reference.corpus import read_corpus, shipped_files
from loadjudge.reference.engine import Engine
from loadjudge.reference.history import History, Query
from loadjudge.reference.model import Model
from loadjudge.reference.sampling import Sampling, choices
from loadjudge.reference.scheduler import Request
from loadjudge.reference.store import shipped_model

SAMPLING = Sampling(0.7, 20, 0.95)


def main() -> None:
    """Runs the bench."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lanes", type=int, default=48)
    parser.add_argument("--seconds", type=float, default=10.0)
    flags = parser.parse_args()
    started = time.perf_counter()
    model = shipped_model()
    print(f"model ready in {time.perf_counter() - started:.2f} s")
    prompts = _prompts(model)
    _distributions(model, prompts)
    for config in (EngineConfig(), EngineConfig("ngram"), EngineConfig("draft")):
        asyncio.run(_busy(model, config, prompts, flags.lanes, flags.seconds))


def _prompts(model: Model) -> list[list[int]]:
    """Every place where the model speaks in the sessions that ship."""
    prompts = []
    for document in read_corpus(shipped_files()).documents:
        messages = document.get("messages") or []
        for i, message in enumerate(messages):
            if message.get("role") == "assistant":
                prompts.append(render(model.tokenizer, messages[:i], document.get("tools") or ()))
    return prompts


def _distributions(model: Model, prompts: list[list[int]]) -> None:
    queries: list[Query] = [History(prompt).query() for prompt in prompts[:256]]
    histories = [History(prompt) for prompt in prompts[:64]]
    for batch in (1, 16, 64, 256):
        some = queries[:batch]
        times = []
        for _ in range(30):
            started = time.perf_counter()
            p = model.distributions(some)
            middle = time.perf_counter()
            choices(p, SAMPLING)
            times.append((middle - started, time.perf_counter() - middle))
        of_p, of_q = (sorted(t)[len(t) // 2] / batch * 1e6 for t in zip(*times, strict=True))
        print(f"batch {batch:3}: p {of_p:6.1f} us, q {of_q:6.1f} us a distribution")
    started = time.perf_counter()
    for history in histories:
        history.query()
    print(f"query {(time.perf_counter() - started) / len(histories) * 1e6:.1f} us")


async def _busy(
    model: Model, config: EngineConfig, prompts: list[list[int]], lanes: int, seconds: float
) -> None:
    engine = Engine(scheduler_of(config, model))
    engine.start()
    end = time.monotonic() + seconds
    cpu = time.process_time()

    async def lane(number: int) -> None:
        await asyncio.sleep(number * 0.03)  # a ramp, as the judge's
        for turn in range(10**6):
            if time.monotonic() > end:
                return
            prompt = prompts[(number * 31 + turn) % len(prompts)]
            name = f"{number}-{turn}"
            request = Request(name, tuple(prompt), SAMPLING, turn * 997 + number, 256)
            async for _ in engine.generate(request, time.monotonic()):
                pass

    await asyncio.gather(*(lane(number) for number in range(lanes)))
    counters, late = engine.scheduler.counters, engine.late
    cpu = time.process_time() - cpu
    print(
        f"{config.speculate:5} {lanes} lanes: {counters.steps} steps, "
        f"{counters.generation_tokens / counters.steps:.1f} tokens a step, "
        f"{cpu / counters.generation_tokens * 1e6:.0f} us CPU a token, "
        f"{late.steps / counters.steps:.2%} of steps late, {late.seconds * 1e3:.0f} ms in all"
    )
    await engine.stop()


if __name__ == "__main__":
    main()
