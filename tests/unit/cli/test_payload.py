"""`--set name=value` takes the types of the response schema."""

from typing import Any

import pytest

from interlock.cli.payload import fields, payload_of

SCHEMA: dict[str, Any] = {
    "type": "object",
    "$defs": {"level": {"type": "integer"}, "loop": {"$ref": "#/$defs/loop"}, "a/b~c": {"type": "boolean"}},
    "properties": {
        "approved": {"type": "boolean"},
        "comment": {"type": "string"},
        "amount": {"type": "number"},
        "count": {"type": "integer"},
        "tags": {"type": "array"},
        "note": {"type": ["string", "null"]},
        "size": {"type": ["string", "integer"]},
        "choice": {"enum": ["a", 2]},
        "level": {"$ref": "#/$defs/level"},
        "odd": {"$ref": "#/$defs/a~1b~0c"},
        "loop": {"$ref": "#/$defs/loop"},
        "lost": {"$ref": "#/$defs/nowhere"},
        "remote": {"$ref": "https://example.com/"},
        "all": True,
    },
    "required": ["approved", "count"],
}


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("approved=true", True),
        ("approved=FALSE", False),
        ("odd=true", True),
        ("comment=ok", "ok"),
        ("comment=", ""),
        ("comment=true", "true"),
        ("comment=a=b", "a=b"),
        ("amount=1.5", 1.5),
        ("amount=-3", -3),
        ("count=7", 7),
        ("level=7", 7),
        ('tags=["a", 1]', ["a", 1]),
        ("tags=a", "a"),
        ("note=null", None),
        ("note=7", "7"),
        ("note=x", "x"),
        ("size=7", 7),
        ("size=1.5", "1.5"),
        ("size=true", "true"),
        ("choice=2", 2),
        ("choice=a", "a"),
        ('choice={"b": 1}', {"b": 1}),
        ("loop=1", 1),
        ("lost=1", 1),
        ("remote=x", "x"),
        ("all=x", "x"),
        ("unheard-of=1", 1),
        ("unheard-of=NaN", "NaN"),
    ],
)
def test_a_value_gets_the_type_that_the_schema_asks_for(setting: str, value: object) -> None:
    (found,) = payload_of([setting], SCHEMA).values()
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "setting",
    [
        "approved",
        "=true",
        "",
        "approved=yes",
        "amount=much",
        "amount=true",
        "amount=NaN",
        "count=",
        "count=null",
    ],
)
def test_what_can_not_be_meant_is_refused(setting: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        payload_of([setting], SCHEMA)


def test_several_settings_make_one_payload() -> None:
    assert payload_of(["approved=true", "comment=ok"], SCHEMA) == {"approved": True, "comment": "ok"}
    with pytest.raises(ValueError, match="twice"):
        payload_of(["approved=true", "approved=false"], SCHEMA)


@pytest.mark.parametrize("schema", [{}, {"properties": []}, {"properties": {"a": 5}}])
def test_a_schema_that_says_little_is_no_obstacle(schema: dict[str, Any]) -> None:
    assert payload_of(["a=1"], schema) == {"a": 1}


def test_fields_say_what_is_asked_for() -> None:
    assert fields(SCHEMA)[:2] == ["approved*: boolean", "comment: string"]
    assert "note: string | null" in fields(SCHEMA)
    assert "choice: any" in fields(SCHEMA)
    assert fields({"type": "object"}) == []
