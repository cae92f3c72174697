"""Whether an engine is at rest, as far as cores go.

Once its last request is answered an engine may spin for a while, in case another comes: vLLM 0.32
on a CPU takes a whole core for a second. An engine beside it that is asked meanwhile lacks that
core: its first token then came a second late, in half of the passes that followed the other's.
"""

import asyncio
import time

import psutil

from loadjudge.servers.keeper import tree_of

_LOOK_S = 0.1  # ten ticks of the kernel's account
_BUSY = 0.5  # of a core
_PATIENCE_S = 5.0


async def until_at_rest(leader: int) -> None:
    """Waits until a keeper's tree takes less than half a core, for five seconds at most."""
    deadline = time.monotonic() + _PATIENCE_S
    before, then = _cpu_s(leader), time.monotonic()
    while then < deadline:
        await asyncio.sleep(_LOOK_S)
        cpu_s, now = _cpu_s(leader), time.monotonic()
        if cpu_s - before < _BUSY * (now - then):
            return
        before, then = cpu_s, now


def _cpu_s(leader: int) -> float:
    """CPU seconds that its living processes have taken."""
    total = 0.0
    for pid in tree_of(leader):
        try:
            times = psutil.Process(pid).cpu_times()
        except psutil.Error:  # ended since
            continue
        total += times.user + times.system
    return total
