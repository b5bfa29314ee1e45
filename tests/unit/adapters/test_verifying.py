"""Whose signature it is: the key decides under which algorithm, not the header."""

import json
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tests.support.signers import new_signer

from interlock.adapters.signing import FileSigner
from interlock.adapters.verifying import signed_by, trusted_keys

BODY = b'{"a":1}'


def encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def header(**members: Any) -> str:
    return encoded(json.dumps(members).encode())


@pytest.fixture
def signer(tmp_path: Path) -> FileSigner:
    return new_signer(tmp_path)


@pytest.fixture
def keys(signer: FileSigner, tmp_path: Path) -> Path:
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps({"keys": [signer.public_jwk]}))
    return path


def test_of_the_key_over_exactly_this_body(signer: FileSigner, keys: Path) -> None:
    protected = header(alg="ES256", kid=signer.kid)
    signature = encoded(signer.sign(f"{protected}.{encoded(BODY)}".encode()))
    verify = signed_by(trusted_keys(keys))
    assert verify(protected, BODY, signature)
    assert not verify(protected, BODY + b" ", signature)
    assert not verify(header(alg="ES256", kid="other"), BODY, signature)
    assert not verify(protected, BODY, signature[:-4])


def test_a_header_can_not_choose_the_algorithm(signer: FileSigner, keys: Path) -> None:
    verify = signed_by(trusted_keys(keys))
    assert not verify(header(alg="none"), BODY, "")
    secret = json.dumps(signer.public_jwk).encode()
    protected = header(alg="HS256")
    algorithm = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    forged = encoded(algorithm.sign(f"{protected}.{encoded(BODY)}".encode(), secret))
    assert not verify(protected, BODY, forged)


@pytest.mark.parametrize("text", ["", "nonsense", "ä", "a.b", "a" * 10_000])
def test_what_is_no_signature_is_none(keys: Path, text: str) -> None:
    verify = signed_by(trusted_keys(keys))
    assert not verify(text, BODY, text)
    assert not verify(header(alg="ES256"), BODY, text)


def test_a_key_of_ed25519_will_do(tmp_path: Path) -> None:
    private = Ed25519PrivateKey.generate()
    path = tmp_path / "key.pem"
    path.write_bytes(private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    protected = header(alg="EdDSA")
    signature = encoded(private.sign(f"{protected}.{encoded(BODY)}".encode()))
    assert signed_by(trusted_keys(path))(protected, BODY, signature)
