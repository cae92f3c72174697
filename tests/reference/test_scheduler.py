"""Batching, blocks, prefixes, preemption."""

import random
import zlib

import pytest

from loadjudge.reference.cost import Cost, Load
from loadjudge.reference.kv import BLOCK, BlockPool, block_hashes
from loadjudge.reference.model import Model
from loadjudge.reference.sampling import Sampling
from loadjudge.reference.scheduler import Limits, Request, Scheduler
from loadjudge.reference.speculate import PromptLookup
from loadjudge.reference.tokenizer import ASSISTANT, END, USER


def _request(model: Model, id: str, words: int = 40, **more: object) -> Request:
    text = "When does boat 7 leave on Monday, and from where? " * (words // 10)
    prompt = (USER, *model.tokenizer.encode(f"{id}: {text}"), ASSISTANT)
    seed = zlib.crc32(id.encode())
    values: dict[str, object] = {"sampling": Sampling(), "seed": seed, "max_tokens": 60}
    return Request(id=id, prompt=prompt, **(values | more))  # type: ignore[arg-type]


def _run(scheduler: Scheduler) -> dict[str, list[int]]:
    replies: dict[str, list[int]] = {}
    while scheduler.has_work():
        for output in scheduler.step().outputs:
            replies.setdefault(output.id, []).extend(output.tokens)
    return replies


def test_blocks_never_leak(model: Model) -> None:
    limits = Limits(kv_tokens=40 * BLOCK, max_model_len=600, max_num_batched_tokens=64)
    scheduler = Scheduler(model, PromptLookup(4), limits=limits)
    rng = random.Random(1)
    waiting = [str(n) for n in range(60)]
    for n in waiting:
        scheduler.add(_request(model, n, rng.choice((10, 40, 90)), cache_salt=n[0]))
    while scheduler.has_work():
        scheduler.step()
        held = [block for s in scheduler.running for block in s.blocks]
        assert len(set(held)) + scheduler.pool.free == scheduler.pool.blocks
        if rng.random() < 0.05:
            scheduler.abort(rng.choice(waiting))
    assert scheduler.pool.free == scheduler.pool.blocks
    assert scheduler.counters.preemptions > 0
    finished = scheduler.counters.finished
    assert sum(finished.values()) == len(waiting)


@pytest.mark.parametrize("speculates", [False, True])
def test_replies_depend_on_neither_batch_nor_preemption(model: Model, speculates: bool) -> None:
    """But for drafts that a preemption or a full step cuts: so where they are, there is room."""
    drafter = PromptLookup(4) if speculates else None
    requests = [_request(model, str(n), 60) for n in range(12)]
    alone = {}
    for request in requests:
        scheduler = Scheduler(model, drafter)
        scheduler.add(request)
        alone |= _run(scheduler)
    tight = Limits(kv_tokens=20 * BLOCK, max_model_len=600, max_num_batched_tokens=48)
    crowded = Scheduler(model, drafter, limits=Limits() if speculates else tight)
    for request in requests:
        crowded.add(request)
    assert _run(crowded) == alone
    assert (crowded.counters.preemptions > 0) is not speculates


def test_a_known_prefix_is_not_computed_again(model: Model) -> None:
    scheduler = Scheduler(model)
    request = _request(model, "a", 90)
    tokens = []
    for _ in range(2):
        scheduler.add(request)
        tokens.append(scheduler.step().load.tokens)
        _run(scheduler)
    assert tokens[0] == len(request.prompt)
    assert tokens[1] == len(request.prompt) - (len(request.prompt) - 1) // BLOCK * BLOCK
    assert scheduler.counters.prefix_hits == tokens[0] - tokens[1]


def test_the_own_reply_is_a_prefix_of_the_next_turn(model: Model) -> None:
    scheduler = Scheduler(model)
    first = _request(model, "a", 40, min_tokens=40)
    scheduler.add(first)
    reply = _run(scheduler)["a"]
    prompt = (*first.prompt, *reply, USER, ASSISTANT)
    scheduler.add(Request("b", prompt, Sampling(), 1, max_tokens=1))
    (output,) = scheduler.step().outputs
    assert output.cached >= (len(first.prompt) + len(reply) - 1) // BLOCK * BLOCK > 0


@pytest.mark.parametrize("change", [{"cache_salt": "other"}, {"reuse": False}])
def test_salt_and_scoring_keep_prefixes_apart(model: Model, change: dict[str, object]) -> None:
    scheduler = Scheduler(model)
    for more in ({"cache_salt": "one"}, {"cache_salt": "one"} | change):
        scheduler.add(_request(model, "a", 90, **more))
        _run(scheduler)
    assert scheduler.counters.prefix_hits == 0


def test_resetting_the_cache_forgets_and_waits_for_idleness(model: Model) -> None:
    scheduler = Scheduler(model)
    scheduler.add(_request(model, "a", 90))
    scheduler.step()
    assert not scheduler.pool.forget()
    _run(scheduler)
    assert scheduler.pool.forget()
    scheduler.add(_request(model, "a", 90))
    _run(scheduler)
    assert scheduler.counters.prefix_hits == 0


def test_least_recently_freed_blocks_are_evicted_first() -> None:
    pool = BlockPool(4)
    hashes = block_hashes(list(range(4 * BLOCK)), None)
    old, new = pool.take(2), pool.take(2)
    for block, key in zip(old + new, hashes, strict=True):
        pool.publish(block, key)
    pool.release(old)
    pool.release(new)
    pool.take(1)  # the tail of the old ones
    assert pool.lookup(hashes) == old[:1]
    with pytest.raises(ValueError, match="4 KV blocks wanted, 3 free"):
        pool.take(4)


def test_limits_of_a_request(model: Model) -> None:
    scheduler = Scheduler(model)
    scheduler.add(_request(model, "short", max_tokens=1))
    scheduler.add(_request(model, "long", min_tokens=59))
    scheduler.add(_request(model, "endless", ignore_eos=True, max_tokens=150))
    replies = _run(scheduler)
    assert len(replies["short"]) == 1
    assert len(replies["long"]) >= 59
    assert END not in replies["long"][:59]
    assert len(replies["endless"]) == 150
    with pytest.raises(ValueError, match="maximum context length"):
        scheduler.add(Request("huge", (USER,) * 17000, Sampling(), 0, 1))


def test_prefill_is_chunked_and_shares_the_budget(model: Model) -> None:
    scheduler = Scheduler(model, limits=Limits(max_num_batched_tokens=50))
    scheduler.add(_request(model, "a", 100))
    loads = []
    while scheduler.has_work():
        loads.append(scheduler.step().load)
    assert max(load.tokens for load in loads) == 50
    assert [load.positions for load in loads[:2]] == [0, 0]


def test_sequences_are_capped(model: Model) -> None:
    scheduler = Scheduler(model, limits=Limits(max_num_seqs=3))
    for n in range(5):
        scheduler.add(_request(model, str(n)))
    scheduler.step()
    assert (len(scheduler.running), len(scheduler.waiting)) == (3, 2)


def test_cost_grows_with_every_part_of_the_load() -> None:
    cost = Cost()
    for kv in (0, 10_000, 60_000):
        steps = [cost.step_s(Load(n, n, kv)) for n in range(1, 400)]
        assert steps == sorted(steps)
        assert cost.step_s(Load(5000, 1, kv)) > cost.step_s(Load(1, 1, kv))
    assert cost.step_s(Load(1, 1, 60_000)) > cost.step_s(Load(1, 1, 0))
    assert (
        cost.step_s(Load(1, 1, 0, 1, 4))
        > cost.step_s(Load(1, 1, 0, 1))
        > cost.step_s(Load(1, 1, 0))
    )


def test_a_stock_step_at_one_lane_takes_eight_to_ten_milliseconds() -> None:
    assert 0.008 < Cost().step_s(Load(1, 1, 1200)) < 0.010
