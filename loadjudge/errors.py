"""Errors that a user can meet: one sentence each, and the exit status that goes with it."""

from enum import IntEnum


class Status(IntEnum):
    """Exit statuses of every command. See ARCHITECTURE.md."""

    PASSED = 0
    FAILED = 1  # a gate failed or a bound was missed
    USAGE = 2
    SETUP = 3  # engine, endpoint or file
    RUN = 4  # the run failed or is invalid
    INCONCLUSIVE = 5
    INTERRUPTED = 130  # and resumable


class JudgeError(Exception):
    """What was wrong, where, and what to do, in one sentence; printed without a traceback."""

    def __init__(self, sentence: str, status: Status = Status.SETUP) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.status = status
