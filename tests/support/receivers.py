"""Servers that others chose: on loopback, over TLS, and such as mean no good."""

import datetime
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from interlock.adapters.outbound import Resolve

LOOPBACK = "127.0.0.1"
PUBLIC_NAME = "peer.example"
PUBLIC_ADDRESS = "8.8.8.8"
"""To which no connection is made: see the fixture `internet`."""


@dataclass
class Receiver:
    """A server on loopback. `answer` says what a request is told."""

    answer: Callable[[BaseHTTPRequestHandler], None]
    port: int = 0
    requests: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"


def reply(
    body: bytes, code: int = 200, content_type: str = "application/json"
) -> Callable[[BaseHTTPRequestHandler], None]:
    """An answer with a body."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        handler.send_header("Content-Type", content_type)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def status(code: int, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()

    return answer


NO_CONTENT = status(204)


@contextmanager
def receiving(
    answer: Callable[[BaseHTTPRequestHandler], None] = NO_CONTENT, tls: ssl.SSLContext | None = None
) -> Iterator[Receiver]:
    receiver = Receiver(answer)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            receiver.requests.append((self.command, self.path, dict(self.headers), body))
            receiver.answer(self)

        do_GET = do_PATCH = do_POST  # noqa: N815 (the names by which the server finds it)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that hangs up is what is tested."""

    with Server((LOOPBACK, 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        receiver.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def talking(talk: Callable[[socket.socket], None]) -> Iterator[str]:
    """The URL of a server that says of HTTP only what `talk` says."""
    with socket.create_server((LOOPBACK, 0)) as listener:

        def accept() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                try:
                    talk(connection)
                except OSError:
                    return  # the client has gone

        thread = threading.Thread(target=accept)
        thread.start()
        yield f"http://{LOOPBACK}:{listener.getsockname()[1]}/"
        thread.join()


def resolving(*addresses: str) -> Resolve:
    return lambda host, port: list(addresses)


@dataclass(frozen=True)
class Authority:
    """Issues certificates for names, and is trusted by `client`."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    folder: Path

    @property
    def client(self) -> ssl.SSLContext:
        pem = self.certificate.public_bytes(serialization.Encoding.PEM).decode()
        return ssl.create_default_context(cadata=pem)

    def server(self, name: str) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            _certificate(name, key.public_key(), self.certificate.subject)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        chain, private = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        chain.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        private.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(chain, private)
        return context


def _certificate(name: str, key: ec.EllipticCurvePublicKey, issuer: x509.Name) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
    )


def new_authority(folder: Path) -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test authority")])
    certificate = (
        _certificate("Test authority", key.public_key(), name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True,
                key_cert_sign=True,
                crl_sign=True,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Authority(key, certificate, folder)
