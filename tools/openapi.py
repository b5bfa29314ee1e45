"""Describes the people's door: `python -m tools.openapi` writes docs/openapi/people.json."""

import json
from pathlib import Path
from typing import NoReturn, cast

from interlock.a2a.errors import Unauthenticated
from interlock.doors.people import create_app
from interlock.engine.context import Engine

PEOPLE = Path(__file__).parents[1] / "docs" / "openapi" / "people.json"


def people() -> str:
    """The description as the door itself serves it. Nothing of the door is called, so it needs no engine."""
    app = create_app(cast(Engine, None), _nobody)
    return json.dumps(app.openapi(), indent=2, ensure_ascii=False) + "\n"


def _nobody(authorization: str | None) -> NoReturn:  # noqa: ARG001
    raise Unauthenticated


if __name__ == "__main__":
    PEOPLE.parent.mkdir(exist_ok=True)
    PEOPLE.write_text(people())
