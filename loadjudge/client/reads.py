"""Reads of one turn of the loop: stamped as they come, parsed after the last of them.

When many lanes get their tokens together, whatever is done with one read makes the stamp of the
next one late. Parsing each read where it is stamped adds up to milliseconds at 256 lanes; put
off to the end of the turn, and no further, it costs the same and halves the error (measured:
bench/client.md).
"""

import asyncio
from typing import Protocol


class Reader(Protocol):
    """A connection that can take its reads later."""

    def parse(self, t_ns: int, data: bytes) -> None:
        """Takes bytes that were read at ``t_ns``."""


class Reads:
    """What has been read and not been parsed, in order, of all connections of a client."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Reader, int, bytes]] = []

    def add(self, reader: Reader, t_ns: int, data: bytes) -> None:
        """Keeps a read until the loop has called everyone whose bytes are there."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self.parse)
        self._waiting.append((reader, t_ns, data))

    def parse(self) -> None:
        """Parses now. Whoever acts on a connection outside of a read calls this first."""
        waiting, self._waiting = self._waiting, []
        for reader, t_ns, data in waiting:
            reader.parse(t_ns, data)
