"""Runs an engine's command and ends it when the judge is gone, however the judge went.

``python keeper.py GRACE_S END_FD COMMAND…`` leads a process group of its own with the engine in it.
Its standard input is a pipe whose other end the judge holds: the pipe closes when the judge ends,
even by SIGKILL, and then the whole tree is asked to stop, and killed if it doesn't within
GRACE_S seconds (the engine, and once more whatever it has left behind). The tree is the group and
all descendants: an engine's workers may lead sessions of their own, and those whose parent ends
become the keeper's children. Once the engine itself has ended its exit status is written to
END_FD, before what is left is ended: that may take GRACE_S. Nothing but the standard library is
imported: the keeper costs a few MiB.

A process that is killed leaves its shared memory behind, as no file descriptor's end removes it.
So at each byte on standard input, which the judge writes when the engine is ready, and before the
tree is ended, the keeper notes which shared memory is the tree's: what its processes have mapped,
and what has one's id in its name (OpenMP's). What is left of that in the end, and mapped by nobody
else, it removes.
"""

import ctypes
import os
import re
import select
import signal
import subprocess
import sys
import time

GRACE_S = 10.0
SHARED = "/dev/shm"
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


def main(command: list[str], grace_s: float, end_fd: int) -> int:
    # Handled, not ignored: an ignored signal would stay ignored in the engine.
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.signal(signal.SIGINT, lambda *_: None)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
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
            shared |= shared_of(_others())
            if not os.read(0, 1):
                _stop(engine, grace_s)
                break
    code = engine.returncode if engine.returncode >= 0 else 128 - engine.returncode
    _tell(end_fd, code)
    _end_rest(grace_s)
    _remove(shared)
    return code


def _tell(end_fd: int, code: int) -> None:
    try:
        os.write(end_fd, b"%d\n" % code)
    except OSError:
        return  # the judge is gone: nobody is left to be told


def _stop(engine: "subprocess.Popen[bytes]", grace_s: float) -> None:
    os.killpg(0, signal.SIGTERM)
    try:
        engine.wait(grace_s)
    except subprocess.TimeoutExpired:
        engine.kill()
        engine.wait()


def _end_rest(grace_s: float) -> None:
    """Ends what the engine left of its own: workers that outlive their parent."""
    _signal_others(signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while _others() and time.monotonic() < deadline:
        time.sleep(0.05)
    while _others():  # again, for those that one of them started meanwhile
        _signal_others(signal.SIGKILL)
        time.sleep(0.01)


def _signal_others(which: int) -> None:
    for pid in _others():
        try:
            os.kill(pid, which)
        except ProcessLookupError:
            continue


def _others() -> list[int]:
    return [pid for pid in tree_of(os.getpid()) if pid != os.getpid()]


def tree_of(leader: int) -> list[int]:
    """The living processes of a group's leader: its group and all its descendants, it included."""
    parents: dict[int, int] = {}
    members: set[int] = set()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                state, parent, group = file.read().rpartition(b") ")[2].split()[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state != b"Z":
            parents[int(name)] = int(parent)
            if int(group) == leader or int(name) == leader:
                members.add(int(name))
    grown = -1
    while len(members) != grown:
        grown = len(members)
        members |= {pid for pid, parent in parents.items() if parent in members}
    return sorted(members)


def shared_of(pids: list[int]) -> set[str]:
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
    sys.exit(main(sys.argv[3:], float(sys.argv[1]), int(sys.argv[2])))
