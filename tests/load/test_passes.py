"""What a pass needs beside its lanes: live contexts, lanes of a cache, salts, the looks."""

import asyncio
from typing import Any

import pytest

from loadjudge.errors import JudgeError
from loadjudge.load.context import corrected_lanes, kv_lanes, mean_live_context
from loadjudge.load.passes import _summary, salt_of
from loadjudge.load.plan import PassPlan
from loadjudge.load.together import together
from loadjudge.servers.counters import Load


def test_the_live_context_is_weighed_by_the_time_that_a_turn_holds_it(make: Any) -> None:
    short = make.turn(10, seconds=1, prompt_tokens=95, reported_tokens=10)
    long = make.turn(10, seconds=3, prompt_tokens=295, reported_tokens=10)
    assert mean_live_context([make.play("a", turns=(short, long))]) == (100 + 3 * 300) / 4


def test_without_prompt_tokens_no_context_is_known(make: Any) -> None:
    unknown = make.play("a", turns=(make.turn(prompt_tokens=None), make.failed_turn()))
    assert mean_live_context([unknown]) is None


def test_lanes_fill_their_share_of_the_cache_and_are_one_at_least() -> None:
    assert kv_lanes(10_000, 450, 0.9) == 20
    assert kv_lanes(100, 450, 0.9) == 1


def looks(use: float | None, samples: float = 10.0, **more: float) -> dict[str, float]:
    told = {} if use is None else {"kv_usage_mean": use}
    return {"mean": 20.0, "max": 20.0, "samples": samples, **told, **more}


@pytest.mark.parametrize(
    ("seen", "lanes"),
    [
        (looks(0.6), 30),  # a lane held two thirds of what was counted
        (looks(0.96), 19),
        (looks(0.86), 20),  # near enough
        (looks(0.1), 80),  # four times as many at most
        (looks(0.6, waiting_mean=3.0), 20),  # something else bounds what runs
        (looks(0.6, samples=3.0), 20),
        (looks(None), 20),
        (None, 20),
    ],
)
def test_lanes_are_corrected_by_the_caches_own_use(
    seen: dict[str, float] | None, lanes: int
) -> None:
    assert corrected_lanes(20, 0.9, seen) == lanes


@pytest.mark.parametrize(
    ("tokens", "context", "lacking"), [(None, 5, "its KV cache"), (5, None, "its prompts' tokens")]
)
def test_lanes_of_a_cache_that_is_not_told_are_refused(
    tokens: float | None, context: float | None, lacking: str
) -> None:
    with pytest.raises(JudgeError, match=f"does not tell .*{lacking}"):
        kv_lanes(tokens, context, 0.9)


def test_a_salt_is_both_arms_alike_and_new_for_each_pass() -> None:
    salts = {
        salt_of(1, PassPlan(w, arm, n, 0))
        for w in ("solo", "busy")
        for arm in ("stock", "candidate")
        for n in (0, 1)
    }
    assert len(salts) == 4


def test_looks_become_a_mean_and_the_most() -> None:
    looks = [Load(3.0, 1.0, 0.5, 2.0), Load(5.0, None, 0.75, 3.0), Load(None, None, None)]
    assert _summary(looks) == {
        "mean": 4.0, "max": 5.0, "samples": 2.0,
        "kv_usage_mean": 0.625, "kv_usage_max": 0.75,
        "waiting_mean": 1.0, "waiting_max": 1.0,
        "accept_length_mean": 2.5, "accept_length_max": 3.0,
    }  # fmt: skip
    assert _summary([Load(None, None, 0.5)]) is None
    assert _summary([]) is None


async def test_together_fails_as_one_of_them_does_and_cancels_the_rest() -> None:
    ended = []

    async def fails() -> None:
        raise JudgeError("no such token")

    async def waits() -> None:
        try:
            await asyncio.Future()
        finally:
            ended.append("cancelled")

    with pytest.raises(JudgeError, match="no such token"):
        await together([waits(), fails()])
    assert ended == ["cancelled"]


async def test_together_gives_results_in_order() -> None:
    async def same(n: int) -> int:
        return n

    assert await together(map(same, range(3))) == [0, 1, 2]
