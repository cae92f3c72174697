"""The lag probe: stalls of the loop that are known to the test."""

import asyncio
import time

import pytest

from loadjudge.client import lag
from loadjudge.client.lag import LagProbe


@pytest.fixture(params=["timerfd", "call_at"])
def clock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "call_at":
        monkeypatch.setattr(lag.sys, "platform", "darwin")


def block(seconds: float) -> None:
    """Holds the loop up, as a slow callback would."""
    time.sleep(seconds)


@pytest.mark.usefixtures("clock")
async def test_a_stall_counts_with_its_whole_length() -> None:
    probe = LagProbe(0.002)
    probe.start()
    await asyncio.sleep(0.02)
    block(0.1)
    await asyncio.sleep(0.02)
    stats = probe.window()
    probe.stop()
    # 50 expiries fell into the stall: each was late by what was left of it.
    assert stats.n >= 50
    assert stats.max_s >= 0.09
    assert 0.02 <= stats.mean_s <= stats.max_s
    assert stats.p50_s <= stats.p99_s <= stats.max_s
    assert stats.wall_s >= 0.12


@pytest.mark.usefixtures("clock")
async def test_a_window_starts_afresh() -> None:
    probe = LagProbe(0.002)
    probe.start()
    block(0.05)
    await asyncio.sleep(0.005)
    assert probe.window().max_s >= 0.04
    empty = probe.window()
    assert (empty.n, empty.max_s) == (0, 0.0)
    await asyncio.sleep(0.05)
    assert probe.window().n >= 10
    probe.stop()
    await asyncio.sleep(0.005)
    assert probe.window().n == 0
    probe.stop()  # twice does no harm


async def test_cpu_share() -> None:
    probe = LagProbe()
    probe.start()
    end = time.process_time() + 0.05
    while time.process_time() < end:
        pass
    busy = probe.window()
    await asyncio.sleep(0.05)
    idle = probe.window()
    probe.stop()
    assert busy.cpu_share * busy.wall_s >= 0.045
    assert idle.cpu_share < 0.5


@pytest.mark.usefixtures("clock")
async def test_a_look_at_the_last_second_takes_nothing_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lag, "_CPU_NS", 10_000_000)
    probe = LagProbe(0.002)
    assert probe.recent()[0] is None
    probe.start()
    await asyncio.sleep(0.01)
    block(0.05)
    await asyncio.sleep(0.01)
    mean_s, cpu_share = probe.recent()
    assert mean_s is not None
    assert mean_s >= 0.01
    assert cpu_share is not None
    assert 0 <= cpu_share < 1
    assert probe.window().max_s >= 0.04
    probe.stop()


async def test_a_window_that_has_just_begun_shows_no_whole_core() -> None:
    probe = LagProbe()
    probe.start()
    assert probe.recent()[1] is None
    probe.window()
    assert probe.recent()[1] is None
    probe.stop()
