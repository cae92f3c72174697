"""Peak memory against stock's and the slack."""

from typing import Any

import pytest

from loadjudge.gates import memory
from loadjudge.record.values import MemoryPeak


def peaks(make: Any, stock: float, candidate: float, kind: str = "rss") -> Any:
    return make.run(
        [], memory=(MemoryPeak("stock", stock, kind), MemoryPeak("candidate", candidate, kind))
    )


@pytest.mark.parametrize(("candidate", "verdict"), [(1256, "pass"), (1256.5, "fail"), (1, "pass")])
def test_the_candidate_may_take_stocks_peak_and_the_slack(
    make: Any, candidate: float, verdict: str
) -> None:
    gate, figure = memory.check(peaks(make, 1000, candidate), 256)
    assert gate.verdict == verdict
    assert figure is not None
    assert figure.ok == (verdict == "pass")
    assert (figure.allowed_mib, figure.stock_peak_mib) == (1256, 1000)
    assert gate.bound_high == 1256


def test_without_a_limit_the_figure_is_shown_and_nothing_judged(make: Any) -> None:
    gate, _ = memory.check(peaks(make, 1000, 9000), None)
    assert (gate.verdict, gate.figure) == ("n/a", 9000)


@pytest.mark.parametrize("seen", ["stock", "candidate"])
def test_an_engine_that_is_not_ours_to_see_is_named(make: Any, seen: str) -> None:
    gate, figure = memory.check(make.run([], memory=(MemoryPeak(seen, 1.0, "rss"),)), 256)
    other = "candidate" if seen == "stock" else "stock"
    assert gate.verdict == "n/a"
    assert other in gate.sentence
    assert figure is None


def test_device_and_resident_memory_are_not_compared(make: Any) -> None:
    """A candidate's device peak was held against stock's resident one."""
    mixed = (MemoryPeak("stock", 1000.0, "rss"), MemoryPeak("candidate", 10.0, "device"))
    gate, figure = memory.check(make.run([], memory=mixed), 256)
    assert gate.verdict == "n/a"
    assert figure is None


def test_the_sentence_says_which_memory(make: Any) -> None:
    assert "device memory" in memory.check(peaks(make, 1, 2, "device"), 256)[0].sentence
    assert "resident memory" in memory.check(peaks(make, 1, 2), 256)[0].sentence
