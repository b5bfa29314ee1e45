"""The digest of all that is deployed, as the template's parameter `CodeDigest`."""

from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEPLOYED = ("template.yaml", "samconfig.toml", "functions", "layers", "shared")
"""A parameter that is changed in samconfig.toml changes what a function's version is published with."""
_NOT_DEPLOYED = {"__pycache__", ".mypy_cache", ".ruff_cache"}


def code_digest(root: Path = ROOT) -> str:
    """32 hexadecimal digits over the names and the contents of all files that a deployment is made of."""
    digest = sha256()
    for path in sorted(_files(root)):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:32]


def _files(root: Path) -> list[Path]:
    return [
        path
        for name in DEPLOYED
        for path in ((root / name).rglob("*") if (root / name).is_dir() else [root / name])
        if path.is_file() and _NOT_DEPLOYED.isdisjoint(path.relative_to(root).parts)
    ]
