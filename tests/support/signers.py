"""Keys for tests that sign, and what only knows their public halves."""

from pathlib import Path

from interlock.adapters.signing import FileSigner, create_signing_key


def new_signer(folder: Path, name: str = "key.pem") -> FileSigner:
    create_signing_key(folder / name)
    return FileSigner(folder / name)
