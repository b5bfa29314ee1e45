"""Secrets at rest: sealed with a key of AWS KMS, or on a laptop with one in a file.

What is sealed begins with a byte that says how, so that a later way can be told from these.
"""

import os
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from interlock.engine.push import SealFailed

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
NONCE_BYTES = 12
"""NIST SP 800-38D, section 8.2.2: a random nonce of 96 bits."""

_AES_256_GCM = b"\x01"
_KMS = b"\x02"


class FileSealer:
    """Implements `Sealer`: AES-256-GCM with the key in a file, which is read when it is first used."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def seal(self, secret: bytes, context: str) -> bytes:
        nonce = os.urandom(NONCE_BYTES)
        return _AES_256_GCM + nonce + self._cipher.encrypt(nonce, secret, context.encode())

    def unseal(self, sealed: bytes, context: str) -> bytes:
        from cryptography.exceptions import InvalidTag

        body = _body(sealed, _AES_256_GCM)
        try:
            return self._cipher.decrypt(body[:NONCE_BYTES], body[NONCE_BYTES:], context.encode())
        except (InvalidTag, ValueError) as error:
            raise SealFailed("the seal is broken") from error

    @cached_property
    def _cipher(self) -> "AESGCM":
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        key = self._path.read_bytes()
        if len(key) != KEY_BYTES:
            raise ValueError(f"the seal key must have {KEY_BYTES} bytes")
        return AESGCM(key)


def create_seal_key(path: Path) -> None:
    """A new key that only its owner can read. A file that is there stays as it is."""
    if path.exists():
        return
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(os.urandom(KEY_BYTES))


class KmsSealer:
    """Implements `Sealer`: a symmetric key of AWS KMS, which never leaves it. At most 4,096 bytes a secret.

    The context is KMS's encryption context (AWS KMS Developer Guide), which its audit log shows. `new_client`
    makes the client when it is first used: most requests need none.
    """

    def __init__(self, new_client: Callable[[], Any], key_id: str) -> None:
        self._new_client = new_client
        self._key_id = key_id

    @cached_property
    def _client(self) -> Any:
        return self._new_client()

    def seal(self, secret: bytes, context: str) -> bytes:
        sealed: bytes = self._call("encrypt", context, Plaintext=secret)["CiphertextBlob"]
        return _KMS + sealed

    def unseal(self, sealed: bytes, context: str) -> bytes:
        secret: bytes = self._call("decrypt", context, CiphertextBlob=_body(sealed, _KMS))["Plaintext"]
        return secret

    def _call(self, operation: str, context: str, **parameters: Any) -> Any:
        call = getattr(self._client, operation)
        try:
            return call(KeyId=self._key_id, EncryptionContext={"context": context}, **parameters)
        except (BotoCoreError, ClientError, ResponseParserError) as error:
            raise SealFailed(f"KMS did not {operation}: {type(error).__name__}") from error


def _body(sealed: bytes, kind: bytes) -> bytes:
    if not sealed.startswith(kind):
        raise SealFailed("sealed with another kind of key")
    return sealed[len(kind) :]
