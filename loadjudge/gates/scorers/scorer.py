"""What every scorer is."""

from collections.abc import Sequence
from typing import Protocol

from loadjudge.errors import JudgeError
from loadjudge.record.values import Terms
from loadjudge.wire.request import Sampling


class Unavailable(JudgeError):
    """Replies can't be scored here; the gates that need it are n/a with this sentence."""


class Refused(JudgeError):
    """The scorer won't take this one reply; others may be scored."""


class Scorer(Protocol):
    """The target, asked what it says of replies that others have drawn."""

    @property
    def name(self) -> str:
        """For the record."""

    @property
    def end_ids(self) -> tuple[int, ...]:
        """Tokens that end a reply, the usual one first."""

    @property
    def at_once(self) -> int:
        """How many replies it is worth to have it score at the same time."""

    async def score(
        self, prompt_ids: Sequence[int], reply_ids: Sequence[int], sampling: Sampling
    ) -> tuple[Terms, bool]:
        """Terms of the reply's tokens, and whether they are exact.

        ``sampling`` is the request's own. Terms are fewer than the reply's tokens only where the
        target's context is full: then the last tokens have none. Raises Unavailable and Refused.
        """
