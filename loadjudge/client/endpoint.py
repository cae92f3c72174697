"""Where an endpoint is, how it is trusted, and what every request to it carries."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from loadjudge import __version__
from loadjudge.errors import JudgeError, Status

_EXAMPLE = "expected http(s)://host[:port][/v1] or unix:/path/to.sock"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The base URL of an OpenAI-compatible server, taken apart."""

    url: str  # for people: normalised, /v1 included
    tls: bool
    host: str
    port: int
    socket: str | None  # path of a unix socket; host is then only a name
    prefix: str  # path before /v1: "" nearly always

    @property
    def authority(self) -> str:
        """The Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = self.socket is not None or self.port == (443 if self.tls else 80)
        return host if usual else f"{host}:{self.port}"

    @property
    def root(self) -> str:
        """URL of the server without /v1, for /metrics and /health."""
        return f"{'https' if self.tls else 'http'}://{self.authority}{self.prefix}"

    @property
    def api(self) -> str:
        """URL with /v1."""
        return f"{self.root}/v1"

    @property
    def api_path(self) -> str:
        """Path of the API in a request line."""
        return f"{self.prefix}/v1"


def parse_endpoint(text: str) -> Endpoint:
    """Reads a base URL; /v1 may be there or not. Raises JudgeError (usage) for what isn't one."""
    text = text.strip()
    if " " in text or not text.isprintable():
        raise _bad(text, "it holds blanks or control characters")
    if text.startswith("unix:"):
        return _unix(text)
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise _bad(text, f"{error}: {_EXAMPLE}") from error
    if parts.scheme not in ("http", "https"):
        raise _bad(text, _EXAMPLE)
    if not host:
        raise _bad(text, f"it names no host: {_EXAMPLE}")
    if parts.username is not None or parts.password is not None:
        raise _bad(text, "it holds a user name or password: give the key in OPENAI_API_KEY")
    if parts.query or parts.fragment:
        raise _bad(text, f"it has a query or a fragment: {_EXAMPLE}")
    prefix = parts.path.rstrip("/").removesuffix("/v1")
    if prefix.endswith("/completions"):
        raise _bad(text, "it names one call, not the server: end it at /v1")
    tls = parts.scheme == "https"
    endpoint = Endpoint("", tls, host, port or (443 if tls else 80), None, prefix)
    return Endpoint(endpoint.api, tls, host, endpoint.port, None, prefix)


def request_headers(api_key: str | None, extra: Mapping[str, str]) -> dict[str, str]:
    """What every request carries: the key as a bearer token, and the user's own headers.

    Raises JudgeError (usage) for a header that can't be sent.
    """
    headers = {"User-Agent": f"loadjudge/{__version__}"}
    if api_key:
        headers["Authorization"] = f"Bearer {api_key}"
    headers.update(extra)
    for name, value in headers.items():
        sendable = name.isascii() and value.isascii() and (name + value).isprintable()
        if not sendable or not name or " " in name or ":" in name:
            where = "the API key" if name == "Authorization" else f"the header {name!r}"
            raise JudgeError(
                f"{where} can't be sent: printable ASCII only, without line ends", Status.USAGE
            )
    return headers


def ssl_context(insecure: bool) -> ssl.SSLContext:
    """Certificates are checked against the system's (or SSL_CERT_FILE), unless ``insecure``."""
    context = ssl.create_default_context()
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _unix(text: str) -> Endpoint:
    path = text.removeprefix("unix:")
    if path.startswith("//"):
        path = path[2:]
    path = path.rstrip("/").removesuffix("/v1")
    if not path.startswith("/"):
        raise _bad(text, "a unix socket needs an absolute path: unix:/path/to.sock")
    return Endpoint(f"unix:{path}", False, "localhost", 80, path, "")


def _bad(text: str, why: str) -> JudgeError:
    return JudgeError(f"{text!r} is no base URL of an endpoint: {why}", Status.USAGE)
