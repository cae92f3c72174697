"""The plot of speedups, where its figures are no ordinary ones."""

import math

from loadjudge.record.evaluation import Pooled, Ratio
from loadjudge.report.speedups import speedup_plot
from loadjudge.report.summary import Row


def test_an_interval_that_one_session_leaves_unbounded_is_drawn() -> None:
    """It reaches from 0 to infinity, which no logarithmic axis does."""
    unbounded = Pooled(low=0.0, high=math.inf, ratio=1.07, sessions=1)
    row = Row(
        "solo", Ratio(passes=[1.07], ratio=1.07), unbounded, None, unbounded, 1, {}, None, None
    )
    svg = speedup_plot([row])
    assert "<svg" in svg
    assert "1.07×" in svg
    assert "nan" not in svg
