"""Base URLs and what every request carries."""

import pytest

from loadjudge.client.endpoint import parse_endpoint, request_headers
from loadjudge.errors import JudgeError, Status


@pytest.mark.parametrize(
    ("text", "url", "root", "authority"),
    [
        ("http://h", "http://h/v1", "http://h", "h"),
        ("http://h:80/", "http://h/v1", "http://h", "h"),
        ("http://h:8000/v1", "http://h:8000/v1", "http://h:8000", "h:8000"),
        ("http://h:8000/v1/", "http://h:8000/v1", "http://h:8000", "h:8000"),
        ("https://H.example/v1", "https://h.example/v1", "https://h.example", "h.example"),
        ("https://h:8443", "https://h:8443/v1", "https://h:8443", "h:8443"),
        ("http://h/openai/v1", "http://h/openai/v1", "http://h/openai", "h"),
        ("http://h/openai", "http://h/openai/v1", "http://h/openai", "h"),
        ("http://[::1]:8000", "http://[::1]:8000/v1", "http://[::1]:8000", "[::1]:8000"),
        ("unix:/run/e.sock", "unix:/run/e.sock", "http://localhost", "localhost"),
        ("unix:///run/e.sock", "unix:/run/e.sock", "http://localhost", "localhost"),
        ("unix:/run/e.sock/v1", "unix:/run/e.sock", "http://localhost", "localhost"),
    ],
)
def test_base_urls(text: str, url: str, root: str, authority: str) -> None:
    endpoint = parse_endpoint(text)
    assert (endpoint.url, endpoint.root, endpoint.authority) == (url, root, authority)
    assert endpoint.api == f"{root}/v1"
    assert endpoint.api_path.endswith("/v1")
    assert endpoint.api_path.count("/v1") == 1
    if not text.startswith("unix:"):
        assert parse_endpoint(endpoint.url) == endpoint


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("localhost:8000", "expected http"),
        ("ftp://h", "expected http"),
        ("", "expected http"),
        ("http://", "names no host"),
        ("http://h:99999", "expected http"),
        ("http://h:port", "expected http"),
        ("http://u:p@h", "OPENAI_API_KEY"),
        ("http://h/v1?x=1", "query"),
        ("http://h/v1/chat/completions", "end it at /v1"),
        ("unix:run/e.sock", "absolute path"),
        ("http://h/a b", "blanks"),
        ("http://h/a\r\nX: y", "blanks or control"),
    ],
)
def test_what_is_no_base_url(text: str, why: str) -> None:
    with pytest.raises(JudgeError, match=why) as caught:
        parse_endpoint(text)
    assert caught.value.status is Status.USAGE
    assert "\n" not in caught.value.sentence


def test_headers() -> None:
    headers = request_headers("sk-1", {"X-A": "b", "User-Agent": "mine"})
    assert headers == {"User-Agent": "mine", "Authorization": "Bearer sk-1", "X-A": "b"}
    assert "Authorization" not in request_headers(None, {})


@pytest.mark.parametrize(
    ("key", "headers", "named"),
    [
        ("sk\n", {}, "the API key"),
        ("schlüssel", {}, "the API key"),
        (None, {"X-A": "b\r\nX-B: c"}, "X-A"),
        (None, {"X A": "b"}, "X A"),
        (None, {"": "b"}, "header ''"),
    ],
)
def test_headers_that_cannot_be_sent(key: str | None, headers: dict[str, str], named: str) -> None:
    with pytest.raises(JudgeError, match=named) as caught:
        request_headers(key, headers)
    assert key is None or key not in caught.value.sentence
