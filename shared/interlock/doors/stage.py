"""Where an app stands below a REST API of API Gateway."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote


def root_path(request_context: Mapping[str, Any], path: str) -> str:
    """What the caller's path has before the app's: the stage, or nothing under a domain of one's own."""
    stage = f"/{request_context['stage']}"
    called = unquote(request_context["path"]).rstrip("/")
    return stage if called == f"{stage}{path}".rstrip("/") else ""
