"""The trusted token count of every reply. Design: statistics, section 4.

Token ids that the engine sent count if they decode to the text that it sent; else the target's
own tokenizer counts the text; what the engine reports is kept beside it, and stands alone only
where there is neither, which the record says.
"""

import asyncio
from collections.abc import Sequence

from loadjudge.client.http import PlainClient
from loadjudge.errors import JudgeError
from loadjudge.load.together import together
from loadjudge.record.values import CountSource, PlayRecord, TurnRecord
from loadjudge.servers.endpoint import Abilities

_AT_ONCE = 8
# Markup around a channel or a call that a parser takes out: "<tool_call>", "</think>", quotes,
# argument keys in another order.
_MARKUP_CHARACTERS = 96

Count = tuple[int | None, CountSource | None]


class Counter:
    """Counts replies with the stock engine's tokenizer: the candidate's is no witness."""

    def __init__(self, stock: PlainClient, abilities: Abilities) -> None:
        self._stock = stock
        self._abilities = abilities
        self._gate = asyncio.Semaphore(_AT_ONCE)

    async def count(self, plays: Sequence[PlayRecord]) -> dict[str, list[Count]]:
        """Counts of each turn of each play, by the play's name."""
        counts = await together(self._turn(turn) for play in plays for turn in play.turns)
        each = iter(counts)
        return {play.play: [next(each) for _ in play.turns] for play in plays}

    async def _turn(self, turn: TurnRecord) -> Count:
        if turn.error is not None:
            return None, None
        async with self._gate:
            ids = turn.token_ids
            if ids is not None and self._abilities.detokenize:
                text = await self._decoded(ids)
                if text is not None and decodes_to(text, turn):
                    return len(ids), "ids"
            if self._abilities.tokenize:
                text = spoken(turn)
                counted = await self._stock.tokenize(
                    self._abilities.model, text=text, add_special_tokens=False
                )
                if counted is not None:
                    ended = turn.finish_reason != "length"  # the end token is generated too
                    return len(counted) + ended, "tokenizer"
        if turn.reported_tokens is not None:
            return turn.reported_tokens, "usage"
        return None, None

    async def _decoded(self, ids: Sequence[int]) -> str | None:
        """Their text; None where the stock engine can't decode them.

        They are the candidate's word: ids that no vocabulary holds make no trusted count, and
        are no reason to give the run up.
        """
        try:
            return await self._stock.detokenize(self._abilities.model, ids)
        except JudgeError:
            return None


def spoken(turn: TurnRecord) -> str:
    """All that a reply said, in the order of channels."""
    calls = "".join(c["name"] + c["arguments"] for c in turn.tool_calls)
    return turn.reasoning + turn.content + calls


def decodes_to(text: str, turn: TurnRecord) -> bool:
    """Whether the decoded ids are what was served: every piece is in the text, in order, and
    little else is. Blanks are something else: ids that add nothing to what was served would be
    tokens for free."""
    at = beside = 0
    for piece in (turn.reasoning, turn.content, *(c["name"] for c in turn.tool_calls)):
        if text.find(piece, at) < 0:
            piece = piece.strip()  # a decoder may drop the blank that a reply begins with
        found = text.find(piece, at)
        if found < 0:
            return False
        beside += found - at
        at = found + len(piece)
    beside += len(text) - at
    arguments = sum(len(c["arguments"]) for c in turn.tool_calls)
    channels = 1 + bool(turn.reasoning) + len(turn.tool_calls)
    return beside <= arguments + _MARKUP_CHARACTERS * channels
