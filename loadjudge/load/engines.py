"""Engines while a run goes: up, watched, and down again whatever happens."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any

from loadjudge.load.arm import Arm
from loadjudge.load.together import together
from loadjudge.record.log import Event

_ENGINE_NOTICED_S = 3.0  # lanes may fail before the engine's end is seen


@contextlib.asynccontextmanager
async def engines_up(arms: Sequence[Arm], append: Callable[[Event], None]) -> AsyncIterator[None]:
    """Starts all arms' engines at once, logs that they are ready, and stops them in the end."""
    try:
        ready = await together(arm.start() for arm in arms)
        for arm, seconds in zip(arms, ready, strict=True):
            append(
                {
                    "event": "engine",
                    "arm": arm.name,
                    "state": "ready",
                    "seconds": seconds,
                    "url": arm.url,
                    "command": arm.process.command if arm.process else None,
                    "abilities": arm.abilities.describe(),
                }
            )
        yield
    finally:
        await asyncio.gather(*(arm.stop() for arm in arms))


async def while_engines_live(arms: Sequence[Arm], story: Coroutine[Any, Any, None]) -> None:
    """Runs the story; an engine that dies ends it, with the engine's own last words."""
    told = asyncio.create_task(story)
    deaths = [asyncio.create_task(arm.process.died()) for arm in arms if arm.process is not None]
    first = asyncio.FIRST_COMPLETED
    try:
        await asyncio.wait([told, *deaths], return_when=first)
        if told.done() and not told.cancelled() and told.exception() and deaths:
            await asyncio.wait(deaths, timeout=_ENGINE_NOTICED_S, return_when=first)
        for death in deaths:
            if death.done():
                death.result()
        await told
    finally:
        for task in (told, *deaths):
            task.cancel()
        await asyncio.gather(told, *deaths, return_exceptions=True)


def cancel_on_sigterm() -> None:
    """SIGTERM ends a run as Ctrl-C does: engines are stopped, and it can be resumed."""
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
