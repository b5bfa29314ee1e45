"""Schemas and payloads of a hostile agent, through everything that stands before them.

They come as text, for some can not even be parsed by every parser; what does not parse is refused.
"""

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from interlock.a2a import strict_json
from interlock.a2a.errors import A2AError
from interlock.adapters.schema_worker import SchemaWorker
from interlock.oversight.schema_gate import PayloadUndecided, SchemaRefused, Violation

DATA = Path(__file__).parents[1] / "data" / "schema_attacks.jsonl"
CASES = [json.loads(line) for line in DATA.read_text().splitlines()]
PWNED = Path("/var/empty/attack/pwned")
"""What the payloads that inject code would create."""


@pytest.fixture(scope="module")
def patient() -> Iterator[SchemaWorker]:
    """The verdicts must be right on a busy machine too."""
    guard = SchemaWorker(deadline=10)
    yield guard
    guard.close()


class Refused(Exception):
    """When the prompt is emitted."""


class Undecided(Exception):
    """When it is answered."""


def judge(guard: SchemaWorker, case: dict[str, str]) -> list[Violation]:
    try:
        schema: Any = strict_json.loads(case["schema_json"].encode())
        guard.check(schema)
    except (A2AError, SchemaRefused) as error:
        raise Refused(str(error)) from error
    try:
        return guard.validate(schema, strict_json.loads(case["payload_json"].encode()))
    except (A2AError, PayloadUndecided) as error:
        raise Undecided(str(error)) from error


def bounded(violations: list[Violation]) -> bool:
    return len(violations) <= 100 and all(
        len(violation.path) <= 256 and len(violation.message) <= 200 for violation in violations
    )


def test_every_kind_of_attack_is_there() -> None:
    assert len(CASES) == 35
    assert {case["expect"] for case in CASES} == set(EXPECTATIONS)


def accepted(guard: SchemaWorker, case: dict[str, str]) -> None:
    assert judge(guard, case) == []


def rejected(guard: SchemaWorker, case: dict[str, str]) -> None:
    violations = judge(guard, case)
    assert violations
    assert bounded(violations)


def refused(guard: SchemaWorker, case: dict[str, str]) -> None:
    with pytest.raises(Refused) as refusal:
        judge(guard, case)
    assert 0 < len(str(refusal.value)) < 500


def either(guard: SchemaWorker, case: dict[str, str]) -> None:
    with suppress(Refused, Undecided):
        assert bounded(judge(guard, case))


EXPECTATIONS = {
    "accepted": accepted,
    "rejected, violations listed (bounded)": rejected,
    "the prompt is refused when it is emitted": refused,
    "decided or refused within 250 ms, memory bounded": either,
}


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_attacks_end_as_they_should(patient: SchemaWorker, case: dict[str, str]) -> None:
    EXPECTATIONS[case["expect"]](patient, case)
    assert not PWNED.exists()


def test_no_attack_takes_long_and_none_spoils_what_follows() -> None:
    guard = SchemaWorker()
    guard.check({"type": "object"})
    for case in CASES:
        started = time.monotonic()
        either(guard, case)
        # 250 ms each for the check and the validation, and room for a busy machine.
        assert time.monotonic() - started < 2, case["name"]
    guard.check({"type": "object"})
    guard.close()
