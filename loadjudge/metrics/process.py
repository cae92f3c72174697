"""The exporter in a process of its own.

Rendering a page takes milliseconds, in a thread of the judge as much as in its loop: the
interpreter lock would keep a read from its stamp. So whoever times sends frozen values through a
socket, which takes microseconds, and a process (``python -m loadjudge.metrics.process``) keeps
the instruments and serves them. It also follows a run's log, so that a judge sends no replies.
"""

import argparse
import os
import socket
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from threading import Thread
from typing import Any

import orjson
from pydantic import TypeAdapter

from loadjudge.errors import JudgeError, Status
from loadjudge.metrics.exporter import Exporter
from loadjudge.metrics.serve import HOST, Server, serve
from loadjudge.metrics.values import Value

_READY_S = 30.0
_MESSAGE_BYTES = 1 << 20
_LINGER_S = 20.0  # at the end, for a last scrape; longer than most scrape intervals
_NICENESS = 10  # below the judge and the engines that it measures
_VALUES: dict[str, type[Any]] = {one.__name__: one for one in Value.__args__}


class ExporterProcess:
    """Takes values and passes them on to the exporting process; never waits for it.

    Raises JudgeError where the port can't be had. ``close`` waits for a last scrape, if there
    has been any.
    """

    def __init__(
        self, port: int, host: str = HOST, run: Path | None = None, linger_s: float = _LINGER_S
    ) -> None:
        self._socket, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.lost = 0  # values that the process did not keep up with
        command = [
            sys.executable, "-m", "loadjudge.metrics.process", "--fd", str(its.fileno()),
            "--port", str(port), "--host", host, "--linger", str(linger_s),
        ]  # fmt: skip
        with its:
            self._process = subprocess.Popen(
                command + (["--run", str(run)] if run else []),
                pass_fds=(its.fileno(),),
                start_new_session=True,  # Ctrl-C is its parent's
            )
        self.port = self._ready()
        self._socket.setblocking(False)

    def take(self, value: Value) -> None:
        message = orjson.dumps([type(value).__name__, asdict(value)])
        try:
            self._socket.send(message)  # a packet goes whole or not at all
        except (BlockingIOError, BrokenPipeError, ConnectionResetError):
            self.lost += 1

    def close(self) -> None:
        """Ends it, once what was told has been served to whoever scrapes."""
        self._socket.close()
        self._process.wait()

    def _ready(self) -> int:
        self._socket.settimeout(_READY_S)
        try:
            said = orjson.loads(self._socket.recv(_MESSAGE_BYTES) or b"{}")
        except TimeoutError:
            said = {}
        if "port" in said:
            return int(said["port"])
        self._socket.close()
        self._process.terminate()
        self._process.wait()
        raise JudgeError(said.get("error", "the metrics exporter did not start"), Status.SETUP)


def _main() -> None:
    flags = argparse.ArgumentParser()
    flags.add_argument("--fd", type=int, required=True)
    flags.add_argument("--port", type=int, required=True)
    flags.add_argument("--host", required=True)
    flags.add_argument("--linger", type=float, required=True)
    flags.add_argument("--run", type=Path)
    given = flags.parse_args()
    os.nice(_NICENESS)
    exporter = Exporter()
    with socket.socket(fileno=given.fd) as parent:
        try:
            server = serve(exporter, given.port, given.host)
        except JudgeError as error:
            parent.send(orjson.dumps({"error": error.sentence}))
            return
        parent.send(orjson.dumps({"port": server.port}))
        _serve(parent, exporter, server, given.linger)


def _serve(parent: socket.socket, exporter: Exporter, server: Server, linger_s: float) -> None:
    """Takes what the parent sends until it closes its end or is gone, then waits for a scrape."""
    listener = Thread(target=_listen, args=(parent, exporter), daemon=True)
    listener.start()
    listener.join()
    if server.scrapes:
        server.wait_for_scrape(linger_s)
    server.close()


def _listen(parent: socket.socket, exporter: Exporter) -> None:
    adapters = {name: TypeAdapter(kind) for name, kind in _VALUES.items()}
    while message := parent.recv(_MESSAGE_BYTES):
        name, fields = orjson.loads(message)
        exporter.take(adapters[name].validate_python(fields))


if __name__ == "__main__":
    _main()
