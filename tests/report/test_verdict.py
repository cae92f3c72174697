from typing import Any

import pytest

from loadjudge.record.evaluation import Evaluation, Gate
from loadjudge.report.bullets import bullet
from loadjudge.report.checks import checks_of
from loadjudge.report.seed import seed_gates
from loadjudge.report.verdict import big_score, headline_of, verdict_of


def test_a_seed_record_passed_as_its_page_says(seed_record: Evaluation) -> None:
    assert verdict_of(seed_record) == "passed"
    verdicts = {check.name: check.verdict for check in checks_of(seed_record)}
    argmax = "pass" if seed_record.argmax else "n/a"
    assert verdicts == {
        "memory": "pass",
        "fidelity": "pass",
        "likelihood": "pass",
        "argmax": argmax,
        "agreement": "n/a",
        "lengths": "pass",
    }


def test_a_straddling_interval_of_a_seed_record_is_said_to_straddle(
    seed_record: Evaluation,
) -> None:
    gate = seed_gates(seed_record)["lengths"]
    assert gate.verdict == "pass"
    assert "reaches past the limit" in gate.sentence


@pytest.mark.parametrize(
    ("gap", "verdict"), [(0.0, "pass"), (0.04, "pass"), (0.2, "fail"), (-0.2, "fail")]
)
def test_the_seed_rule_fails_only_what_lies_wholly_outside(
    evaluation: Evaluation, gap: float, verdict: str
) -> None:
    likelihood = {"gap": gap, "se": 0.025, "candidate": -0.5, "stock": -0.5}
    record = Evaluation.model_validate({**evaluation.model_dump(), "likelihood": likelihood})
    assert seed_gates(record)["likelihood"].verdict == verdict


def test_checks_come_in_the_order_of_the_design(evaluation: Evaluation) -> None:
    gates = dict(reversed((evaluation.gates or {}).items()))
    gates["mmd"] = Gate(verdict="pass", sentence="Texts are alike.", figure=0.2)
    names = [c.name for c in checks_of(evaluation.model_copy(update={"gates": gates}))]
    assert names == [
        *("memory", "fidelity", "likelihood", "argmax", "agreement", "lengths"),
        *("support", "ranks", "integrity", "mmd"),
    ]


def test_figures_and_limits_in_words(evaluation: Evaluation) -> None:
    said = {c.name: (c.measured, c.limit) for c in checks_of(evaluation)}
    assert said["memory"] == ("129.3 GiB", "≤ 132.0 GiB")
    assert said["likelihood"] == ("+0.0021 ± 0.0133", "within ±0.05 at 95 %")
    assert said["lengths"] == ("1.010 (0.970 to 1.040)", "1 ± 0.05 at 95 %")
    assert said["ranks"] == ("p = 0.43", "≥ 0.001")
    assert said["support"] == ("–", "none set")


def test_a_gate_that_could_not_be_had_says_why(evaluation: Evaluation) -> None:
    support = next(c for c in checks_of(evaluation) if c.name == "support")
    assert "gives no log-probabilities" in support.sentence


FAIL = Gate(verdict="fail", sentence="Replies are less likely.", figure=-0.08)
OPEN = Gate(verdict="inconclusive", sentence="Too few tokens.", missing_tokens=41_200)


@pytest.mark.parametrize(
    ("changes", "word", "reason", "big"),
    [
        ({"verdict": "failed", "gates": {"likelihood": FAIL}}, "Failed", "less likely", "0"),
        (
            {"verdict": "inconclusive", "gates": {"lengths": OPEN}},
            "Inconclusive",
            "about 41,200 more tokens",
            "1.819",
        ),
        ({"verdict": "invalid", "invalid": ["2 % of turns failed"]}, "Invalid", "2 %", "none"),
    ],
)
def test_a_record_that_did_not_pass_says_why(
    evaluation: Evaluation, changes: dict[str, Any], word: str, reason: str, big: str
) -> None:
    record = evaluation.model_copy(update=changes)
    headline = headline_of(record)
    assert headline.word == word
    assert any(reason in said for said in headline.reasons)
    assert big_score(record)[0] == big


def test_an_invalid_run_makes_no_claim_about_speed(evaluation: Evaluation) -> None:
    assert headline_of(evaluation.model_copy(update={"verdict": "invalid"})).speed == ""


def test_a_speedup_within_its_interval_of_1_is_not_called_one(evaluation: Evaluation) -> None:
    interval = {"low": 0.98, "high": 1.03, "specscore": 1.01}
    values = {**evaluation.model_dump(), "specscore": 1.01, "specscore_interval": interval}
    assert "Not distinguishable" in headline_of(Evaluation.model_validate(values)).speed


def test_reasons_are_not_said_twice(evaluation: Evaluation) -> None:
    record = evaluation.model_copy(
        update={"verdict": "failed", "reason": "replies are less likely", "gates": {"x": FAIL}}
    )
    assert len(headline_of(record).reasons) == 1


def test_a_drawing_needs_a_figure_and_a_limit() -> None:
    assert bullet(Gate(verdict="n/a", sentence="")) is None
    assert bullet(Gate(verdict="n/a", sentence="", figure=0.9)) is None
    drawn = bullet(Gate(verdict="pass", sentence="", figure=0.1, bound_high=0.2))
    assert drawn is not None
    assert "<circle" in drawn


def test_a_run_that_passed_by_reject_alone_says_what_is_undecided(evaluation: Evaluation) -> None:
    record = evaluation.model_copy(update={"rule": "reject", "gates": {"likelihood": OPEN}})
    sentence = headline_of(record).sentence
    assert "No gate failed" in sentence
    assert "undecided, which the rule reject lets pass" in sentence


def test_what_it_would_take_is_said_once(evaluation: Evaluation) -> None:
    said = OPEN.model_copy(
        update={"sentence": "Open; about 41,200 more tokens an arm would decide it"}
    )
    record = evaluation.model_copy(update={"verdict": "inconclusive", "gates": {"lengths": said}})
    assert len(headline_of(record).reasons) == 1


def test_a_look_shows_its_own_level(evaluation: Evaluation) -> None:
    looks = {"look": 2, "level": 0.99167, "p_share": 1 / 6}
    record = Evaluation.model_validate({**evaluation.model_dump(), "looks": looks})
    limits = {c.name: c.limit for c in checks_of(record)}
    assert limits["likelihood"] == "within ±0.05 at 99.2 %"
