"""Speculation must not change what is drawn; broken rules must."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from scipy.stats import chisquare

from loadjudge.reference.chat import render
from loadjudge.reference.history import History
from loadjudge.reference.model import DRAFT, Model
from loadjudge.reference.sampling import Choices, Floats, Sampling, choices
from loadjudge.reference.scheduler import Limits, Request, Scheduler
from loadjudge.reference.speculate import (
    LOSSLESS,
    Ask,
    Draft,
    Drafter,
    DraftModel,
    PromptLookup,
    Rules,
    verify,
)
from loadjudge.reference.store import with_shape

Q = np.array([[0.5, 0.2, 0.3], [0.1, 0.6, 0.3], [0.25, 0.25, 0.5]])  # of the token at each place
D = np.array([[0.2, 0.7, 0.1], [0.4, 0.2, 0.4]])


def _drawn(n: int, point_mass: bool, rules: Rules) -> list[list[int]]:
    """n verify steps of two drafted tokens each, positions independent of each other."""
    q = Choices(np.tile(np.arange(3), (3 * n, 1)), np.tile(Q, (n, 1)))
    d = Choices(np.tile(np.arange(3), (2, 1)), D)
    rng = np.random.default_rng(0)
    drafts = [
        Draft((1, 2)) if point_mass else Draft(tuple(int(rng.choice(3, p=row)) for row in D), d)
        for _ in range(n)
    ]
    return verify(q, drafts, list(range(n)), [0] * n, rules)


def _p_values(steps: Sequence[Sequence[int]]) -> list[float]:
    """Of the tokens at each place, given that it was reached, against Q."""
    values = []
    for place in range(3):
        seen = Counter(step[place] for step in steps if len(step) > place)
        counts = np.array([seen[v] for v in range(3)])
        values.append(float(chisquare(counts, counts.sum() * Q[place]).pvalue))
    return values


@pytest.mark.parametrize("point_mass", [True, False])
def test_tokens_follow_the_target_whatever_the_draft(point_mass: bool) -> None:
    steps = _drawn(16_000, point_mass, LOSSLESS)
    assert sum(map(len, steps)) > 20_000
    assert min(_p_values(steps)) > 1e-3


@pytest.mark.parametrize("point_mass", [True, False])
def test_a_lenient_rule_shows(point_mass: bool) -> None:
    lenient = Rules(accepts=lambda q, d, u: u * d < 1.5 * q)
    assert min(_p_values(_drawn(16_000, point_mass, lenient))) < 1e-6


def test_acceptance_is_one_minus_the_distance() -> None:
    steps = _drawn(16_000, False, LOSSLESS)
    first = np.mean([len(step) > 1 for step in steps])
    assert first == pytest.approx(np.minimum(Q[0], D[0]).sum(), abs=0.015)


def _drafter(kind: str, model: Model) -> Drafter | None:
    if kind == "draft":
        return DraftModel(with_shape(model, DRAFT), 3)
    return PromptLookup(4) if kind == "ngram" else None


def _replies(
    model: Model, kind: str, sampling: Sampling, n: int, rules: Rules = LOSSLESS
) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """The prompt, and n replies to it."""
    messages = [
        {"role": "user", "content": "When does boat 7 leave on Monday, and from where?"},
        {"role": "assistant", "content": "Boat 7 leaves on Monday at 7."},
        {"role": "user", "content": "When does boat 8 leave on Monday, and from where?"},
    ]
    prompt = tuple(render(model.tokenizer, messages))
    limits = Limits(kv_tokens=2**20)
    scheduler = Scheduler(model, _drafter(kind, model), limits=limits, rules=rules)
    for seed in range(n):
        scheduler.add(Request(str(seed), prompt, sampling, seed, max_tokens=40))
    replies: dict[str, list[int]] = {}
    while scheduler.has_work():
        for output in scheduler.step().outputs:
            replies.setdefault(output.id, []).extend(output.tokens)
    if kind != "none":
        assert scheduler.counters.accepted > scheduler.counters.drafts / 2
    return prompt, [tuple(reply) for reply in replies.values()]


def _excess(model: Model, prompt: tuple[int, ...], reply: tuple[int, ...], s: Sampling) -> Floats:
    """Sum of the excess log-likelihood of a reply's tokens, and of its variance under q
    (statistics.md section 2)."""
    ids = (*prompt, *reply)
    total = np.zeros(2)
    for first, p in model.score(ids, len(prompt)):
        q = choices(p, s)
        with np.errstate(divide="ignore"):
            logs = np.log(np.take_along_axis(p, q.ids, axis=1).astype(float))
        logs = np.where(q.q > 0, logs, 0.0)
        mean = (q.q * logs).sum(axis=1)
        own = np.array(ids[first : first + len(p)])
        assert (q.of(own) > 0).all()  # inside the support
        total[0] += (np.log(p[np.arange(len(p)), own].astype(float)) - mean).sum()
        total[1] += (q.q * logs**2).sum() - (mean**2).sum()
    return total


def _z(model: Model, kind: str, sampling: Sampling, rules: Rules = LOSSLESS) -> float:
    prompt, replies = _replies(model, kind, sampling, 300, rules)
    excess, variance = sum(_excess(model, prompt, reply, sampling) for reply in replies)
    return float(excess / np.sqrt(variance))


@pytest.mark.parametrize("kind", ["none", "ngram", "draft"])
@pytest.mark.parametrize("sampling", [Sampling(0.8, 20, 0.95), Sampling()])
def test_replies_of_the_whole_engine_are_lossless(
    model: Model, kind: str, sampling: Sampling
) -> None:
    assert abs(_z(model, kind, sampling)) < 4


def test_a_lenient_engine_shows(model: Model) -> None:
    lenient = Rules(accepts=lambda q, d, u: u * d < 10 * q)
    assert abs(_z(model, "draft", Sampling(), lenient)) > 6


def test_greedy_replies_are_the_same_with_and_without_drafts(model: Model) -> None:
    greedy = Sampling(temperature=0.0)
    arms = [_replies(model, kind, greedy, 2) for kind in ("none", "ngram", "draft")]
    assert arms[0] == arms[1] == arms[2]


def test_prompt_lookup_prefers_the_longest_then_the_latest_match() -> None:
    history = History([1, 2, 3, 4, 9, 2, 3, 5, 9, 2, 3, 6, 1, 2, 3])
    ask = Ask(history, Sampling(), 0, 0, room=10)
    assert PromptLookup(2).propose([ask]) == [Draft((4, 9))]
    assert PromptLookup(2, longest=2).propose([ask]) == [Draft((6, 1))]
    assert PromptLookup(2).propose([Ask(History([1, 2, 3]), Sampling(), 0, 0, 4)]) == [Draft(())]


def test_drafting_leaves_histories_as_they_were(model: Model) -> None:
    ids = model.tokenizer.encode("Boat 7 leaves on Monday at 7. Boat 7 leaves")
    history = History(ids)
    before = history.query()
    DraftModel(with_shape(model, DRAFT), 4).propose([Ask(history, Sampling(), 1, 0, 3)])
    assert history.tokens == ids
    assert history.query() == before


def test_a_draft_knows_the_probability_of_what_it_drew(model: Model) -> None:
    history = History(model.tokenizer.encode("Boat 7 leaves"))
    sampling = Sampling(0.7, 20, 0.9)
    (draft,) = DraftModel(with_shape(model, DRAFT), 2).propose([Ask(history, sampling, 1, 0, 5)])
    assert draft.d is not None
    p = with_shape(model, DRAFT).distributions([history.query()])
    expected = choices(p, sampling).of(np.array(draft.tokens[:1]))
    assert draft.d.of(np.array(draft.tokens))[0] == expected[0] > 0
