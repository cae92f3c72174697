import io
import json
import math

import pytest
from rich.console import Console

from loadjudge.record.evaluation import Evaluation, Gate, Interval
from loadjudge.report.compare import difference, render_compare, render_compare_json


def printed(a: Evaluation, b: Evaluation, width: int = 80) -> str:
    out = io.StringIO()
    render_compare(a, b, Console(file=out, width=width), ("runs/a", "runs/b"))
    return out.getvalue()


def test_half_widths_add_in_quadrature_on_the_log_scale() -> None:
    narrow = Interval(low=2 * math.exp(-0.03), high=2 * math.exp(0.03))
    wide = Interval(low=3 * math.exp(-0.04), high=3 * math.exp(0.04))
    found = difference(2.0, 3.0, narrow, wide)
    assert found.low == pytest.approx(1.5 * math.exp(-0.05))
    assert found.high == pytest.approx(1.5 * math.exp(0.05))
    assert found.words == "b is faster"


def test_a_difference_within_the_intervals_is_not_distinguishable() -> None:
    interval = Interval(low=1.9, high=2.1)
    assert difference(2.0, 2.1, interval, interval).words == "not distinguishable"
    assert difference(2.1, 1.7, interval, interval).words == "b is slower"


def test_without_intervals_nothing_is_claimed() -> None:
    found = difference(2.0, 3.0, None, Interval(low=2.9, high=3.1))
    assert found.distinguishable is None
    assert found.words == "no interval recorded"
    assert difference(None, 3.0, None, None).words == "no figure to compare"


def test_a_changed_gate_is_named(evaluation: Evaluation) -> None:
    gates = {
        **(evaluation.gates or {}),
        "lengths": Gate(verdict="fail", sentence="Cut short.", figure=0.91),
    }
    other = evaluation.model_copy(update={"gates": gates, "verdict": "failed"})
    compared = render_compare_json(evaluation, other)
    assert [name for name, gate in compared["gates"].items() if gate["changed"]] == ["lengths"]
    assert compared["verdict"] == {"a": "passed", "b": "failed"}
    line = next(x for x in printed(evaluation, other).splitlines() if "reply lengths" in x)
    assert line.rstrip().endswith("changed")


def test_the_same_run_twice_is_not_distinguishable(evaluation: Evaluation) -> None:
    compared = render_compare_json(evaluation, evaluation)
    assert json.loads(json.dumps(compared)) == compared
    assert compared["specscore"]["distinguishable"] is False
    assert list(compared["workloads"]) == ["solo", "team", "busy"]
    assert printed(evaluation, evaluation).count("not distinguishable") >= 4


def test_seed_records_compare_without_intervals(seed_record: Evaluation) -> None:
    text = printed(seed_record, seed_record)
    assert "no interval recorded" in text
    assert all(len(line.rstrip()) <= 80 for line in text.splitlines())
