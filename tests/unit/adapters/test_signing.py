"""The two signers: whatever keeps the key, the signature and the public key are those of JWS."""

import os
import stat
from base64 import urlsafe_b64decode
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import jwt
import pytest
import rfc8785
from botocore.exceptions import ClientError, ConnectTimeoutError
from botocore.stub import Stubber
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed, encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from interlock.a2a.errors import Unavailable
from interlock.a2a.signing import Signer
from interlock.adapters.signing import FileSigner, KmsSigner, create_signing_key, kms_client

DATA = b"header.payload"
PrivateKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
OTHER_KEYS: list[Callable[[], PrivateKey]] = [
    lambda: ec.generate_private_key(ec.SECP384R1()),
    lambda: ec.generate_private_key(ec.SECP256K1()),
    ed25519.Ed25519PrivateKey.generate,
]


class Kms:
    """The two calls of AWS KMS that are used, for one key: what is to be signed is a digest already."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())

    def get_public_key(self, KeyId: str) -> dict[str, bytes]:  # noqa: N803
        return public_der(self.key)

    def sign(self, KeyId: str, Message: bytes, MessageType: str, SigningAlgorithm: str) -> dict[str, bytes]:  # noqa: N803
        assert (MessageType, SigningAlgorithm) == ("DIGEST", "ECDSA_SHA_256")
        return {"Signature": self.key.sign(Message, ec.ECDSA(Prehashed(SHA256())))}


def public_der(key: PrivateKey) -> dict[str, bytes]:
    return {"PublicKey": key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)}


@pytest.fixture(params=["file", "kms"])
def signer(request: pytest.FixtureRequest, tmp_path: Path) -> Signer:
    if request.param == "kms":
        return KmsSigner(Kms(), "key")
    create_signing_key(tmp_path / "key.pem")
    return FileSigner(tmp_path / "key.pem")


def test_a_signature_is_verified_with_the_public_jwk(signer: Signer) -> None:
    key = jwt.PyJWK({**signer.public_jwk})
    assert (key.algorithm_name, key.key_id) == (signer.alg, signer.kid) == ("ES256", signer.kid)
    for number in range(8):
        data = DATA + bytes([number])
        signature = signer.sign(data)
        assert len(signature) == 64
        assert key.Algorithm.verify(data, key.key, signature)
        assert not key.Algorithm.verify(data + b"x", key.key, signature)


def test_the_public_jwk_holds_nothing_private(signer: Signer) -> None:
    assert set(signer.public_jwk) == {"kty", "crv", "x", "y", "kid", "alg", "use"}
    assert signer.public_jwk == {**signer.public_jwk, "kty": "EC", "crv": "P-256", "use": "sig"}


def test_the_key_id_is_the_thumbprint_of_rfc_7638(signer: Signer) -> None:
    members = {name: signer.public_jwk[name] for name in ("y", "x", "kty", "crv")}
    thumbprint = sha256(rfc8785.dumps(members)).digest()
    assert urlsafe_b64decode(signer.kid + "=") == thumbprint


# A file


def test_a_new_key_is_for_its_owner_alone_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    before = os.umask(0)
    try:
        create_signing_key(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    first = path.read_bytes()
    create_signing_key(path)
    assert path.read_bytes() == first


def test_two_new_keys_differ(tmp_path: Path) -> None:
    for name in ("a", "b"):
        create_signing_key(tmp_path / name)
    assert FileSigner(tmp_path / "a").kid != FileSigner(tmp_path / "b").kid


def test_a_file_is_not_read_before_it_is_needed(tmp_path: Path) -> None:
    signer = FileSigner(tmp_path / "absent")
    with pytest.raises(FileNotFoundError):
        signer.sign(DATA)


def test_a_signature_of_a_file_is_that_of_its_key(tmp_path: Path) -> None:
    create_signing_key(tmp_path / "key.pem")
    private = load_pem_private_key((tmp_path / "key.pem").read_bytes(), password=None)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    algorithm = jwt.PyJWK({**FileSigner(tmp_path / "key.pem").public_jwk}).Algorithm
    assert algorithm.verify(DATA, private.public_key(), FileSigner(tmp_path / "key.pem").sign(DATA))


@pytest.mark.parametrize("generate", OTHER_KEYS)
def test_a_key_of_another_kind_is_refused(generate: Callable[[], PrivateKey], tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with pytest.raises((ValueError, TypeError), match="the signing key is not"):
        _ = FileSigner(path).kid


# KMS


class Answers:
    """Stands for a client: answers with what is given, or raises it."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.calls: list[dict[str, Any]] = []

    def get_public_key(self, **parameters: Any) -> Any:
        return self._answer(parameters)

    def sign(self, **parameters: Any) -> Any:
        return self._answer(parameters)

    def _answer(self, parameters: dict[str, Any]) -> Any:
        self.calls.append(parameters)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


THROTTLED = ClientError({"Error": {"Code": "ThrottlingException", "Message": "secret"}}, "Sign")
TIMED_OUT = ConnectTimeoutError(endpoint_url="https://kms.example")


@pytest.mark.parametrize("error", [THROTTLED, TIMED_OUT])
def test_a_kms_that_does_not_answer_is_unavailable_and_asked_again(error: Exception) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    client = Answers(error, public_der(key), error)
    signer = KmsSigner(client, "key")
    with pytest.raises(Unavailable) as refused:
        _ = signer.kid
    assert refused.value.retry_after == 1
    assert "secret" not in str(refused.value)
    assert signer.kid == signer.public_jwk["kid"]
    with pytest.raises(Unavailable):
        signer.sign(DATA)


def test_the_public_key_is_asked_for_once() -> None:
    client = Answers(public_der(ec.generate_private_key(ec.SECP256R1())))
    signer = KmsSigner(client, "arn:aws:kms:eu-central-1:123456789012:key/1")
    assert {signer.kid for _ in range(3)} == {signer.public_jwk["kid"]}
    assert client.calls == [{"KeyId": "arn:aws:kms:eu-central-1:123456789012:key/1"}]


@pytest.mark.parametrize("generate", OTHER_KEYS)
def test_a_kms_key_of_another_kind_is_refused(generate: Callable[[], PrivateKey]) -> None:
    with pytest.raises((ValueError, TypeError), match="the signing key is not"):
        _ = KmsSigner(Answers(public_der(generate())), "key").kid


def test_kms_knows_what_it_is_asked() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    client = kms_client("http://127.0.0.1:1")
    digest = sha256(DATA).digest()
    parameters = {"Message": digest, "MessageType": "DIGEST", "SigningAlgorithm": "ECDSA_SHA_256"}
    with Stubber(client) as stubber:
        stubber.add_response("get_public_key", public_der(key), {"KeyId": "alias/card"})
        signature = {"Signature": key.sign(DATA, ec.ECDSA(SHA256()))}
        stubber.add_response("sign", signature, {"KeyId": "alias/card", **parameters})
        signer = KmsSigner(client, "alias/card")
        public = jwt.PyJWK({**signer.public_jwk})
        assert public.Algorithm.verify(DATA, public.key, signer.sign(DATA))


def test_small_numbers_are_padded() -> None:
    der = encode_dss_signature(1, 2**255)
    signed = KmsSigner(Answers({"Signature": der}), "key").sign(DATA)
    assert signed == (1).to_bytes(32, "big") + (2**255).to_bytes(32, "big")
