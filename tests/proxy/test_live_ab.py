"""Live statistics: the true ratio is in the interval as often as it says."""

import math

import numpy as np
import pytest

from loadjudge.proxy.live_ab import Live, Ratio
from loadjudge.random import generator
from loadjudge.record.values import Arm

RUNS = 150
TRUE = 0.8


def simulated(number: int, sessions: tuple[int, int], *, paired: bool) -> list[Ratio]:
    """Sessions of different lengths; requests of one share its luck, as real ones do."""
    rng = generator(number, "live")
    live = Live()
    arms: tuple[Arm, Arm] = ("stock", "candidate")
    luck = rng.lognormal(0, 0.5, size=max(sessions))
    for arm, count, factor in zip(arms, sessions, (1.0, TRUE), strict=True):
        own = luck if paired else rng.lognormal(0, 0.5, size=max(sessions))
        lengths = generator(number, "lengths").integers(1, 8, size=count)
        for i in range(count):
            for value in factor * own[i] * rng.lognormal(0, 0.3, size=int(lengths[i])):
                live.add(arm, f"s{i}" if paired else f"{arm}{i}", "ttft_s", 1.0, float(value))
    return [r for r in live.ratios(paired=paired) if r.figure == "ttft_s"]


@pytest.mark.parametrize(
    ("sessions", "paired", "of"),
    [
        ((270, 30), False, "mean"),
        ((270, 30), False, "median"),
        ((60, 60), True, "mean"),
    ],
)
def test_the_interval_holds_the_truth_95_times_in_100(
    sessions: tuple[int, int], paired: bool, of: str
) -> None:
    held, widths = 0, []
    for number in range(RUNS):
        (ratio,) = [r for r in simulated(number, sessions, paired=paired) if r.of == of]
        assert ratio.low is not None
        assert ratio.high is not None
        held += ratio.low <= TRUE <= ratio.high
        widths.append(math.log(ratio.high / ratio.low))
    # Three standard errors of the count; and not by being wide.
    assert held / RUNS == pytest.approx(0.95, abs=0.055)
    assert np.median(widths) < (0.3 if paired else 0.7)


def test_pairs_say_more_than_two_groups() -> None:
    paired = simulated(1, (60, 60), paired=True)[0]
    apart = simulated(1, (60, 60), paired=False)[0]
    assert paired.high is not None
    assert paired.low is not None
    assert apart.high is not None
    assert apart.low is not None
    assert paired.high / paired.low < apart.high / apart.low


def test_few_sessions_give_a_figure_without_an_interval() -> None:
    for ratio in simulated(1, (50, 9), paired=False):
        assert ratio.ratio > 0
        assert (ratio.low, ratio.high) == (None, None)
        assert ratio.sessions == (50, 9)


def test_one_arm_alone_gives_nothing() -> None:
    live = Live()
    live.add("stock", "s", "ttft_s", 1.0, 0.1)
    assert live.ratios(paired=False) == []


def test_sessions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loadjudge.proxy.live_ab._SESSIONS", 100)
    live = Live()
    for i in range(500):
        for arm in ("stock", "candidate"):
            live.add(arm, f"s{i}", "ttft_s", 1.0, 0.1)
    assert live.ratios(paired=False)[0].sessions == (100, 100)


def test_tokens_weigh_in_a_mean_per_token() -> None:
    live = Live()
    for arm, factor in (("stock", 1.0), ("candidate", 2.0)):
        live.add(arm, "a", "tpot_s", 100.0, 0.01 * factor)
        live.add(arm, "b", "tpot_s", 300.0, 0.03 * factor)
    (mean, _) = live.ratios(paired=False)
    assert mean.stock == pytest.approx(0.025)
    assert mean.ratio == pytest.approx(2.0)
