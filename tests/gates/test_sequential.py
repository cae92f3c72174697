"""The sequential rule: its levels, its notes, its next step, and its error over all looks."""

from typing import Any

import numpy as np
import pytest

from loadjudge.gates.sequential import (
    Budget,
    Spent,
    level_at,
    limit_at,
    look_note,
    look_of,
    next_step,
    share_at,
)
from loadjudge.record.evaluation import Evaluation, Gate, LengthRatio, Limits


def test_the_looks_spend_the_error_and_no_more() -> None:
    shares = [share_at(k) for k in range(1, 2000)]
    assert shares[:3] == pytest.approx([1 / 2, 1 / 6, 1 / 12])
    assert 0.999 < sum(shares) <= 1
    assert level_at(None) == 0.95
    assert level_at(1) == pytest.approx(0.975)
    assert limit_at(2, 0.001) == pytest.approx(0.001 / 6)
    assert limit_at(None, 0.001) == 0.001
    assert limit_at(3, None) is None


def test_the_log_tells_which_look_it_is(make: Any) -> None:
    assert look_of(make.run([])) is None
    notes = (look_note(1, "planned passes"), "a greedy reply failed", look_note(2, "more of busy"))
    assert look_of(make.run([], notes=notes)) == 2


def test_over_all_looks_the_truth_is_missed_less_often_than_once_in_20() -> None:
    """bench/sequential.py in small: evidence doubles until decided, the truth on the limit."""
    from scipy import stats

    rng = np.random.default_rng(7)
    bound, wrong, runs = 1.0, 0, 600
    for _ in range(runs):
        total = n = 0.0
        for look in range(1, 8):
            step = max(n, 100.0)
            total += rng.normal(bound * step, 10 * np.sqrt(step))
            n += step
            reach = stats.norm.ppf(0.5 + level_at(look) / 2) * 10 / np.sqrt(n)
            low, high = total / n - reach, total / n + reach
            if high <= bound or low > bound:
                wrong += 1
                break
    assert wrong <= 0.05 * runs


def record(gates: dict[str, Gate], **changes: Any) -> Evaluation:
    def arm(tokens: int, seconds: float) -> dict[str, Any]:
        zeros = ("failed_turns", "cut_at_max_tokens", "converted_results", "repaired_calls")
        return {
            **dict.fromkeys((*zeros, "resends"), 0),
            **{"passes": 3, "sessions": 8, "turns": 20, "errors": {}, "count_sources": {}},
            **{"output_tokens": tokens, "lane_seconds": seconds, "latencies": {}},
            **{"tokens_per_s_per_lane": 1.0, "tokens_per_s": 1.0},
        }

    def workload(lanes: int, tokens: int, seconds: float) -> dict[str, Any]:
        arms = {"stock": arm(tokens, seconds), "candidate": arm(tokens, seconds)}
        lag = {"lag_s": 0.0, "median_tpot_s": 0.01, "lag_share": 0.0}
        return {"lanes": lanes, "lanes_seen": {}, "arms": arms, **lag}

    values = {
        **{"ratios": {}, "specscore": 1.0, "limits": Limits(), "reason": None, "score": None},
        "gates": gates,
        "workloads": {"solo": workload(1, 3000, 30.0), "busy": workload(10, 9000, 90.0)},
        **changes,
    }
    return Evaluation.model_validate(values)


PASS = Gate(verdict="pass", sentence="sound")
OPEN = Gate(verdict="inconclusive", sentence="open", missing_tokens=12_000, growth=1.5)


def test_what_is_decided_stops() -> None:
    assert next_step(record({"memory": PASS}), Spent(1), Budget()).action == "stop"
    failed = {"memory": Gate(verdict="fail", sentence="x"), "likelihood": OPEN}
    decision = next_step(record(failed), Spent(1), Budget())
    assert (decision.action, decision.reason) == ("stop", "memory failed")
    invalid = next_step(record({"likelihood": OPEN}, invalid=["late"]), Spent(1), Budget())
    assert invalid.action == "stop"


def test_an_undecided_gate_takes_its_tokens_where_they_come_quickest() -> None:
    """Half as many tokens again by its own word, and 1.39 times for the next look's level."""
    decision = next_step(record({"likelihood": OPEN}), Spent(1), Budget())
    assert decision.action == "extend"
    assert decision.passes == {"busy": 5}
    assert "likelihood undecided; more passes: 5 of busy" in decision.reason


def test_lengths_ask_for_the_workloads_that_are_open() -> None:
    gate = OPEN.model_copy(update={"bound_low": 0.95, "bound_high": 1.05})
    lengths = {
        "solo": LengthRatio(ratio=1, low=0.9, high=1.1),
        "busy": LengthRatio(ratio=1, low=0.99, high=1.01),
    }
    decision = next_step(record({"lengths": gate}, lengths=lengths), Spent(1), Budget())
    assert list(decision.passes) == ["solo"]


@pytest.mark.parametrize(
    ("budget", "spent", "passes"),
    [
        (Budget(seconds=12), Spent(1), {"busy": 2}),
        (Budget(seconds=12), Spent(2, seconds=5), {"busy": 1}),
        (Budget(tokens=20_000), Spent(1), {"busy": 3}),
        (Budget(seconds=5), Spent(1), {}),
    ],
)
def test_the_budget_cuts_passes(budget: Budget, spent: Spent, passes: dict[str, int]) -> None:
    decision = next_step(record({"likelihood": OPEN}), spent, budget)
    assert decision.passes == passes
    if not passes:
        assert decision.reason.startswith(
            "the budget is spent; undecided: likelihood (about 12,000"
        )
