"""How many generation requests are being served, and for how long it was how many."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class InFlight:
    """Counts requests between their arrival and the end of their reply."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.current = 0
        self.reset()

    def reset(self) -> None:
        """Starts anew; requests in flight stay counted."""
        self.maximum = self.current
        self._seconds: dict[int, float] = {}
        self._since = self._clock()

    @contextmanager
    def one(self) -> Iterator[None]:
        """One request, as long as the block lasts."""
        self._move(1)
        try:
            yield
        finally:
            self._move(-1)

    def _move(self, by: int) -> None:
        now = self._clock()
        self._seconds[self.current] = self._seconds.get(self.current, 0.0) + now - self._since
        self._since = now
        self.current += by
        self.maximum = max(self.maximum, self.current)

    def snapshot(self) -> dict[str, Any]:
        """``current``, ``maximum``, and ``seconds`` spent at each count."""
        self._move(0)
        return {
            "current": self.current,
            "maximum": self.maximum,
            "seconds": {str(n): s for n, s in sorted(self._seconds.items())},
        }
