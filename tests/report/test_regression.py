"""Regression verdicts: three-valued, simultaneous, and never from a run that can't be trusted."""

import math

import pytest

from loadjudge.errors import JudgeError, Status
from loadjudge.record.evaluation import Evaluation, Gate, Pooled, Ratio, SpecScoreInterval
from loadjudge.report.regression import parse_share, regression, regression_suite

PASSES = {"memory": Gate(verdict="pass", sentence="fits", figure=1.0, bound_high=2.0)}
FAILS = {"memory": Gate(verdict="fail", sentence="too much", figure=3.0, bound_high=2.0)}


def run(
    evaluation: Evaluation, speedup: float, half: float = 0.01, **changes: object
) -> Evaluation:
    """One workload at this speedup, its interval ± ``half`` on the log scale."""
    low, high = speedup * math.exp(-half), speedup * math.exp(half)
    values = {
        "ratios": {"solo": Ratio(passes=[speedup], ratio=speedup)},
        "pooled": {"solo": Pooled(ratio=speedup, low=low, high=high, sessions=9)},
        "specscore": speedup,
        "specscore_interval": SpecScoreInterval(specscore=speedup, low=low, high=high),
        "gates": PASSES,
        "verdict": "passed",
        "invalid": [],
    }
    return evaluation.model_copy(update={**values, **changes})


@pytest.mark.parametrize(
    ("speedup", "half", "verdict"),
    [
        (2.0, 0.01, "passed"),
        (1.95, 0.001, "passed"),  # 2.5 % less, and 5 % is allowed
        (1.7, 0.01, "failed"),
        (1.9, 0.05, "inconclusive"),
        (1.7, 0.5, "inconclusive"),
    ],
)
def test_verdicts(evaluation: Evaluation, speedup: float, half: float, verdict: str) -> None:
    found = regression(run(evaluation, 2.0, half), run(evaluation, speedup, half), 0.05)
    assert found.verdict == verdict
    assert {f.name for f in found.figures} == {"SpecScore", "solo"}
    assert bool(found.reasons) == (verdict != "passed")


def test_intervals_hold_together(evaluation: Evaluation) -> None:
    found = regression(run(evaluation, 2.0), run(evaluation, 2.0), 0.05)
    # Two figures: each at 97.5 %, so 2.241 standard errors instead of 1.960.
    half = math.log(found.figures[0].high / found.figures[0].low) / 2  # type: ignore[operator]
    assert half == pytest.approx(math.hypot(0.01, 0.01) * 2.2414 / 1.95996, rel=1e-4)


def test_one_workload_that_fell_fails_though_specscore_holds(evaluation: Evaluation) -> None:
    base = run(evaluation, 2.0)
    slow = Pooled(ratio=1.5, low=1.49, high=1.51, sessions=9)
    found = regression(base, run(evaluation, 2.0, pooled={"solo": slow}), 0.05)
    assert found.verdict == "failed"
    assert [f.verdict for f in found.figures] == ["passed", "failed"]


def test_a_gate_that_fails_anew_is_a_regression(evaluation: Evaluation) -> None:
    passed, failed = run(evaluation, 2.0), run(evaluation, 2.0, gates=FAILS, verdict="failed")
    found = regression(passed, failed, 0.05)
    assert found.verdict == "failed"
    assert "device memory fails and did not in the base" in found.reasons[0].lower()
    assert regression(failed, failed, 0.05).verdict == "passed"  # it is not new


def test_a_run_that_cannot_be_trusted_is_not_compared(evaluation: Evaluation) -> None:
    bad = run(evaluation, 2.0, verdict="invalid", invalid=["the client was late"])
    for base, new, who in ((run(evaluation, 2), bad, "new"), (bad, run(evaluation, 2), "base")):
        found = regression(base, new, 0.05)
        assert found.verdict == "invalid"
        assert found.reasons == (f"the {who} run is invalid: the client was late",)
        assert regression_suite(found).count("error") == 1


def test_without_intervals_nothing_is_shown(evaluation: Evaluation) -> None:
    plain = run(evaluation, 2.0, pooled=None, specscore_interval=None)
    assert regression(plain, plain, 0.05).verdict == "inconclusive"


def test_a_workload_that_is_gone_is_not_passed_over(evaluation: Evaluation) -> None:
    gone = run(evaluation, 2.0, ratios={}, pooled={})
    found = regression(run(evaluation, 2.0), gone, 0.05)
    assert found.verdict == "inconclusive"
    assert "solo: a run has no figure" in found.reasons[0]


def test_cases_are_as_the_verdict(evaluation: Evaluation) -> None:
    found = regression(run(evaluation, 2.0), run(evaluation, 1.7), 0.05)
    suite = regression_suite(found)
    assert [c.outcome for c in suite.cases] == ["failed", "failed", "passed"]
    assert "at least 0.95 is allowed" in suite.cases[0].message


@pytest.mark.parametrize(
    ("text", "share"), [("5%", 0.05), ("0.05", 0.05), ("0", 0.0), ("2.5 %", 0.025)]
)
def test_shares(text: str, share: float) -> None:
    assert parse_share(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["five", "-1%", "100%", "1", "5%%"])
def test_what_is_no_share_is_told(text: str) -> None:
    with pytest.raises(JudgeError, match="--max-regression") as told:
        parse_share(text)
    assert told.value.status == Status.USAGE
