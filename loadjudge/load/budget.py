"""What a run may take beyond its planned passes."""

import re
from dataclasses import dataclass

from loadjudge.errors import JudgeError, Status

_UNITS = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True, slots=True)
class Budget:
    """Of all passes beyond the planned ones; ``None`` sets no limit, 0 allows none."""

    seconds: float | None = None
    tokens: int | None = None  # output tokens of both arms

    @property
    def nothing(self) -> bool:
        return self.seconds == 0 or self.tokens == 0


def parse_budget(text: str) -> Budget:
    """A budget from ``90s``, ``20m``, ``1h`` or a number of tokens. Raises JudgeError (usage)."""
    if timed := re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text):
        return Budget(seconds=float(timed[1]) * _UNITS[timed[2]])
    if text.isdecimal():
        return Budget(tokens=int(text))
    raise JudgeError(
        f"a budget is a time (90s, 20m, 1h) or a number of tokens, not {text!r}", Status.USAGE
    )
