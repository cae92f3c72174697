"""Which timed replies are scored, how, and what the log then holds."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadjudge.gates.scorers.scorer import Refused, Unavailable
from loadjudge.gates.scorers.timed import (
    choose,
    learn_end_ids,
    sampling_of,
    tokens_to_score,
    unscorable,
)
from loadjudge.gates.scoring import first_prompts, score_greedy, score_run
from loadjudge.gates.terms import terms
from loadjudge.record.codec import scored_from_event
from loadjudge.record.log import RunLog
from loadjudge.record.run import read_run
from loadjudge.record.values import GreedyReply, PassRecord, PlayRecord, TurnRecord
from loadjudge.wire.request import Sampling

END = 99


class FakeScorer:
    """The same distribution everywhere; says what it was asked."""

    name = "a fake"
    end_ids = (END, 98)
    at_once = 3

    def __init__(self) -> None:
        self.asked: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        self.now = self.most = 0

    async def score(
        self, prompt_ids: Sequence[int], reply_ids: Sequence[int], sampling: Sampling
    ) -> Any:
        self.asked.append((tuple(prompt_ids), tuple(reply_ids)))
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        self.now -= 1
        logp = np.full((len(reply_ids), 100), np.log(0.01))
        return terms(logp, None, reply_ids, sampling, self.end_ids), True


def turn(index: int, n: int, prompt: int = 7, **changes: Any) -> TurnRecord:
    values: dict[str, Any] = dict.fromkeys(TurnRecord.__dataclass_fields__)
    values |= {
        "index": index,
        "arrivals": (),
        "finish_reason": "stop",
        "source": "ids",
        "tokens": n,
        "content": "x" * n,
        "reasoning": "",
        "tool_calls": (),
        "token_ids": (*range(1, n), END) if n else (),
        "prompt_ids": (prompt,) * (index + 1),
    }
    return TurnRecord(**(values | changes))


def play(session: str, turns: Sequence[TurnRecord], **changes: Any) -> PlayRecord:
    values: dict[str, Any] = {
        "session": session,
        "play": f"{session}#0",
        "measured": True,
        "lane": 0,
        "turns": tuple(turns),
        "outcome": "done",
        "waited_s": 0.0,
    }
    return PlayRecord(**(values | changes))


def one_pass(workload: str, arm: Any, number: int, plays: Sequence[PlayRecord]) -> PassRecord:
    none: dict[str, Any] = dict.fromkeys(PassRecord.__dataclass_fields__)
    return PassRecord(
        **(none | {"workload": workload, "arm": arm, "number": number, "plays": tuple(plays)})
    )


def a_run(n: int = 10, **changes: Any) -> list[PassRecord]:
    """Two workloads of 2 and 6 sessions, 3 turns each, 2 passes an arm."""
    return [
        one_pass(
            w,
            arm,
            number,
            [play(f"{w}{s}", [turn(t, n, **changes) for t in range(3)]) for s in range(size)],
        )
        for w, size in (("solo", 2), ("busy", 6))
        for arm in ("stock", "candidate")
        for number in range(2)
    ]


def places(picks: Any, arm: str) -> list[Any]:
    return [p.key for p in picks if p.arm == arm]


def test_both_arms_give_the_same_places_balanced_over_workloads_sessions_and_turns() -> None:
    picks = choose(a_run(), 120, seed=1)
    assert places(picks, "stock") == places(picks, "candidate")
    keys = places(picks, "stock")
    assert len(keys) == 12
    assert Counter(k[0] for k in keys) == {"solo": 6, "busy": 6}
    assert Counter(k[2] for k in keys) == {"solo0#0": 3, "solo1#0": 3} | {
        f"busy{s}#0": 1 for s in range(6)
    }
    assert len({k[3] for k in keys}) == 3
    assert [p.arm for p in picks] == ["stock", "candidate"] * 12


def test_the_choice_is_the_seeds() -> None:
    assert choose(a_run(), 100, seed=1) == choose(a_run(), 100, seed=1)
    assert choose(a_run(), 100, seed=1) != choose(a_run(), 100, seed=2)


def test_a_larger_budget_takes_all_there_is_and_what_is_scored_counts() -> None:
    passes = a_run()
    some = choose(passes, 100, seed=1)
    done = {(p.arm, p.key) for p in some}
    assert choose(passes, 100, seed=1, scored=done) == []
    more = choose(passes, 150, seed=1, scored=done)
    assert not {(p.arm, p.key) for p in more} & done
    assert len(more) == 10
    everything = choose(passes, 10**6, seed=1)
    assert len(everything) == 2 * (2 + 6) * 3 * 2
    half = done - {("candidate", some[-1].key)}  # stopped between the two of a pair
    assert choose(passes, 100, seed=1, scored=half) == [some[-1]]


def test_what_one_arm_alone_has_comes_last_and_in_equal_number() -> None:
    stock = one_pass("w", "stock", 0, [play("a", [turn(0, 5), turn(1, 5), turn(2, 5)])])
    candidate = one_pass("w", "candidate", 0, [play("a", [turn(0, 5), turn(3, 5)])])
    picks = choose([stock, candidate], 1000, seed=0)
    assert [p.arm for p in picks] == ["stock", "candidate"] * 2
    assert [p.key[3] for p in picks[:2]] == [0, 0]
    assert picks[3].key[3] == 3


def test_replies_that_cannot_be_scored_are_counted_by_reason() -> None:
    bad = [
        turn(0, 5),
        turn(1, 0),
        turn(2, 5, token_ids=None, source="tokenizer"),
        turn(3, 5, source="tokenizer"),
        turn(4, 5, prompt_ids=None),
        turn(5, 5, error=("http", "status 500")),
    ]
    passes = [
        one_pass("w", "stock", 0, [play("a", [turn(0, 5)]), play("f", bad, measured=False)]),
        one_pass("w", "candidate", 0, [play("a", bad)]),
    ]
    assert unscorable(passes) == {
        "stock": {},
        "candidate": {
            "empty": 1,
            "no token ids": 1,
            "token ids that are not its text": 1,
            "no prompt ids": 1,
            "failed": 1,
        },
    }
    assert len(choose(passes, 1000, seed=0)) == 2


def test_a_reply_that_ended_by_itself_is_scored_with_its_end_and_a_cut_one_without() -> None:
    assert tokens_to_score(turn(0, 3), (END,)) == (1, 2, END)
    bare = {"token_ids": (1, 2)}
    assert tokens_to_score(turn(0, 3, **bare), (END, 98)) == (1, 2, END)
    assert tokens_to_score(turn(0, 3, **bare, finish_reason="tool_calls"), (END,)) == (1, 2, END)
    assert tokens_to_score(turn(0, 3, **bare, finish_reason="length"), (END,)) == (1, 2)
    assert tokens_to_score(turn(0, 3, **bare), ()) == (1, 2)


def test_end_tokens_are_learned_from_stocks_replies_alone() -> None:
    passes = a_run()
    assert learn_end_ids(passes) == (END,)
    other = one_pass("w", "stock", 5, [play("z", [turn(0, 3, token_ids=(1, 98))])])
    assert learn_end_ids([*passes, other]) == (END, 98)
    cheat = one_pass("w", "candidate", 5, [play("z", [turn(0, 3, token_ids=(END, 1))])])
    assert learn_end_ids([*passes, cheat]) == (END,)
    without = one_pass("w", "stock", 5, [play("z", [turn(0, 3, token_ids=(1, 2, 3))])])
    assert learn_end_ids([*passes, without]) == ()


def test_sampling_is_the_tasks_and_the_extra_bodys() -> None:
    header: dict[str, Any] = {
        "task": {"sampling": {"temperature": 0.7, "top_p": 0.9, "top_k": None}},
        "extra_body": {"top_k": 20, "temperature": None, "chat_template_kwargs": {}},
    }
    assert sampling_of(header) == Sampling(0.7, 0.9, 20)
    assert sampling_of({"task": {}}) == Sampling()
    with pytest.raises(Unavailable, match="min_p, presence_penalty"):
        sampling_of({"extra_body": {"presence_penalty": 1, "min_p": 0.1}})


async def test_scored_replies_are_logged_and_read_back(tmp_path: Path) -> None:
    scorer = FakeScorer()
    with RunLog(tmp_path) as log:
        log.append({"event": "run", "seed": 1})
        done = await score_run(a_run(), scorer, log.append, sampling=Sampling(), tokens=100, seed=1)
    run = read_run(tmp_path)
    assert dict(done.replies) == {"stock": 10, "candidate": 10}
    assert dict(done.tokens) == {"stock": 100, "candidate": 100}
    assert (done.exact, done.unavailable) == (True, None)
    assert scorer.most == 3
    assert len(run.scored) == 20
    for reply in run.scored:
        assert reply.terms.is_end.tolist() == [0] * 9 + [1]
        assert reply.terms.logp == pytest.approx(np.log(0.01))
    more = await score_run(
        a_run(), scorer, lambda _: None, sampling=Sampling(), tokens=120, seed=1, scored=run.scored
    )
    assert dict(more.replies) == {"stock": 2, "candidate": 2}
    assert "20 tokens of 2 stock replies" in more.describe()


async def test_a_reply_is_scored_behind_its_own_prompt() -> None:
    passes = [
        one_pass("w", "stock", 0, [play("a", [turn(0, 3, prompt=1)])]),
        one_pass("w", "candidate", 0, [play("a", [turn(0, 4, prompt=2)])]),
    ]
    scorer = FakeScorer()
    await score_run(passes, scorer, lambda _: None, sampling=Sampling(), tokens=9, seed=0)
    assert scorer.asked == [((1,), (1, 2, END)), ((2,), (1, 2, 3, END))]


async def test_a_refused_reply_is_left_out_and_counted() -> None:
    class Refuses(FakeScorer):
        async def score(self, prompt_ids: Any, reply_ids: Any, sampling: Any) -> Any:
            if prompt_ids == (2,):
                raise Refused("out of vocabulary")
            return await super().score(prompt_ids, reply_ids, sampling)

    passes = [
        one_pass("w", "stock", 0, [play("a", [turn(0, 3, prompt=1)])]),
        one_pass("w", "candidate", 0, [play("a", [turn(0, 3, prompt=2)])]),
    ]
    done = await score_run(passes, Refuses(), lambda _: None, sampling=Sampling(), tokens=9, seed=0)
    assert dict(done.replies) == {"stock": 1, "candidate": 0}
    assert done.left_out["candidate"] == {"the scorer refuses it": 1}
    assert "1 candidate (the scorer refuses it)" in done.describe()


async def test_where_nothing_can_be_scored_the_log_says_why(tmp_path: Path) -> None:
    class None_(FakeScorer):
        async def score(self, prompt_ids: Any, reply_ids: Any, sampling: Any) -> Any:
            raise Unavailable("the endpoint gives no prompt_logprobs")

    with RunLog(tmp_path) as log:
        log.append({"event": "run", "seed": 1})
        done = await score_run(a_run(), None_(), log.append, sampling=Sampling(), tokens=9, seed=0)
    assert done.unavailable == "the endpoint gives no prompt_logprobs"
    assert read_run(tmp_path).unavailable == {"likelihood": done.unavailable}


async def test_greedy_replies_are_scored_up_to_their_first_difference() -> None:
    def greedy(arm: Any, session: str, ids: tuple[int, ...], round: int = 0) -> GreedyReply:
        return GreedyReply(arm=arm, round=round, session=session, content="", token_ids=ids)

    replies = [
        greedy("stock", "a", (1, 2, 3, 4)),
        greedy("candidate", "a", (1, 2, 5, 6, 7)),
        greedy("stock", "a", (9,), round=1),
        greedy("stock", "same", (1, 2)),
        greedy("candidate", "same", (1, 2)),
        greedy("stock", "longer", (1, 2)),
        greedy("candidate", "longer", (1, 2, 3)),
        greedy("stock", "no prompt", (1,)),
        greedy("candidate", "no prompt", (2,)),
    ]
    prompts = first_prompts(
        [
            one_pass("w", "candidate", 0, [play("a", [turn(0, 1, prompt=8)])]),
            one_pass("w", "stock", 0, [play(s, [turn(0, 1)]) for s in ("a", "same", "longer")]),
        ]
    )
    scorer, events = FakeScorer(), []
    await score_greedy(replies, prompts, scorer, events.append)
    assert scorer.asked == [((7,), (1, 2, 3)), ((7,), (1, 2, 5))]
    scored = [scored_from_event(e) for e in events]
    assert [(r.arm, r.workload, r.number, r.session) for r in scored] == [
        ("stock", "greedy", 0, "a"),
        ("candidate", "greedy", 0, "a"),
    ]
