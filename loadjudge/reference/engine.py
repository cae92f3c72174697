"""The clock: drives the scheduler so that each step's tokens come out when the step would end.

A step's tokens are drawn when it starts and released at its deadline. Deadlines are absolute: a
step starts at the scheduled end of the one before, or, from idle, at the arrival of the request.
So neither timer jitter nor the time spent computing adds up.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from loadjudge.reference.request import Output, Request
from loadjudge.reference.scheduler import Scheduler, StepResult
from loadjudge.reference.timer import Timer

_log = logging.getLogger(__name__)

_REANCHOR_S = 0.05  # further behind than this, the clock gives up what it lost


@dataclass(slots=True)
class Lateness:
    """Steps whose tokens were ready only after their deadline, and by how much in all."""

    steps: int = 0
    seconds: float = 0.0


class Engine:
    """Runs a scheduler in real time, or, without ``clock``, as fast as it computes."""

    def __init__(self, scheduler: Scheduler, *, clock: bool = True) -> None:
        self.scheduler = scheduler
        self.late = Lateness()
        self._clock = clock
        self._timer = Timer()
        self._due = 0.0  # scheduled end of the last step
        self._arrived = 0.0  # of the request that ended an idle time
        self._wake = asyncio.Event()
        self._replies: dict[str, asyncio.Queue[Output | None]] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts the driver."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stops the driver; replies in progress end in an error."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._timer.close()

    async def generate(self, request: Request, arrived: float) -> AsyncGenerator[Output]:
        """What each step gives the request, as it falls due; closing it early aborts the request.

        ``arrived``: ``time.monotonic()`` when the request came in. Raises ``ValueError`` for a
        request that can't run, ``RuntimeError`` if the engine stops.
        """
        if self._task is None or self._task.done():
            raise RuntimeError("the engine has stopped")
        if not self.scheduler.has_work():
            self._arrived = arrived
        self.scheduler.add(request)
        queue = self._replies[request.id] = asyncio.Queue()
        self._wake.set()
        try:
            while True:
                output = await queue.get()
                if output is None:
                    raise RuntimeError("the engine has stopped")
                yield output
                if output.finish:
                    return
        finally:
            del self._replies[request.id]
            self.scheduler.abort(request.id)  # nothing to do if it has finished

    async def _run(self) -> None:
        try:
            while True:
                if not self.scheduler.has_work():
                    self._wake.clear()
                    await self._wake.wait()
                    self._due = max(self._due, self._arrived)
                    continue  # it may have been aborted already
                result = self.scheduler.step()
                if self._clock:
                    await self._until_due(result)
                for output in result.outputs:
                    queue = self._replies.get(output.id)
                    if queue is not None:
                        queue.put_nowait(output)
                await asyncio.sleep(0)  # replies are written before the next step is computed
        except Exception:
            _log.exception("the engine stopped")
            raise
        finally:
            for queue in self._replies.values():
                queue.put_nowait(None)

    async def _until_due(self, result: StepResult) -> None:
        self._due += result.duration_s
        behind = time.monotonic() - self._due
        if behind <= 0:
            await self._timer.until(self._due)
            return
        self.late.steps += 1
        self.late.seconds += behind
        _log.warning("step %.1f ms late: this machine is too slow or too busy", behind * 1e3)
        if behind > _REANCHOR_S:
            self._due = time.monotonic()
