"""Each attack changes what it says, and nothing else."""

import tomllib
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from aiohttp.test_utils import TestClient, TestServer

from loadjudge.reference.__main__ import config_of, parser
from loadjudge.reference.chat import ReplyParser, render
from loadjudge.reference.configuration import EngineConfig, parts_of, scheduler_of
from loadjudge.reference.engine import Engine
from loadjudge.reference.model import Model
from loadjudge.reference.quantise import GROUP, rounded
from loadjudge.reference.redteam import ATTACKS, Parts
from loadjudge.reference.request import HONEST, Hooks, Request
from loadjudge.reference.sampling import Choices, Floats, Sampling, choices
from loadjudge.reference.server import Server
from loadjudge.reference.speculate import LOSSLESS, Draft, verify
from loadjudge.reference.tokenizer import END

REPLACES = {
    "temperature": {"sampler"},
    "top-p-ignored": {"sampler"},
    "top-k-ignored": {"sampler"},
    "lenient": {"rules.accepts"},
    "greedy-first": {"sampler"},
    "int4": {"target", "told"},
    "int8": {"target", "told"},
    "swapped": {"target", "told"},
    "window": {"hooks.asked"},
    "short": {"sampler"},
    "padded": {"hooks.served"},
    "padded-silent": {"hooks.served"},
    "canned": {"hooks.asked"},
    "synthetic": {"rules.accepts"},
    "inflated": {"report.usage"},
    "inflated-ids": {"report.ids"},
    "honest-when-scored": {"target"},
    "honest-below": {"hooks.rules"},
    "memory": {"memory_mib"},
}
ROOT = Path(__file__).parents[2]
SAMPLING = Sampling(0.7, 20, 0.95)
MESSAGES = [{"role": "user", "content": "When does boat 7 leave on Monday, and from where?"}]


def _honest(model: Model) -> Parts:
    return Parts(target=model, told=model, drafter=None)


def _changed(before: Any, after: Any, prefix: str = "") -> set[str]:
    """The fields that differ, those of rules, hooks and report by their own names."""
    found: set[str] = set()
    for f in fields(before):
        a, b = getattr(before, f.name), getattr(after, f.name)
        if a is b:
            continue
        if not prefix and f.name in ("rules", "hooks", "report"):
            found |= _changed(a, b, f"{f.name}.")
        else:
            found.add(prefix + f.name)
    return found


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_replaces_what_it_says_and_nothing_else(name: str, model: Model) -> None:
    before = _honest(model)
    assert _changed(before, ATTACKS[name](before)) == REPLACES[name]


@pytest.mark.parametrize("name", ATTACKS)
def test_every_attack_ships_as_an_engine_directory(name: str) -> None:
    path = ROOT / "servers" / "reference" / f"redteam-{name}" / "engine.toml"
    command = tomllib.loads(path.read_text())["engine"]["command"]
    config = config_of(parser().parse_args(command[command.index("loadjudge.reference") + 1 :]))
    assert (config.attack, config.strength) == (name, ATTACKS[name].strength)


# --- what is drawn


def _p(rows: int = 4, vocab: int = 400) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    p = np.random.default_rng(3).dirichlet(np.full(vocab, 0.1), rows)
    return p.astype(np.float32)


@pytest.mark.parametrize(
    ("name", "sampling"),
    [
        ("temperature", replace(SAMPLING, temperature=0.7 * 1.05)),
        ("top-p-ignored", replace(SAMPLING, top_p=1.0)),
        ("top-k-ignored", replace(SAMPLING, top_k=0)),
    ],
)
def test_a_sampler_takes_other_parameters_than_asked(
    name: str, sampling: Sampling, model: Model
) -> None:
    q = ATTACKS[name](_honest(model)).sampler(_p(), SAMPLING)
    expected = choices(_p(), sampling)
    assert (q.ids == expected.ids).all()
    assert (q.q == expected.q).all()
    assert q.q.shape != choices(_p(), SAMPLING).q.shape or (q.q != choices(_p(), SAMPLING).q).any()


def test_the_first_choice_is_forced_in_a_share_of_tokens(model: Model) -> None:
    q = choices(_p(), SAMPLING)
    forced = ATTACKS["greedy-first"](_honest(model), 0.1).sampler(_p(), SAMPLING)
    assert forced.q[:, 0] == pytest.approx(0.9 * q.q[:, 0] + 0.1)
    assert forced.q[:, 1:] == pytest.approx(0.9 * q.q[:, 1:])


def test_only_the_odds_of_the_end_change_where_replies_end_early(model: Model) -> None:
    p = _p()
    p[:, END] = 0.2
    q = choices(p, SAMPLING)
    hasty = ATTACKS["short"](_honest(model), 3.0).sampler(p, SAMPLING)
    at_end = np.array([END] * len(p))
    odds = [c.of(at_end) / (1 - c.of(at_end)) for c in (q, hasty)]
    assert odds[1] == pytest.approx(3 * odds[0])
    others = q.ids != END
    ratio = np.where(others & (q.q > 0), hasty.q / np.where(q.q > 0, q.q, 1), np.nan)
    assert np.nanstd(ratio, axis=1) == pytest.approx(0, abs=1e-12)


def _accepted(parts: Parts, q_of_draft: float, n: int = 4000) -> float:
    q = Choices(
        np.tile(np.arange(2), (2 * n, 1)), np.tile([1 - q_of_draft, q_of_draft], (2 * n, 1))
    )
    steps = verify(q, [Draft((1,))] * n, list(range(n)), [0] * n, parts.rules)
    return float(np.mean([len(step) > 1 for step in steps]))


@pytest.mark.parametrize(("q", "lenient", "synthetic"), [(0.03, 0.3, 0.7), (0.5, 1.0, 0.7)])
def test_drafts_are_accepted_too_easily(
    q: float, lenient: float, synthetic: float, model: Model
) -> None:
    assert _accepted(ATTACKS["lenient"](_honest(model)), q) == pytest.approx(lenient, abs=0.03)
    assert _accepted(ATTACKS["synthetic"](_honest(model)), q) == pytest.approx(synthetic, abs=0.03)


def test_a_forced_rejection_of_a_certain_token_leaves_the_token(model: Model) -> None:
    certain = Choices(np.array([[5], [6]]), np.ones((2, 1)))
    synthetic = ATTACKS["synthetic"](_honest(model), 0.0)
    assert verify(certain, [Draft((5,))], [0], [0], synthetic.rules) == [[5]]


# --- which model


def test_quantised_tables_lie_on_few_levels_and_keep_their_zeros() -> None:
    values = np.random.default_rng(0).lognormal(-5, 3, 10 * GROUP + 7).astype(np.float32)
    values[3:5] = 0.0
    worst = {}
    for bits in (4, 8):
        got = rounded(values, bits)
        assert (got[3:5] == 0).all()
        assert (got[values > 0] > 0).all()
        for start in range(0, len(values), GROUP):
            assert len(np.unique(got[start : start + GROUP])) <= 2**bits + 1
        known = values > 0
        worst[bits] = np.abs(np.log(got[known]) - np.log(values[known])).max()
    assert worst[4] > 10 * worst[8] > 0


def _log_likelihood(model: Model, ids: Sequence[int]) -> Floats:
    rows = [np.log(p[np.arange(len(p)), ids[at : at + len(p)]]) for at, p in model.score(ids, 1)]
    return np.concatenate(rows).astype(np.float64)


def test_a_scored_text_shows_which_model_answers(model: Model) -> None:
    ids = model.tokenizer.encode("Boat 7 leaves on Monday at 7. It leaves from the old pier.")
    true = _log_likelihood(model, ids)
    apart = {
        name: np.abs(_log_likelihood(ATTACKS[name](_honest(model)).told, ids) - true).mean()
        for name in ("int4", "int8", "swapped", "honest-when-scored")
    }
    assert apart["swapped"] > apart["int8"] > 1e-5
    assert apart["int4"] > apart["int8"]
    assert apart["honest-when-scored"] == 0.0


# --- whole replies


def _replies(
    model: Model, config: EngineConfig, lanes: int = 4, messages: Any = MESSAGES
) -> list[tuple[tuple[int, ...], str | None]]:
    """The replies of as many requests at once: ids and finish."""
    scheduler = scheduler_of(config, model)
    prompt = tuple(render(model.tokenizer, messages))
    for seed in range(lanes):
        scheduler.add(Request(str(seed), prompt, SAMPLING, seed, max_tokens=60))
    ids: dict[str, list[int]] = {str(seed): [] for seed in range(lanes)}
    finish: dict[str, str | None] = {}
    while scheduler.has_work():
        for output in scheduler.step().outputs:
            ids[output.id] += output.tokens
            finish[output.id] = output.finish
    return [(tuple(ids[name]), finish[name]) for name in ids]


def _text(model: Model, ids: Sequence[int]) -> str:
    reply = ReplyParser(model.tokenizer)
    reply.feed(ids, last=True)
    return reply.content


@pytest.mark.parametrize(("name", "silent"), [("padded", False), ("padded-silent", True)])
def test_padding_comes_before_the_end(name: str, silent: bool, model: Model) -> None:
    honest = _replies(model, EngineConfig("ngram"))
    padded = _replies(model, EngineConfig("ngram", attack=name, strength=5))
    for (before, finish), (after, same) in zip(honest, padded, strict=True):
        assert finish == same
        if finish == "stop":
            assert after[: len(before) - 1] == before[:-1]
            assert after[-1] == END
            assert len(after) == min(len(before) + 5, 60)
            assert (_text(model, after) == _text(model, before)) == (silent or after == before)
    assert any(finish == "stop" for _, finish in honest)


def test_a_known_message_gets_its_recorded_reply(model: Model) -> None:
    session = orjson.loads((ROOT / "sessions" / "chat.jsonl").read_bytes().splitlines()[0])
    at = next(i for i, m in enumerate(session["messages"]) if m["role"] == "assistant")
    messages = session["messages"][:at]
    recorded = session["messages"][at]["content"]
    for ids, _ in _replies(model, EngineConfig("ngram", attack="canned"), 2, messages):
        assert recorded.startswith(_text(model, ids))
        assert _text(model, ids)


def test_an_unknown_message_gets_an_honest_reply_of_a_canning_engine(model: Model) -> None:
    canned = EngineConfig("ngram", attack="canned")
    assert _replies(model, canned) == _replies(model, EngineConfig("ngram"))


def test_the_window_keeps_the_end_of_the_history(model: Model) -> None:
    parts = ATTACKS["window"](_honest(model), 5)
    request = Request("a", tuple(range(300, 320)), SAMPLING, 0, max_tokens=4)
    assert parts.hooks.asked(request) == replace(request, prompt=tuple(range(315, 320)))
    assert parts.hooks.asked(replace(request, prompt=(1, 2))).prompt == (1, 2)


def test_few_lanes_are_served_honestly_and_many_are_not(model: Model) -> None:
    crowded = EngineConfig("ngram", attack="honest-below", strength=8)
    for lanes, same in ((7, True), (16, False)):
        honest = _replies(model, EngineConfig("ngram"), lanes)
        assert (_replies(model, crowded, lanes) == honest) == same


def test_an_honest_engine_has_no_hooks(model: Model) -> None:
    parts = parts_of(EngineConfig("ngram"), model)
    assert parts.hooks is HONEST
    assert parts.rules is LOSSLESS
    request = Request("a", (1, 2), SAMPLING, 0, max_tokens=4)
    assert Hooks().asked(request) is request


# --- what is reported


async def _chat(model: Model, config: EngineConfig) -> dict[str, Any]:
    parts = parts_of(config, model)
    engine = Engine(scheduler_of(config, model, parts), clock=False)
    server = Server(engine, parts.told, "reference", report=parts.report)
    client: TestClient[Any, Any] = TestClient(TestServer(server.app()))
    await client.start_server()
    body = {"messages": MESSAGES, "seed": 3, "max_tokens": 40, "return_token_ids": True}
    async with client.post("/v1/chat/completions", json=body) as response:
        answer: dict[str, Any] = await response.json()
    await client.close()
    return answer


async def test_usage_is_inflated_and_the_reply_is_not(model: Model) -> None:
    honest = await _chat(model, EngineConfig("ngram"))
    inflated = await _chat(model, EngineConfig("ngram", attack="inflated", strength=0.5))
    choice, same = honest["choices"][0], inflated["choices"][0]
    assert choice == same
    true = len(choice["token_ids"])
    assert honest["usage"]["completion_tokens"] == true
    assert inflated["usage"]["completion_tokens"] == true + round(true * 0.5)


async def test_ids_are_repeated_and_the_text_is_not(model: Model) -> None:
    honest = await _chat(model, EngineConfig("ngram"))
    stutters = await _chat(model, EngineConfig("ngram", attack="inflated-ids", strength=2))
    before, after = honest["choices"][0], stutters["choices"][0]
    assert before["message"] == after["message"]
    assert len(after["token_ids"]) > len(before["token_ids"])
    assert stutters["usage"]["completion_tokens"] == len(after["token_ids"])
