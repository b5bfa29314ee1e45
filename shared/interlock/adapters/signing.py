"""Keys that sign with ES256 (RFC 7518, section 3.4): in a file of this machine, or kept by AWS KMS."""

import json
import logging
import os
from abc import ABC, abstractmethod
from base64 import urlsafe_b64encode
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError
from pydantic import JsonValue

from interlock.a2a.errors import Unavailable
from interlock.adapters.aws import create_client

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey

COORDINATE_BYTES = 32
"""Of the curve P-256: a public key is two numbers of this size, and so is a signature."""

_log = logging.getLogger(__name__)


class Es256Signer(ABC):
    """Implements the part of `Signer` that only needs the public key."""

    alg = "ES256"

    @property
    def kid(self) -> str:
        """The key's thumbprint (RFC 7638): the same key has the same id, wherever it is kept."""
        members = json.dumps(self._members, separators=(",", ":"))
        return _base64url(sha256(members.encode()).digest())

    @property
    def public_jwk(self) -> dict[str, JsonValue]:
        return {**self._members, "kid": self.kid, "alg": self.alg, "use": "sig"}

    @cached_property
    def _members(self) -> dict[str, JsonValue]:
        """What makes the key (RFC 7518, section 6.2.1), in the order of names that its thumbprint wants."""
        public = self._public_key()
        if public.curve.name != "secp256r1":
            raise ValueError("the signing key is not one of the curve P-256")
        numbers = public.public_numbers()
        x, y = (_base64url(number.to_bytes(COORDINATE_BYTES, "big")) for number in (numbers.x, numbers.y))
        return {"crv": "P-256", "kty": "EC", "x": x, "y": y}

    @abstractmethod
    def _public_key(self) -> "EllipticCurvePublicKey": ...


class FileSigner(Es256Signer):
    """A private key in a PEM file, which is read when it is first used."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def sign(self, data: bytes) -> bytes:
        from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
        from cryptography.hazmat.primitives.hashes import SHA256

        return _raw(self._private_key.sign(data, ECDSA(SHA256())))

    def _public_key(self) -> "EllipticCurvePublicKey":
        return self._private_key.public_key()

    @cached_property
    def _private_key(self) -> "EllipticCurvePrivateKey":
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        key = load_pem_private_key(self._path.read_bytes(), password=None)
        if not isinstance(key, EllipticCurvePrivateKey):
            raise TypeError("the signing key is not one of an elliptic curve")
        return key


def create_signing_key(path: Path) -> None:
    """A new private key that only its owner can read. A file that is there stays as it is."""
    if path.exists():
        return
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(pem)


def signer_of(key: str) -> "FileSigner | KmsSigner":
    """`key` is the id or ARN of a key of AWS KMS, or `file:` and the path of a private key in PEM."""
    file = key.removeprefix("file:")
    return FileSigner(Path(file)) if file != key else KmsSigner(kms_client(), key)


def kms_client(endpoint_url: str | None = None) -> Any:
    """A client of AWS KMS that gives up early."""
    config = Config(connect_timeout=1, read_timeout=2, retries={"total_max_attempts": 2, "mode": "standard"})
    return create_client("kms", endpoint_url, config)


class KmsSigner(Es256Signer):
    """A key of AWS KMS: ECC_NIST_P256, usage SIGN_VERIFY. Its public half is asked for once."""

    def __init__(self, client: Any, key_id: str) -> None:
        self._client = client
        self._key_id = key_id

    def sign(self, data: bytes) -> bytes:
        signed = self._call(
            "sign", Message=sha256(data).digest(), MessageType="DIGEST", SigningAlgorithm="ECDSA_SHA_256"
        )
        return _raw(signed["Signature"])

    def _public_key(self) -> "EllipticCurvePublicKey":
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
        from cryptography.hazmat.primitives.serialization import load_der_public_key

        key = load_der_public_key(self._call("get_public_key")["PublicKey"])
        if not isinstance(key, EllipticCurvePublicKey):
            raise TypeError("the signing key is not one of an elliptic curve")
        return key

    def _call(self, operation: str, **parameters: Any) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = getattr(self._client, operation)(KeyId=self._key_id, **parameters)
        except (BotoCoreError, ClientError, ResponseParserError) as error:
            _log.exception("KMS did not %s", operation)
            raise Unavailable(retry_after=1) from error
        return answer


def _raw(der: bytes) -> bytes:
    """The form of JWS (RFC 7518, section 3.4)."""
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

    return b"".join(number.to_bytes(COORDINATE_BYTES, "big") for number in decode_dss_signature(der))


def _base64url(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
