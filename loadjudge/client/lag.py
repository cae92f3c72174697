"""How late the event loop comes to its work: the client's own share in what it measures."""

import asyncio
import ctypes
import os
import struct
import sys
import time
from asyncio import AbstractEventLoop, TimerHandle
from dataclasses import dataclass

import numpy as np

_CLOCK_MONOTONIC = 1
_ABSTIME = 1  # TFD_TIMER_ABSTIME
_SECOND_NS = 1_000_000_000
_CPU_NS = _SECOND_NS // 2  # in a few milliseconds whatever runs has all of a core


@dataclass(frozen=True, slots=True)
class LagStats:
    """Lateness of the loop in a window, in seconds; all 0 where ``n`` is 0."""

    n: int  # expiries: none is left out, however late the loop came to it
    mean_s: float
    p50_s: float
    p99_s: float
    max_s: float
    cpu_share: float  # CPU time of the whole process over wall time: 1 is one core
    wall_s: float


class LagProbe:
    """Samples the lag of the running loop every ``interval_s``.

    On Linux a timerfd with absolute expiries tells when each was due; uvloop's own clock counts
    whole milliseconds, so its timers can't. Elsewhere the lateness of ``call_at``.
    """

    def __init__(self, interval_s: float = 0.01) -> None:
        self._interval_ns = max(1, round(interval_s * 1e9))
        self._lags_ns: list[int] = []
        self._loop: AbstractEventLoop | None = None
        self._fd: int | None = None
        self._timer: TimerHandle | None = None
        self._due_ns = 0
        self._wall_ns = 0  # where the window began
        self._cpu_ns = 0

    def start(self) -> None:
        """Begins to sample, on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._due_ns = time.monotonic_ns() + self._interval_ns
        self._begin()
        if sys.platform.startswith("linux"):
            self._fd = _timerfd(self._due_ns, self._interval_ns)
            self._loop.add_reader(self._fd, self._expired)
        else:
            self._schedule()

    def window(self) -> LagStats:
        """What was sampled since the start or the last call, which it takes away."""
        lags_s = np.asarray(self._lags_ns, dtype=np.float64) / 1e9
        wall_s = (time.monotonic_ns() - self._wall_ns) / 1e9
        share = (time.process_time_ns() - self._cpu_ns) / 1e9 / max(wall_s, 1e-9)
        self._begin()
        if not lags_s.size:
            return LagStats(0, 0.0, 0.0, 0.0, 0.0, share, wall_s)
        p50_s, p99_s = np.quantile(lags_s, (0.5, 0.99))
        return LagStats(
            lags_s.size,
            float(lags_s.mean()),
            float(p50_s),
            float(p99_s),
            float(lags_s.max()),
            share,
            wall_s,
        )

    def recent(self) -> tuple[float | None, float | None]:
        """For whoever watches: mean lag of the last second in seconds and CPU share so far; None
        where there was no sample, or the window is too young to tell."""
        last = self._lags_ns[-max(1, _SECOND_NS // self._interval_ns) :]
        wall_ns = time.monotonic_ns() - self._wall_ns
        share = (time.process_time_ns() - self._cpu_ns) / wall_ns if wall_ns > _CPU_NS else None
        return (sum(last) / len(last) / 1e9 if last else None), share

    def stop(self) -> None:
        """Ends the sampling. What was sampled can still be read."""
        if self._loop is not None and self._fd is not None:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
        if self._timer is not None:
            self._timer.cancel()
        self._loop = self._fd = self._timer = None

    def _begin(self) -> None:
        self._lags_ns = []
        self._wall_ns = time.monotonic_ns()
        self._cpu_ns = time.process_time_ns()

    def _expired(self) -> None:
        now_ns = time.monotonic_ns()
        if self._fd is None:
            return
        (expiries,) = struct.unpack("=Q", os.read(self._fd, 8))
        self._sample(now_ns, expiries)

    def _late(self) -> None:
        now_ns = time.monotonic_ns()
        self._sample(now_ns, max(1, (now_ns - self._due_ns) // self._interval_ns + 1))
        self._schedule()

    def _sample(self, now_ns: int, expiries: int) -> None:
        """One lag for each expiry: a long stall counts with its whole length."""
        for _ in range(expiries):
            self._lags_ns.append(max(0, now_ns - self._due_ns))
            self._due_ns += self._interval_ns

    def _schedule(self) -> None:
        if self._loop is not None:
            ahead_s = max(0, self._due_ns - time.monotonic_ns()) / 1e9
            self._timer = self._loop.call_at(self._loop.time() + ahead_s, self._late)


if sys.version_info >= (3, 13) and sys.platform == "linux":

    def _timerfd(first_ns: int, interval_ns: int) -> int:
        """A timer descriptor with absolute expiries on the monotonic clock."""
        fd = os.timerfd_create(time.CLOCK_MONOTONIC, flags=os.TFD_NONBLOCK | os.TFD_CLOEXEC)
        os.timerfd_settime_ns(
            fd, flags=os.TFD_TIMER_ABSTIME, initial=first_ns, interval=interval_ns
        )
        return fd

else:

    def _timerfd(first_ns: int, interval_ns: int) -> int:
        """The same through libc: ``os`` has it from Python 3.13. Raises OSError."""
        libc = ctypes.CDLL(None, use_errno=True)
        fd = int(libc.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC))
        spec = (ctypes.c_long * 4)(*divmod(interval_ns, _SECOND_NS), *divmod(first_ns, _SECOND_NS))
        if fd < 0 or libc.timerfd_settime(fd, _ABSTIME, spec, None) != 0:
            raise OSError(ctypes.get_errno(), "no timerfd for the lag of the event loop")
        return fd
