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
        self._stopping = False

    async def start(self) -> float:
        """Starts it and waits until it is ready; the seconds that this took.

        Raises JudgeError (set-up) with the end of its log where it exits or takes too long.
        """
        started = monotonic()
        self._folder.mkdir(mode=0o700)
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-S",  # no site: a keeper starts in milliseconds
                str(Path(keeper.__file__)),
                str(self._grace_s),
                *self.command,
                stdin=asyncio.subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self.engine.directory,
                # What an engine leaves among temporary files, such as sockets, ends with it.
                env={**os.environ, "TMPDIR": str(self._folder), **self._env},
                start_new_session=True,
            )
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
                if self._process is None or self._process.returncode is not None:
                    raise JudgeError(
                        f"the engine {self.engine.name} ended while it started "
                        f"({self._ended()}); its log ends:\n{self.tail()}"
                    )
                await asyncio.sleep(0.05)

    async def died(self) -> None:
        """Returns never; raises JudgeError (run) once the engine has ended unasked."""
        if self._process is None:
            raise RuntimeError("the engine was not started")
        await self._process.wait()
        if self._stopping:
            await asyncio.Future()
        cause = cause_of(self.log)
        raise JudgeError(
            f"the engine {self.engine.name} died in the middle of the run ({self._ended()}"
            f"{f': {cause}' if cause else ''}); its log ends:\n{self.tail()}",
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
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def pid(self) -> int:
        """Of the keeper, which leads the group."""
        return self._process.pid if self._process is not None else 0

    def tail(self) -> str:
        """What the end of the log says."""
        return tail_of(self.log)

    def _ended(self) -> str:
        code = self._process.returncode if self._process is not None else None
        if code is None:
            return "not started"
        return f"killed by signal {code - 128}" if code > 128 else f"exit status {code}"


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port


def peak_rss_mib(group: int) -> float | None:
    """Peak resident memory of a process group, in MiB: the sum of its processes' own peaks.

    The kernel keeps each process's peak (VmHWM), so nothing is sampled and no spike is missed;
    the sum is an upper bound where their peaks fall at different moments. None if it is gone.
    """
    total_kib = 0
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            stat = Path("/proc", name, "stat").read_bytes()
            if int(stat.rpartition(b") ")[2].split()[2]) != group:
                continue
            status = Path("/proc", name, "status").read_text()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        for line in status.splitlines():
            if line.startswith("VmHWM:"):
                total_kib += int(line.split()[1])
    return total_kib / 1024 if total_kib else None
