"""TLS: certificates are checked unless the user says otherwise."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from loadjudge.client.client import LoadClient
from loadjudge.client.failures import CallError
from loadjudge.client.http import PlainClient
from loadjudge.errors import JudgeError
from loadjudge.wire.request import chat_body

from .conftest import Peer, Script, Serve

BODY = chat_body("m", [{"role": "user", "content": "hi"}])

pytestmark = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="needs the openssl command to make a certificate"
)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed one for 127.0.0.1, with its key in the same file."""
    pem = tmp_path_factory.mktemp("tls") / "cert.pem"
    key = pem.with_name("key.pem")
    subprocess.run(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
        f"-subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 -keyout {key} -out {pem}".split(),
        check=True,
        capture_output=True,
    )
    pem.write_text(pem.read_text() + key.read_text())
    return pem


@pytest.fixture
def tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


async def test_a_certificate_that_nobody_vouches_for(
    serve: Serve, answering: Script, tls: ssl.SSLContext
) -> None:
    server = await serve(answering, tls=tls)
    async with LoadClient(server.url) as client:
        with pytest.raises(CallError) as caught:
            await client.chat(BODY)
    assert caught.value.kind == "connect"
    assert "self-signed" in caught.value.message.replace("self signed", "self-signed")


async def test_insecure_leaves_it_unchecked(
    serve: Serve, answering: Script, tls: ssl.SSLContext
) -> None:
    server = await serve(answering, tls=tls)
    async with LoadClient(server.url, insecure=True) as client:
        calls = [await client.chat(BODY) for _ in range(3)]
    assert calls[-1].reply.content == "ab"
    assert server.connections == 1


async def test_an_own_context(
    serve: Serve, answering: Script, tls: ssl.SSLContext, certificate: Path
) -> None:
    server = await serve(answering, tls=tls)
    trusting = ssl.create_default_context(cafile=str(certificate))
    async with LoadClient(server.url, ssl=trusting) as client:
        assert (await client.chat(BODY)).reply.content == "ab"


async def test_plain_calls(serve: Serve, tls: ssl.SSLContext) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.plain("200 OK", b'{"version": "1"}')

    server = await serve(script, tls=tls)
    async with PlainClient(server.url, insecure=True) as client:
        assert await client.version() == "1"
    async with PlainClient(server.url) as client:
        with pytest.raises(JudgeError, match="can't be reached"):
            await client.version()
