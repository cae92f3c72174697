"""Waiting for an absolute time on the monotonic clock, to about 0.1 ms and without spinning.

Event loops round their timers to whole milliseconds. A Linux timerfd doesn't, and wakes the loop
like any other file.
"""

import asyncio
import ctypes
import os
import struct
import sys
import time

_CLOCK_MONOTONIC = 1  # of time.monotonic()
_NONBLOCK_CLOEXEC = os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)
_ABSOLUTE = 1
_ITIMERSPEC = struct.Struct("@qqqq")


class Timer:
    """One waiter at a time."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
        self._fd = -1
        self._fired: asyncio.Future[None] | None = None

    async def until(self, due: float) -> None:
        """Returns when ``time.monotonic()`` has reached ``due``, in seconds."""
        if due <= time.monotonic():
            return
        if self._libc is None:
            await asyncio.sleep(due - time.monotonic())
            return
        loop = asyncio.get_running_loop()
        if self._fd < 0:
            self._fd = self._libc.timerfd_create(_CLOCK_MONOTONIC, _NONBLOCK_CLOEXEC)
            if self._fd < 0:
                raise OSError(ctypes.get_errno(), "timerfd_create failed")
            loop.add_reader(self._fd, self._fire)
        self._fired = loop.create_future()
        whole = int(due)
        spec = _ITIMERSPEC.pack(0, 0, whole, int((due - whole) * 1e9) + 1)
        self._libc.timerfd_settime(self._fd, _ABSOLUTE, spec, None)
        await self._fired

    def _fire(self) -> None:
        os.read(self._fd, 8)
        if self._fired is not None and not self._fired.done():
            self._fired.set_result(None)

    def close(self) -> None:
        """Gives the descriptor back."""
        if self._fd >= 0:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1
