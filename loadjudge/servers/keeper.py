"""Runs an engine's command and ends it when the judge is gone, however the judge went.

``python keeper.py GRACE_S COMMAND…`` leads a process group of its own with the engine in it. Its
standard input is a pipe whose other end the judge holds: the pipe closes when the judge ends,
even by SIGKILL, and then the whole group is asked to stop, and killed if it doesn't within
GRACE_S seconds (the engine, and once more whatever it has left behind). Nothing but
the standard library is imported: the keeper costs a few MiB.

A process that is killed leaves its shared memory behind, as no file descriptor's end removes it.
So at each byte on standard input, which the judge writes when the engine is ready, and before the
group is ended, the keeper notes which shared memory is the group's: what its processes have
mapped, and what has one's id in its name (OpenMP's). What is left of that in the end, and mapped by
nobody else, it removes.
"""

import os
import re
import select
import signal
import subprocess
import sys
import time

GRACE_S = 10.0
SHARED = "/dev/shm"


def main(command: list[str], grace_s: float) -> int:
    # Handled, not ignored: an ignored signal would stay ignored in the engine.
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.signal(signal.SIGINT, lambda *_: None)
    try:
        engine = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    except OSError as e:
        print(f"{command[0]}: {e.strerror}", file=sys.stderr)
        return 127
    ended = os.pidfd_open(engine.pid)
    poll = select.poll()
    poll.register(0, select.POLLHUP | select.POLLIN)
    poll.register(ended, select.POLLIN)
    shared: set[str] = set()
    while engine.poll() is None:
        for fd, _ in poll.poll():
            if fd != 0:
                continue
            shared |= _shared_of(_others())
            if not os.read(0, 1):
                _stop(engine, grace_s)
                break
    _end_rest(grace_s)
    _remove(shared)
    code = engine.returncode
    return 128 - code if code < 0 else code


def _stop(engine: "subprocess.Popen[bytes]", grace_s: float) -> None:
    os.killpg(0, signal.SIGTERM)
    try:
        engine.wait(grace_s)
    except subprocess.TimeoutExpired:
        engine.kill()
        engine.wait()


def _end_rest(grace_s: float) -> None:
    """Ends what the engine left of its own group: workers that outlive their parent."""
    os.killpg(0, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while _others() and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in _others():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _others() -> list[int]:
    """The other living processes of this group."""
    mine, group = os.getpid(), os.getpgrp()
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == mine:
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                state, _, its_group = file.read().rpartition(b") ")[2].split()[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(its_group) == group and state != b"Z":
            found.append(int(name))
    return found


def _shared_of(pids: list[int]) -> set[str]:
    """Shared memory of these processes: mapped by one, or with one's id in its name."""
    found: set[str] = set()
    for pid in pids:
        found |= _mapped(pid)
    if os.path.isdir(SHARED):
        for name in os.listdir(SHARED):
            if any(int(number) in pids for number in re.findall(r"\d+", name)):
                found.add(f"{SHARED}/{name}")
    return found


def _mapped(pid: int) -> set[str]:
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
            return {line.split(maxsplit=5)[5].strip() for line in file if f" {SHARED}/" in line}
    except OSError:  # it has ended, or is not ours
        return set()


def _remove(shared: set[str]) -> None:
    """Removes what is left of it and nobody has mapped."""
    left = {path for path in shared if os.path.exists(path)}
    if left:
        left -= set().union(*(_mapped(int(n)) for n in os.listdir("/proc") if n.isdigit()))
    for path in left:
        try:
            os.unlink(path)
        except OSError as e:
            print(f"{path}: {e.strerror}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[2:], float(sys.argv[1])))
