"""Whether a JWS (RFC 7515) is a trusted key's: with nothing but its public half, in PEM or as a JWK set."""

import json
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from jwt import PyJWK, PyJWKSet
from jwt.algorithms import ECAlgorithm, OKPAlgorithm

from interlock.oversight.audit import VerifySignature

ALGORITHMS = ("ES256", "EdDSA")


def trusted_keys(path: Path) -> list[PyJWK]:
    """The public keys of a PEM file, a JWK or a JWK set. Raises `ValueError` if there are none that sign."""
    text = path.read_bytes()
    try:
        found = _from_pem(text) if b"-----BEGIN" in text else _from_json(text)
    except (ValueError, TypeError, jwt.PyJWTError) as error:
        raise ValueError(f"{path.name} holds no public key of ES256 or EdDSA") from error
    keys = [key for key in found if key.algorithm_name in ALGORITHMS]
    if not keys:
        raise ValueError(f"{path.name} holds no public key of ES256 or EdDSA")
    return keys


def _from_pem(text: bytes) -> list[PyJWK]:
    key: Any = load_pem_public_key(text)
    algorithm = ECAlgorithm if hasattr(key, "curve") else OKPAlgorithm
    return [PyJWK.from_dict(algorithm.to_jwk(key, as_dict=True))]


def _from_json(text: bytes) -> list[PyJWK]:
    document = json.loads(text)
    if not isinstance(document, dict):
        raise TypeError("not a JWK set")
    return PyJWKSet.from_dict(document).keys if "keys" in document else [PyJWK.from_dict(document)]


def signed_by(keys: list[PyJWK]) -> VerifySignature:
    """Each key is tried under its own algorithm, whatever the header says of either."""

    def verify(protected: str, payload: bytes, signature: str) -> bool:
        token = ".".join((protected, jwt.utils.base64url_encode(payload).decode(), signature))
        for key in keys:
            try:
                signed = jwt.PyJWS().decode_complete(token, key, algorithms=[key.algorithm_name])
            except (jwt.PyJWTError, ValueError):
                continue
            if signed["payload"] == payload:
                return True
        return False

    return verify
