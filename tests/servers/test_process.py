"""The life and the end of an engine's process, with engines of a few lines."""

import asyncio
import os
import select
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from loadjudge.errors import JudgeError, Status
from loadjudge.servers import keeper
from loadjudge.servers.engine import Engine
from loadjudge.servers.memory import peak_rss_mib
from loadjudge.servers.process import EngineProcess

# Answers 200 to everything on its socket, once it has written who it is.
SERVES = """
OK = b"HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n"
import os, signal, socket, subprocess, sys
def serve(path):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    print("serving", flush=True)
    while True:
        connection, _ = listener.accept()
        said = connection.recv(65536)
        if b"/die" in said:
            print("CUDA error: out of luck", flush=True)
            os._exit(3)
        connection.sendall(OK)
        connection.close()
"""
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(flush=True)
time.sleep(600)
"""


def engine(tmp_path: Path, script: str, **changes: object) -> Engine:
    path = tmp_path / "engine.py"
    path.write_text(SERVES + textwrap.dedent(script))
    values = {"directory": tmp_path, "command": ("{python}", "-S", str(path), "{socket}")}
    return Engine("mine", "openai", **{**values, **changes})  # type: ignore[arg-type]


def process(tmp_path: Path, script: str, **changes: object) -> EngineProcess:
    return EngineProcess(engine(tmp_path, script, **changes), "m", tmp_path / "log", grace_s=0.3)


def alive(pid: int) -> bool:
    try:
        return b") Z" not in Path(f"/proc/{pid}/stat").read_bytes()
    except FileNotFoundError:
        return False


def alive_file(path: str) -> bool:
    return Path(path).exists()


def gone(pidfd: int, seconds: float = 10.0) -> bool:
    """Waits for a process to end."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    ended = bool(poll.poll(seconds * 1000))
    os.close(pidfd)
    return ended


async def test_an_engine_is_started_waited_for_and_stopped(tmp_path: Path) -> None:
    one = process(
        tmp_path, 'print("pid", os.getpid(), os.environ["A"]); serve(sys.argv[1])', env={"A": "b"}
    )
    assert 0 < await one.start() < 30
    pid, told = (tmp_path / "log").read_text().split()[1:3]
    assert told == "b"
    assert alive(int(pid))
    await one.stop()
    assert not alive(int(pid))
    assert not Path(one.url.removeprefix("unix:")).parent.exists()
    await one.stop()  # twice is once


async def test_an_engine_that_exits_at_once_shows_the_end_of_its_log(tmp_path: Path) -> None:
    script = 'print("\\n".join(map(str, range(40)))); sys.exit("no such model")'
    one = process(tmp_path, script)
    with pytest.raises(JudgeError, match=r"mine ended while it started \(exit status 1\)") as e:
        await one.start()
    assert e.value.status == Status.SETUP
    assert e.value.sentence.endswith("  39\n  no such model")
    assert "  20\n" not in e.value.sentence


async def test_a_command_that_is_not_there_is_named(tmp_path: Path) -> None:
    one = process(tmp_path, "", command=("no-such-command",))
    with pytest.raises(JudgeError, match="no-such-command: No such file or directory"):
        await one.start()


async def test_an_engine_killed_by_a_signal_says_which(tmp_path: Path) -> None:
    one = process(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(JudgeError, match="killed by signal 9"):
        await one.start()


async def test_an_engine_that_never_gets_ready_is_stopped(tmp_path: Path) -> None:
    script = "print(os.getpid(), flush=True); import time; time.sleep(600)"
    one = process(tmp_path, script, ready_timeout_s=3.0)
    with pytest.raises(JudgeError, match="mine was not ready after 3 s; its log ends:") as e:
        await one.start()
    assert e.value.status == Status.SETUP
    assert not alive(int((tmp_path / "log").read_text()))


async def test_an_engine_that_dies_later_is_told_with_its_last_words(tmp_path: Path) -> None:
    one = process(tmp_path, "serve(sys.argv[1])")
    await one.start()
    try:
        died = asyncio.create_task(one.died())
        _, writer = await asyncio.open_unix_connection(one.url.removeprefix("unix:"))
        writer.write(b"GET /die HTTP/1.1\r\n\r\n")
        with pytest.raises(
            JudgeError, match=r"died in the middle of the run \(exit status 3\)"
        ) as e:
            await asyncio.wait_for(died, 10)
        assert e.value.status == Status.RUN
        assert "CUDA error: out of luck" in e.value.sentence
        writer.close()
    finally:
        await one.stop()


async def test_an_engine_that_is_stopped_has_not_died(tmp_path: Path) -> None:
    one = process(tmp_path, "serve(sys.argv[1])")
    await one.start()
    died = asyncio.create_task(one.died())
    await one.stop()
    done, _ = await asyncio.wait([died], timeout=0.05)
    assert not done
    died.cancel()


WITH_STUBBORN_CHILD = f"""
child = subprocess.Popen([sys.executable, "-S", "-c", {STUBBORN!r}], stdout=subprocess.PIPE)
child.stdout.readline()
print("child", child.pid, flush=True)
serve(sys.argv[1])
"""


def child_of(log: Path) -> int:
    return int(log.read_text().split("child ")[1].split()[0])


async def test_stop_ends_a_grandchild_that_ignores_being_asked(tmp_path: Path) -> None:
    one = process(tmp_path, WITH_STUBBORN_CHILD)
    await one.start()
    child = child_of(tmp_path / "log")
    assert alive(child)
    began = time.monotonic()
    await one.stop()
    assert not alive(child)
    assert time.monotonic() - began >= 0.3  # it was asked first


async def test_stop_ends_an_engine_that_ignores_being_asked(tmp_path: Path) -> None:
    script = "signal.signal(signal.SIGTERM, signal.SIG_IGN); print(os.getpid()); serve(sys.argv[1])"
    one = process(tmp_path, script)
    await one.start()
    pid = int((tmp_path / "log").read_text().split()[0])
    await one.stop()
    assert not alive(pid)


async def test_an_engines_end_is_told_before_its_stubborn_workers_have_ended(
    tmp_path: Path,
) -> None:
    """The keeper ended them first, for up to ten seconds, and the judge named the endpoint."""
    one = EngineProcess(engine(tmp_path, WITH_STUBBORN_CHILD), "m", tmp_path / "log", grace_s=0.5)
    await one.start()
    died = asyncio.create_task(one.died())
    child = child_of(tmp_path / "log")
    _, writer = await asyncio.open_unix_connection(one.url.removeprefix("unix:"))
    writer.write(b"GET /die HTTP/1.1\r\n\r\n")
    with pytest.raises(JudgeError, match="exit status 3"):
        await asyncio.wait_for(died, 10)
    assert alive(child)  # it has half a second to end by itself
    writer.close()
    await one.stop()
    assert not alive(child)


IN_A_SESSION_OF_ITS_OWN = f"""
script = "import os\\nif os.fork(): os._exit(0)\\n" + {STUBBORN!r}.replace(
    "print(", "print(os.getpid(), "
)
child = subprocess.Popen(
    [sys.executable, "-S", "-c", script], stdout=subprocess.PIPE, start_new_session=True
)
print("child", child.stdout.readline().decode(), flush=True)
child.wait()
serve(sys.argv[1])
"""


async def test_an_orphan_in_a_session_of_its_own_is_ended_too(tmp_path: Path) -> None:
    """Workers that MPI starts lead sessions of their own: a signal to the group misses them."""
    one = process(tmp_path, IN_A_SESSION_OF_ITS_OWN)
    await one.start()
    orphan = child_of(tmp_path / "log")
    assert alive(orphan)
    assert os.getpgid(orphan) != one.pid
    assert orphan in keeper.tree_of(one.pid)
    await one.stop()
    assert not alive(orphan)


SHARES = """
import mmap, os, sys, time
def share(name):
    with open("/dev/shm/loadjudge-test-" + name, "w+b") as file:
        file.truncate(4096)
        return mmap.mmap(file.fileno(), 4096)
ours = share("mapped-" + sys.argv[1])
named = f"named-{os.getpid()}-" + sys.argv[1]
share(named).close()
print(os.getpid(), flush=True)
time.sleep(600)
"""


def test_nothing_that_a_killed_worker_shared_is_left(tmp_path: Path) -> None:
    """Shared memory has no owner: a process that is killed leaves it behind."""
    word = tmp_path.name
    bystander = Path(keeper.SHARED, f"loadjudge-test-bystander-{word}")
    bystander.touch()
    read, write = os.pipe()
    told, end = os.pipe()
    engine_command = [sys.executable, "-S", "-c", SHARES, word]
    leader = subprocess.Popen(
        [sys.executable, "-S", keeper.__file__, "0.3", str(end), *engine_command],
        stdin=read,
        stdout=subprocess.PIPE,
        start_new_session=True,
        pass_fds=(end,),
    )
    try:
        assert leader.stdout is not None
        engine = int(leader.stdout.readline())
        shared = sorted(Path(keeper.SHARED).glob(f"loadjudge-test-*-{word}"))
        assert len(shared) == 3
        os.write(write, b".")  # as the judge does when the engine is ready
        while select.select([read], [], [], 0)[0]:
            time.sleep(0.01)  # the keeper has not read it yet
        os.kill(engine, 9)
        assert leader.wait(10) == 128 + 9
        assert sorted(Path(keeper.SHARED).glob(f"loadjudge-test-*-{word}")) == [bystander]
    finally:
        for fd in (write, read, told, end):
            os.close(fd)
        leader.stdout.close()  # type: ignore[union-attr]
        bystander.unlink()


async def test_temporary_files_of_an_engine_end_with_it(tmp_path: Path) -> None:
    left = 'path = os.environ["TMPDIR"] + "/left"; open(path, "w"); print(path); '
    one = process(tmp_path, left + "serve(sys.argv[1])")
    await one.start()
    left = (tmp_path / "log").read_text().split()[0]
    assert alive_file(left)
    await one.stop()
    assert not alive_file(left)


JUDGE = """
import asyncio, sys
from pathlib import Path
from loadjudge.servers import keeper
from loadjudge.servers.engine import Engine
from loadjudge.servers.memory import peak_rss_mib
from loadjudge.servers.process import EngineProcess
async def main():
    engine = Engine("mine", "openai", directory=Path(sys.argv[1]),
                    command=("{python}", "-S", sys.argv[1] + "/engine.py", "{socket}"))
    process = EngineProcess(engine, "m", Path(sys.argv[1], "log"), grace_s=0.3)
    await process.start()
    print(process.pid, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


def test_a_judge_that_is_killed_takes_the_engine_with_it(tmp_path: Path) -> None:
    engine(tmp_path, WITH_STUBBORN_CHILD)
    judge = subprocess.Popen([sys.executable, "-c", JUDGE, str(tmp_path)], stdout=subprocess.PIPE)
    assert judge.stdout is not None
    leader = int(judge.stdout.readline())
    child = child_of(tmp_path / "log")
    assert os.getpgid(child) == leader
    descriptors = [os.pidfd_open(pid) for pid in (child, leader)]
    judge.kill()
    judge.wait()
    judge.stdout.close()
    assert all(map(gone, descriptors))


async def test_a_port_is_found_for_an_engine_that_wants_one(tmp_path: Path) -> None:
    one = process(tmp_path, "", command=("{python}", "--port={port}"))
    assert one.url == f"http://127.0.0.1:{one.command[1].removeprefix('--port=')}/v1"
    await one.stop()


async def test_peak_memory_is_of_the_whole_tree(tmp_path: Path) -> None:
    grow = "big = bytearray(64 << 20); print(flush=True); import time; time.sleep(600)"
    script = f"""
child = subprocess.Popen([sys.executable, "-S", "-c", {grow!r}], stdout=subprocess.PIPE)
child.stdout.readline()
serve(sys.argv[1])
"""
    one = process(tmp_path, script)
    await one.start()
    peak = peak_rss_mib(one.pid)
    await one.stop()
    assert peak is not None
    assert 70 < peak < 200
    assert peak_rss_mib(one.pid) is None


def test_the_engine_does_not_inherit_that_the_keeper_passes_signals_over() -> None:
    """An ignored signal stays ignored in whatever is started: nothing could end the engine."""
    script = "import signal as s; print(s.getsignal(s.SIGTERM).name, s.getsignal(s.SIGINT))"
    read, write = os.pipe()  # the judge's end stays open
    said = subprocess.run(
        [sys.executable, "-S", keeper.__file__, "0.3", "-1", sys.executable, "-S", "-c", script],
        stdin=read,
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
    )
    os.close(read)
    os.close(write)
    assert said.returncode == 0
    assert said.stdout.startswith("SIG_DFL <built-in function default_int_handler>")
