"""Approvals: the wire, the digest that binds them, the gate, and the count."""

import json
import random
from dataclasses import replace
from typing import Any

import pytest
import rfc8785
from a2a.utils import _jcs  # the SDK has it for signatures alone, and exports it nowhere

from interlock.oversight.approvals import (
    APPROVE,
    DENY,
    KEY,
    MAX_ACTION,
    MAX_COMMENT,
    MAX_REQUEST_ID,
    Asked,
    Decision,
    Gate,
    MalformedDecision,
    Request,
    Vote,
    approved_by,
    digest_of,
    is_digest,
    parse_decision,
    requesters,
)
from interlock.oversight.canonical_json import canonical, digest

ACTION = {"tool": "refund", "order": 1182, "amount": "40.00"}
DIGEST = "sha256:9dfdaf0fdc48912f539a8dcef195052a1959f82f4880c2ec3d0730fa96ad538c"
SAID = {"requestId": "r-1", "decision": "approve", "digest": DIGEST}


# The digest.


def test_the_digest_of_the_action_that_is_known() -> None:
    assert digest(ACTION) == DIGEST
    assert digest(dict(reversed(ACTION.items()))) == DIGEST
    assert is_digest(DIGEST)


@pytest.mark.parametrize(
    "other",
    [
        {**ACTION, "order": "1182"},
        {**ACTION, "amount": "40.0"},
        {**ACTION, "amount": 40},
        {**ACTION, "to": None},
        {"tool": "refund", "order": 1182},
        {**ACTION, "order": 1182, "amount": "40.00 "},
    ],
)
def test_another_action_has_another_digest(other: dict[str, Any]) -> None:
    assert digest(other) != DIGEST


def test_an_action_is_bounded() -> None:
    largest = {"why": "x" * (MAX_ACTION - len('{"why":""}'))}
    assert digest_of(largest) == digest(largest)
    for other in ({"why": largest["why"] + "x"}, {"why": float("nan")}):
        with pytest.raises(ValueError, match=r"action|canonical"):
            digest_of(other)


@pytest.mark.parametrize("value", [DIGEST.upper(), DIGEST[:-1], DIGEST + "0", DIGEST[7:], "", None, 7])
def test_what_is_no_digest(value: Any) -> None:
    assert not is_digest(value)


ALPHABET = 'abcXYZ019 _-."\\/\b\f\n\r\t\x00\x1f\x7f\u00e4\u20ac\u2028\ufb33\uffff\U0001f600\U0010ffff'


def document(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.randrange(9 if depth < 5 else 6)
    if kind < 2:
        return "".join(chance.choices(ALPHABET, k=chance.randrange(12)))
    if kind == 2:
        return chance.randint(-(2**53) + 1, 2**53 - 1)
    if kind == 3:
        return chance.uniform(-1, 1) * 10.0 ** chance.randint(-320, 300)
    if kind < 6:
        return chance.choice([True, False, None, 0, -0.0, 1e21, 1e-7, 5e-324, 100, ""])
    if kind == 6:
        return [document(chance, depth + 1) for _ in range(chance.randrange(5))]
    return {
        "".join(chance.choices(ALPHABET, k=chance.randrange(6))): document(chance, depth + 1)
        for _ in range(chance.randrange(6))
    }


def test_the_canonical_form_of_ten_thousand_documents_is_that_of_others() -> None:
    chance = random.Random(8785)
    kinds: set[type] = set()
    for _ in range(10_000):
        value = {"action": document(chance)}
        kinds.add(type(value["action"]))
        ours = canonical(value)
        assert ours == rfc8785.dumps(value)
        assert ours == _jcs.canonicalize(value).encode()
    assert kinds == {str, int, float, bool, type(None), list, dict}


# The wire.


def test_a_request_on_the_wire() -> None:
    request = Request("r-1", "Refund", DIGEST)
    assert request.to_wire() == {"requestId": "r-1", "summary": "Refund", "digest": DIGEST}
    assert replace(request, requested_by="bearer:agent").to_wire() == {
        "requestId": "r-1",
        "summary": "Refund",
        "digest": DIGEST,
        "requestedBy": "bearer:agent",
    }


@pytest.mark.parametrize(
    ("wire", "read"),
    [
        (SAID, Decision("r-1", APPROVE, DIGEST)),
        ({**SAID, "decision": "deny", "comment": "no"}, Decision("r-1", DENY, DIGEST, "no")),
        ({**SAID, "comment": None}, Decision("r-1", APPROVE, DIGEST)),
        ({**SAID, "by": "bearer:bob", "requestedBy": "x", "x": [1]}, Decision("r-1", APPROVE, DIGEST)),
        ({**SAID, "comment": "c" * MAX_COMMENT}, Decision("r-1", APPROVE, DIGEST, "c" * MAX_COMMENT)),
    ],
)
def test_a_decision_is_read_and_unknown_members_are_ignored(wire: Any, read: Decision) -> None:
    assert parse_decision({KEY: wire, "other": 1}) == read


def test_a_decision_is_written_as_it_is_read() -> None:
    for decision in (Decision("r-1", APPROVE, DIGEST), Decision("r-1", DENY, DIGEST, "no")):
        assert parse_decision({KEY: decision.to_wire()}) == decision
    assert Decision("r-1", APPROVE, DIGEST).to_wire() == SAID


@pytest.mark.parametrize("metadata", [None, {}, {"approval": SAID}])
def test_without_the_key_there_is_no_decision(metadata: Any) -> None:
    assert parse_decision(metadata) is None


OTHER_WORDS: list[Any] = ["Approve", "APPROVE", "approved", "reject", "changes", True, []]
MALFORMED: list[Any] = [
    None,
    "approve",
    [],
    {},
    *({name: value for name, value in SAID.items() if name != missing} for missing in SAID),
    *({**SAID, name: None} for name in SAID),
    *({**SAID, name: 7} for name in SAID),
    *({**SAID, name: ""} for name in SAID),
    *({**SAID, "decision": word} for word in OTHER_WORDS),
    {**SAID, "requestId": "r" * (MAX_REQUEST_ID + 1)},
    {**SAID, "comment": 7},
    {**SAID, "comment": "c" * (MAX_COMMENT + 1)},
]


@pytest.mark.parametrize("wire", MALFORMED, ids=lambda wire: json.dumps(wire)[:60])
def test_a_malformed_decision_is_an_error_and_never_an_absence(wire: Any) -> None:
    with pytest.raises(MalformedDecision) as refused:
        parse_decision({KEY: wire})
    assert len(str(refused.value)) < 200


# The gate.


@pytest.mark.parametrize(
    ("approvers", "quorum"),
    [(None, 0), (None, -1), (None, True), (frozenset({"a"}), 2), (frozenset(), 1)],
)
def test_a_gate_that_nobody_could_pass_is_refused(approvers: frozenset[str] | None, quorum: int) -> None:
    with pytest.raises(ValueError, match="quorum"):
        Gate(approvers, quorum)


def test_isolated_tasks_need_self_approval_and_have_no_quorum() -> None:
    for gate in (Gate(), Gate(frozenset({"a"})), Gate(quorum=2), Gate(quorum=2, self_approval=True)):
        gate.check(isolated=False)
        with pytest.raises(ValueError, match="isolated"):
            gate.check(isolated=True)
    Gate(self_approval=True).check(isolated=True)


def test_of_two_quorums_the_larger_counts() -> None:
    assert Gate(quorum=2).at_least(1).quorum == 2
    assert Gate(quorum=2).at_least(3).quorum == 3
    with pytest.raises(ValueError, match="2 of 1"):
        Gate(frozenset({"a"})).at_least(2)
    for none in (0, -1, "2", 1.5, True):
        with pytest.raises(ValueError, match="at least 1"):
            Gate().at_least(none)  # type: ignore[arg-type]


NAMED = frozenset({"bearer:ann", "bearer:agent"})
OWN = frozenset({"bearer:agent"})


@pytest.mark.parametrize(
    ("gate", "identity", "is_person", "is_approver", "may"),
    [
        (Gate(), "bearer:ann", True, True, True),
        (Gate(), "bearer:ann", True, False, False),
        (Gate(), "bearer:ann", False, True, False),
        (Gate(), "bearer:agent", True, True, False),
        (Gate(NAMED), "bearer:ann", True, False, True),
        (Gate(NAMED), "bearer:ann", False, False, False),
        (Gate(NAMED), "bearer:ben", True, True, False),
        (Gate(NAMED), "bearer:agent", True, True, False),
        (Gate(NAMED, self_approval=True), "bearer:agent", True, False, True),
        (Gate(NAMED, self_approval=True), "bearer:agent", False, True, False),
        (Gate(frozenset({"bearer:ann"}), self_approval=True), "bearer:agent", True, True, False),
        (Gate(self_approval=True), "bearer:agent", True, False, True),
        (Gate(self_approval=True), "bearer:ben", True, False, False),
    ],
)
def test_who_may_decide(gate: Gate, identity: str, is_person: bool, is_approver: bool, may: bool) -> None:
    assert gate.may_decide(identity, is_person=is_person, is_approver=is_approver, requesters=OWN) is may


# Who asked, and the count.


def test_who_asked_is_the_creator_the_last_author_and_who_edited() -> None:
    assert requesters("a", None) == {"a"}
    assert requesters("a", "a") == {"a"}
    assert requesters("a", "b", ["c", "d"]) == {"a", "b", "c", "d"}


def test_what_is_asked_is_kept_whole() -> None:
    asked = Asked(ACTION, "Refund", DIGEST, Gate(NAMED, 2, True), OWN)
    assert Asked.from_json(asked.to_json()) == asked
    anybody = replace(asked, gate=Gate())
    assert Asked.from_json(anybody.to_json()) == anybody


def test_only_approvals_of_exactly_this_count() -> None:
    votes = {
        "b": Vote(APPROVE, DIGEST),
        "a": Vote(APPROVE, DIGEST),
        "c": Vote(DENY, DIGEST),
        "d": Vote(APPROVE, "sha256:" + "0" * 64),
        "e": Vote("changes", DIGEST),
    }
    assert approved_by(votes, DIGEST) == ["a", "b"]
