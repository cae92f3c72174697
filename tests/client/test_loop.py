"""The loop that calls are timed on."""

import asyncio
import gc
import resource

import pytest
import uvloop

from loadjudge.client import loop


async def current() -> tuple[asyncio.AbstractEventLoop, tuple[int, int, int]]:
    return asyncio.get_running_loop(), gc.get_threshold()


def test_uvloop_and_no_full_collections() -> None:
    before = gc.get_threshold()
    running, thresholds = loop.run(current())
    assert isinstance(running, uvloop.Loop)
    assert thresholds[:2] == before[:2]
    assert thresholds[2] > 1_000_000
    assert gc.get_threshold() == before


def test_without_uvloop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "uvloop", None)
    running, _ = loop.run(current())
    assert not isinstance(running, uvloop.Loop)


def test_errors_come_through_and_the_collector_is_put_back() -> None:
    async def fails() -> None:
        raise ValueError("boom")

    before = gc.get_threshold()
    with pytest.raises(ValueError, match="boom"):
        loop.run(fails())
    assert gc.get_threshold() == before


def test_the_descriptor_limit_is_raised() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        loop.run(current())
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 256
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
