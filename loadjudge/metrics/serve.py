"""The page over HTTP, from threads of its own: ``GET /metrics``."""

import sys
from collections.abc import Callable, Iterable
from threading import Condition, Thread
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import disable_created_metrics, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from loadjudge.errors import JudgeError, Status
from loadjudge.metrics.exporter import Exporter

HOST = "127.0.0.1"
_POLL_S = 0.05  # how soon a server notices that it is to close


class Server:
    """Serves an exporter until it is closed. Knows whether it is scraped."""

    def __init__(self, exporter: Exporter, port: int, host: str) -> None:
        self._page = make_wsgi_app(exporter.registry)
        self._scraped = Condition()
        self._answering = self._answered = 0
        self._http = make_server(host, port, self._answer, _Server, _Quiet)
        self.port: int = self._http.server_port
        self._thread = Thread(target=self._http.serve_forever, args=(_POLL_S,), daemon=True)
        self._thread.start()

    @property
    def scraped(self) -> bool:
        """Whether anyone scrapes it: the answer to the first may still be on its way out."""
        with self._scraped:
            return self._answering + self._answered > 0

    def wait_for_scrape(self, timeout_s: float) -> bool:
        """Waits for the end of a scrape that begins from now on; whether one came.

        One that is being answered already may hold older values.
        """
        with self._scraped:
            wanted = self._answered + self._answering + 1
            return self._scraped.wait_for(lambda: self._answered >= wanted, timeout_s)

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def _answer(self, environ: dict[str, Any], respond: Callable[..., Any]) -> Iterable[bytes]:
        with self._scraped:
            self._answering += 1
        try:
            return _Body(self._page(environ, respond), self._written)
        except BaseException:
            self._written()
            raise

    def _written(self) -> None:
        with self._scraped:
            self._answering -= 1
            self._answered += 1
            self._scraped.notify_all()


class _Body(list[bytes]):
    """A page that tells when it has been written: WSGI closes it then. Before that its server must
    not end, or the scraper gets half of it."""

    def __init__(self, page: Iterable[bytes], written: Callable[[], None]) -> None:
        super().__init__(page)
        self.close = written


class _Server(ThreadingWSGIServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A scraper that leaves before the end is no news either."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a scrape every few seconds is no news."""


def serve(exporter: Exporter, port: int, host: str = HOST) -> Server:
    """Serves the page; port 0 takes any that is free. Raises JudgeError where it can't."""
    disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each
    try:
        return Server(exporter, port, host)
    except OSError as e:
        raise JudgeError(
            f"metrics can't be served at {host}:{port}: {(e.strerror or str(e)).lower()}",
            Status.SETUP,
        ) from None
