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
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, get_args

import orjson
from pydantic import TypeAdapter

from loadjudge.errors import JudgeError, Status
from loadjudge.metrics.exporter import Exporter
from loadjudge.metrics.serve import HOST, serve
from loadjudge.metrics.values import Look, RunProgress, Told

if TYPE_CHECKING:
    from loadjudge.metrics.followed import Followed

_READY_S = 30.0
_MESSAGE_BYTES = 1 << 20
_LINGER_S = 20.0  # at the end, for a last scrape; longer than most scrape intervals
_NICENESS = 10  # below the judge and the engines that it measures


class ExporterProcess:
    """Takes values and passes them on to the exporting process; never waits for it.

    Raises JudgeError where the port can't be had. ``close`` waits for a last scrape, if there
    has been any.
    """

    def __init__(
        self, port: int, host: str = HOST, run: Path | None = None, linger_s: float = _LINGER_S
    ) -> None:
        self._socket, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.host = host
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

    def take(self, value: Told) -> None:
        message = orjson.dumps([type(value).__name__, value], option=orjson.OPT_SERIALIZE_NUMPY)
        try:
            self._socket.send(message)  # a packet goes whole or not at all
        except OSError:  # it is slow or gone, or the value is too long for a packet
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
    if given.run is not None:
        exporter.take(RunProgress("starting"))  # from the first scrape on, before its log is read
    with socket.socket(fileno=given.fd) as parent:
        try:
            server = serve(exporter, given.port, given.host)
        except JudgeError as error:
            parent.send(orjson.dumps({"error": error.sentence}))
            return
        parent.send(orjson.dumps({"port": server.port}))
        _export(parent, exporter, given.run)
    if server.scraped:
        server.wait_for_scrape(given.linger)
    server.close()


def _export(parent: socket.socket, exporter: Exporter, run: Path | None) -> None:
    """Takes what the parent sends until it closes its end or is gone; follows its run."""
    if run is None:
        _listen(parent, exporter, None)
        return
    # After the port is served: what derives a record takes a second to import.
    from loadjudge.metrics.follow import follow
    from loadjudge.metrics.followed import Followed

    followed, ended = Followed(run.name, exporter), Event()

    def listen() -> None:
        try:
            _listen(parent, exporter, followed)
        finally:
            ended.set()

    Thread(target=listen, daemon=True).start()
    follow(run, followed, exporter, ended)


def _listen(parent: socket.socket, exporter: Exporter, followed: "Followed | None") -> None:
    adapters = {kind.__name__: TypeAdapter(kind) for kind in get_args(Told)}
    while message := parent.recv(_MESSAGE_BYTES):
        name, fields = orjson.loads(message)
        value = adapters[name].validate_python(fields)
        if not isinstance(value, Look):
            exporter.take(value)
        elif followed is not None:
            followed.look(value)


if __name__ == "__main__":
    _main()
