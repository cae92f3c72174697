"""The event loop that calls are timed on."""

import asyncio
import gc
import resource
from collections.abc import Coroutine
from typing import Any, TypeVar

try:
    import uvloop
except ImportError:  # PyPy
    uvloop = None  # type: ignore[assignment]

T = TypeVar("T")

_NEVER = 2**31 - 1
_DESCRIPTORS = 65_536  # wished for: one a lane, and the usual soft limit is 1,024


def run(main: Coroutine[Any, Any, T]) -> T:
    """Runs it on uvloop where that is installed, else on asyncio's own loop.

    The garbage collector's full passes are off meanwhile: replies pile up until they are
    written, and going through millions of them stops the clock for a tenth of a second and
    more. Young garbage is still collected. The limit on open descriptors is raised: a lane
    takes one.
    """
    _raise_descriptor_limit()
    thresholds = gc.get_threshold()
    gc.collect()
    gc.set_threshold(thresholds[0], thresholds[1], _NEVER)
    try:
        factory = None if uvloop is None else uvloop.new_event_loop
        with asyncio.Runner(loop_factory=factory) as runner:
            return runner.run(main)
    finally:
        gc.set_threshold(*thresholds)


def _raise_descriptor_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wished = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wished:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wished, hard))
