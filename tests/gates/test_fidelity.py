"""Fixed texts' log-probabilities, candidate against stock."""

from typing import Any

import pytest

from loadjudge.gates import fidelity


def texts(make: Any, candidate: dict[str, tuple[float, ...]], **changes: Any) -> Any:
    stock = {"t1": (-1.0, -2.0), "t2": (-3.0,)}
    records = [make.text("stock", logprobs, id) for id, logprobs in stock.items()]
    records += [make.text("candidate", logprobs, id) for id, logprobs in candidate.items()]
    return make.run([], texts=tuple(records), **changes)


def test_the_figure_is_the_mean_absolute_difference_over_positions(make: Any) -> None:
    run = texts(make, {"t1": (-1.1, -1.9), "t2": (-3.4,)})
    gate, figure = fidelity.check(run, 0.5)
    assert figure == pytest.approx(0.6 / 3)
    assert gate.verdict == "pass"
    assert "most in t2" in gate.sentence


@pytest.mark.parametrize(("ceiling", "verdict"), [(0.25, "pass"), (0.2499, "fail")])
def test_the_ceiling_itself_is_allowed(make: Any, ceiling: float, verdict: str) -> None:
    run = texts(make, {"t1": (-1.25, -2.25), "t2": (-3.25,)})
    assert fidelity.check(run, ceiling)[0].verdict == verdict


def test_without_a_ceiling_the_figure_is_shown_and_nothing_judged(make: Any) -> None:
    gate, figure = fidelity.check(texts(make, {"t1": (-9.0, -9.0)}), None)
    assert gate.verdict == "n/a"
    assert gate.figure == figure == pytest.approx(7.5)


def test_an_endpoint_that_gives_none_is_not_available_with_the_reason(make: Any) -> None:
    run = texts(make, {}, unavailable={"fidelity": "the candidate endpoint gives none"})
    gate, figure = fidelity.check(run, 0.5)
    assert (gate.verdict, gate.sentence) == ("n/a", "the candidate endpoint gives none")
    assert figure is None


def test_texts_of_one_arm_alone_are_no_evidence(make: Any) -> None:
    assert fidelity.check(texts(make, {}), 0.5) == (
        fidelity.check(texts(make, {"other": (-1.0,)}), 0.5)
    )
    assert fidelity.check(texts(make, {}), 0.5)[0].verdict == "n/a"


def test_a_text_of_one_token_says_nothing(make: Any) -> None:
    """Its mean over no position was NaN, and failed the gate."""
    run = make.run([], texts=(make.text("stock", ()), make.text("candidate", ())))
    assert fidelity.check(run, 0.5)[0].verdict == "n/a"
