"""Draws that follow from a secret: the same on every machine and under every Python."""

import hashlib
import hmac
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """A stream of choices keyed by HMAC-SHA256 of the secret and a label.

    Not ``random.Random``: its methods may give other values under another version of Python,
    and its state can be worked out from its outputs, so that a shipped session would tell of
    the next ones.
    """

    def __init__(self, secret: str, label: str) -> None:
        self._key = hmac.new(secret.encode(), label.encode(), hashlib.sha256).digest()
        self._counter = 0

    def below(self, limit: int) -> int:
        """A whole number from 0 to ``limit - 1``, each equally likely."""
        ceiling = (1 << 64) // limit * limit  # values above it would favour small remainders
        while True:
            block = self._counter.to_bytes(8, "big")
            self._counter += 1
            digest = hmac.new(self._key, block, hashlib.sha256).digest()
            value = int.from_bytes(digest[:8], "big")
            if value < ceiling:
                return value % limit

    def between(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``, both included."""
        return low + self.below(high - low + 1)

    def chance(self, percent: int) -> bool:
        """True in ``percent`` of 100 draws."""
        return self.below(100) < percent

    def pick(self, values: Sequence[T]) -> T:
        """One of ``values``."""
        return values[self.below(len(values))]

    def sample(self, values: Sequence[T], count: int) -> list[T]:
        """``count`` of ``values``, in random order, none twice."""
        left = list(values)
        return [left.pop(self.below(len(left))) for _ in range(count)]

    def subset(self, values: Sequence[T], count: int) -> list[T]:
        """``count`` of ``values``, in their own order."""
        places = sorted(self.sample(range(len(values)), count))
        return [values[place] for place in places]
