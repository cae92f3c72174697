"""A run's log, read while it is written, and told to an exporter."""

from pathlib import Path
from threading import Event as Signal

import orjson

from loadjudge.metrics.followed import Followed
from loadjudge.metrics.standings import standings
from loadjudge.metrics.values import Takes
from loadjudge.record.log import EVENTS, Event
from loadjudge.record.run import read_run

_EVERY_S = 0.25
_DECIDES = ("pass_end", "note", "end", "died")  # events that move the record's figures


class LogReader:
    """Gives each event of a log once, as it is complete.

    A torn last line is read again: its writer may still be at it, or cut it off and go on.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / EVENTS
        self._offset = 0

    def read(self) -> list[Event]:
        """The events since the last call; none where the log isn't there yet."""
        try:
            with self._path.open("rb") as log:
                log.seek(self._offset)
                text = log.read()
        except FileNotFoundError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        return [orjson.loads(line) for line in whole.splitlines()]


def follow(directory: Path, followed: Followed, to: Takes, ended: Signal) -> None:
    """Follows a run until ``ended``, and then to what its log came to."""
    log = LogReader(directory)
    while True:
        last = ended.wait(_EVERY_S)
        stale = False
        for event in log.read():
            followed.event(event)
            stale = stale or event["event"] in _DECIDES
        if stale:
            for value in standings(read_run(directory)):
                to.take(value)
        if last:
            followed.lost()
            return
