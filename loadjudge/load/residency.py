"""Which engines are up: both through the whole run, or one at a time on the device."""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from loadjudge.errors import JudgeError, Status
from loadjudge.load.arm import Arm
from loadjudge.load.task import Residency
from loadjudge.load.together import together
from loadjudge.record.log import Event
from loadjudge.record.values import ARMS
from loadjudge.record.values import Arm as ArmName


class Engines:
    """The engines of a run. ``need`` says who is to be up; ``watch`` ends a story that one's death
    cuts short."""

    def __init__(
        self, arms: Mapping[ArmName, Arm], residency: Residency, append: Callable[[Event], None]
    ) -> None:
        """Raises JudgeError (usage) where an engine can't be kept off the device."""
        for name in ARMS if residency == "exclusive" else ():
            if arms[name].engine.url:
                raise JudgeError(
                    f"one engine at a time (exclusive) needs engines that loadjudge starts and "
                    f"stops, but {name} is the endpoint {arms[name].engine.url}",
                    Status.USAGE,
                )
        self._arms = arms
        self._residency = residency
        self._append = append
        self._watched: dict[ArmName, asyncio.Task[None]] = {}
        self._death: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def need(self, name: ArmName) -> tuple[ArmName, ...]:
        """Has that arm's engine up: the other is stopped first where only one may be. The arms
        whose engines were started for it."""
        if self._arms[name].up:
            return ()
        if self._residency == "exclusive":
            await self.stop()
        started = (name,) if self._residency == "exclusive" else tuple(self._arms)
        await together(self._start(arm) for arm in started)
        return started

    async def stop(self) -> None:
        """Stops those that are up."""
        for task in self._watched.values():
            task.cancel()
        self._watched.clear()
        await asyncio.gather(*(arm.stop() for arm in self._arms.values()))

    async def _start(self, name: ArmName) -> None:
        arm = self._arms[name]
        seconds = await arm.start()
        if arm.process is not None:
            self._watched[name] = asyncio.create_task(self._watch(arm.process.died()))
        self._append(
            {
                "event": "engine",
                "arm": name,
                "state": "ready",
                "seconds": seconds,
                "url": arm.url,
                "command": arm.process.command if arm.process else None,
                "abilities": arm.abilities.describe(),
            }
        )

    async def _watch(self, died: Coroutine[Any, Any, None]) -> None:
        try:
            await died
        except JudgeError as error:
            if not self._death.done():
                self._death.set_exception(error)

    async def watch(self, story: "asyncio.Task[None]") -> None:
        """Waits for the story. An engine that dies ends it, with the engine's own last words."""
        try:
            await asyncio.wait([story, self._death], return_when=asyncio.FIRST_COMPLETED)
            if story.done() and not story.cancelled():
                # Also where it came to its end: a few failed turns don't cut it short, and an
                # engine that dies of the last of them is what has to be told.
                await self._dying()
            if self._death.done():
                self._death.result()
            await story
        finally:
            story.cancel()
            await asyncio.gather(story, return_exceptions=True)
            if self._death.done():
                self._death.exception()  # seen, whatever else is raised

    async def _dying(self) -> None:
        """Waits until it is known whether an endpoint failed because its engine is dying."""
        up = [arm for arm in self._arms.values() if arm.up]
        settled: asyncio.Future[Any] = asyncio.gather(*(arm.settled() for arm in up))
        try:
            await asyncio.wait({settled, self._death}, return_when=asyncio.FIRST_COMPLETED)
        finally:  # also where the wait is cancelled: nothing may ask an engine that is stopped
            settled.cancel()
            await asyncio.gather(settled, return_exceptions=True)


def cancel_on_sigterm() -> None:
    """SIGTERM ends a run as Ctrl-C does: engines are stopped, and it can be resumed."""
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
