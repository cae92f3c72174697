"""A helper process of the proxy: what is heavy or may hang is done there, never on its loop."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any, cast

from loadjudge.proxy.frames import Frame, FrameDecoder, encoded

_BACKLOG = 64 << 20  # bytes that wait for a helper; what comes then is dropped
_RESTART_S = (1.0, 30.0)  # after it died: at first, at most
DESCRIPTOR = "LOADJUDGE_HELPER_FD"


class Helper(asyncio.Protocol):
    """A child process ``python -m module`` at the other end of a socket pair.

    ``first`` is the frame that it is started with. ``on_frame`` gets what it says; ``on_trouble``
    a sentence where it died. A helper that died is started again.
    """

    def __init__(
        self,
        module: str,
        first: dict[str, Any],
        on_frame: Callable[[Frame], None],
        on_trouble: Callable[[str], None],
    ) -> None:
        self._module = module
        self._first = first
        self._on_frame = on_frame
        self._on_trouble = on_trouble
        self._process: subprocess.Popen[bytes] | None = None
        self._transport: asyncio.Transport | None = None
        self._frames = FrameDecoder()
        self._gone = asyncio.Event()
        self._stopping = False
        self._restart_s = _RESTART_S[0]
        self._restarting: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        """Starts the process."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._gone.clear()
        self._frames = FrameDecoder()
        with theirs:
            # A session of its own: the terminal's Ctrl-C is for the proxy, which then ends it.
            self._process = await asyncio.to_thread(
                subprocess.Popen,
                [sys.executable, "-m", self._module],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env={**os.environ, DESCRIPTOR: str(theirs.fileno())},
                start_new_session=True,
            )
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self, sock=ours)
        self._write(encoded(self._first))

    def send(self, head: dict[str, Any], body: bytes = b"") -> bool:
        """Gives it a frame; False where it had to be dropped."""
        transport = self._transport
        if transport is None or transport.get_write_buffer_size() + len(body) > _BACKLOG:
            return False
        self._write(encoded(head, body))
        return True

    async def stop(self, timeout_s: float = 30.0) -> None:
        """Lets it finish what it has, and waits for its end."""
        self._stopping = True
        if self._restarting is not None:
            self._restarting.cancel()
        process = self._process
        if process is None:
            return
        if self._transport is not None:
            self._write(encoded({"end": True}))
        try:
            await asyncio.wait_for(self._gone.wait(), timeout_s)
        except TimeoutError:
            self._on_trouble(f"it did not end in {timeout_s:g} s")
            process.kill()
        if self._transport is not None:
            self._transport.abort()
        await asyncio.to_thread(process.wait)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        for frame in self._frames.feed(data):
            if "failed" not in frame[0]:
                self._restart_s = _RESTART_S[0]  # it lives and works
            self._on_frame(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._gone.set()
        if not self._stopping:
            self._restarting = asyncio.ensure_future(self._again())

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    async def _again(self) -> None:
        process = self._process
        status = None if process is None else await asyncio.to_thread(process.wait)
        self._on_trouble(f"it died (exit status {status}); another is started")
        await asyncio.sleep(self._restart_s)
        self._restart_s = min(2 * self._restart_s, _RESTART_S[1])
        try:
            await self.start()
        except OSError as error:
            self._on_trouble(f"it can't be started: {error.strerror or error}")


def parents_end() -> socket.socket:
    """The helper's end of the pair, in the child."""
    return socket.socket(fileno=int(os.environ[DESCRIPTOR]))
