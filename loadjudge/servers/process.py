"""An engine's process: started in a group of its own, waited for, watched, stopped."""

import asyncio
import os
import secrets
import shutil
import socket
import sys
import tempfile
from pathlib import Path
from time import monotonic

from loadjudge.client.http import PlainClient
from loadjudge.errors import JudgeError, Status
from loadjudge.servers import keeper
from loadjudge.servers.engine import Engine
from loadjudge.servers.logtail import cause_of, tail_of


class EngineProcess:
    """One start of an engine directory's command. Its output goes to ``log``.

    When it is to stop, its group has ``grace_s`` seconds before it is killed.
    """

    def __init__(
        self, engine: Engine, model: str, log: Path, *, grace_s: float = keeper.GRACE_S
    ) -> None:
        self.engine = engine
        self.log = log
        self._grace_s = grace_s
        port = _free_port() if engine.uses_port else 0
        # Socket paths are limited to about 100 bytes: a run directory's may be longer.
        self._folder = Path(tempfile.gettempdir(), f"loadjudge-{secrets.token_hex(6)}")
        path = self._folder / "engine.sock"
        self.command = engine.filled(socket=path, port=port, model=model)
        self._env = engine.filled_env(socket=path, port=port, model=model)
        self.url = f"http://127.0.0.1:{port}/v1" if engine.uses_port else f"unix:{path}"
        self._process: asyncio.subprocess.Process | None = None
        self._end: asyncio.Task[int] | None = None  # of the engine itself: its exit status
        self._stopping = False

    async def start(self) -> float:
        """Starts it and waits until it is ready; the seconds that this took.

        Raises JudgeError (set-up) with the end of its log where it exits or takes too long.
        """
        started = monotonic()
        self._folder.mkdir(mode=0o700)
        read_fd, end_fd = os.pipe()
        try:
            with self.log.open("ab") as log:
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-S",  # no site: a keeper starts in milliseconds
                    str(Path(keeper.__file__)),
                    str(self._grace_s),
                    str(end_fd),
                    *self.command,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    cwd=self.engine.directory,
                    # What an engine leaves among temporary files, such as sockets, ends with it.
                    env={**os.environ, "TMPDIR": str(self._folder), **self._env},
                    start_new_session=True,
                    pass_fds=(end_fd,),
                )
        except BaseException:
            os.close(read_fd)
            raise
        finally:
            os.close(end_fd)
        self._end = asyncio.create_task(_status_of(self._process, read_fd))
        try:
            async with asyncio.timeout(self.engine.ready_timeout_s):
                await self._ready()
        except TimeoutError:
            await self.stop()
            raise JudgeError(
                f"the engine {self.engine.name} was not ready after "
                f"{self.engine.ready_timeout_s:g} s; its log ends:\n{self.tail()}"
            ) from None
        except BaseException:
            await self.stop()
            raise
        self._note_what_it_shares()
        return monotonic() - started

    def _note_what_it_shares(self) -> None:
        """A byte tells the keeper to look at what shared memory its processes have by now."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.write(b".")

    async def _ready(self) -> None:
        async with PlainClient(self.url, timeout_s=5) as http:
            while not await http.health(self.engine.ready_path):
                if self._end is None or self._end.done():
                    raise JudgeError(
                        f"the engine {self.engine.name} ended while it started "
                        f"({self._why_ended()}); its log ends:\n{self.tail()}"
                    )
                await asyncio.sleep(0.05)

    async def died(self) -> None:
        """Returns never; raises JudgeError (run) once the engine has ended unasked."""
        if self._end is None:
            raise RuntimeError("the engine was not started")
        await asyncio.shield(self._end)
        if self._stopping:
            await asyncio.Future()
        raise JudgeError(
            f"the engine {self.engine.name} died in the middle of the run "
            f"({self._why_ended()}); its log ends:\n{self.tail()}",
            Status.RUN,
        )

    async def stop(self) -> None:
        """Stops the whole process group and removes its socket."""
        self._stopping = True
        process = self._process
        if process is not None:
            if process.stdin is not None:
                process.stdin.close()  # the keeper sees it and ends the group
            await process.wait()
        if self._end is not None:
            await self._end
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def pid(self) -> int:
        """Of the keeper, which leads the group."""
        return self._process.pid if self._process is not None else 0

    def tail(self) -> str:
        """What the end of the log says."""
        return tail_of(self.log)

    def _why_ended(self) -> str:
        """How it ended, and the first exception that the end of its log tells of."""
        return ": ".join(filter(None, (self._ended(), cause_of(self.log))))

    def _ended(self) -> str:
        if self._end is None or not self._end.done():
            return "still running"
        code = self._end.result()
        return f"killed by signal {code - 128}" if code > 128 else f"exit status {code}"


async def _status_of(process: asyncio.subprocess.Process, read_fd: int) -> int:
    """The engine's exit status, as soon as it has ended: the keeper may take longer."""
    reader = asyncio.StreamReader()
    with os.fdopen(read_fd, "rb", buffering=0) as pipe:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        try:
            told = await reader.readline()
        finally:
            transport.close()
    # A keeper that could not start the engine, or was killed itself, tells nothing.
    return int(told) if told else await process.wait()


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port
