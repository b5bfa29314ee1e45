"""The change feed: what raises a topic, who is told of it, and of nobody else's."""

import pytest
from tests.support.twin import ANN, NOBODY, OPS, PLATFORM, SPY, Deployment, asking

from interlock.a2a.errors import InvalidParams, PermissionDenied
from interlock.engine.changes import Seen, look
from interlock.engine.pulse import Beat, Topic, beats_of, raise_beat
from interlock.engine.records import Checkpoint, Halt, Registered
from interlock.oversight.principals import Kind, Principal, Role

SERVICE = Principal("bearer:bot", "acme", Kind.SERVICE, frozenset({Role.APPROVER}))
ROOT = Principal("bearer:root", "other", Kind.PERSON, frozenset({Role.PLATFORM_OPERATOR}))


def told(pk: str, sk: str, who: Principal) -> list[Topic]:
    """What the reader is told has changed once what has the key did."""
    engine = Deployment(asking()).engine
    before = look(engine, who)
    for beat in beats_of(pk, sk):
        raise_beat(engine.table, beat)
    after = Seen.parse(look(engine, who).token)
    assert look(engine, who).changed_since(after) == []
    return after.changed_since(before)


ASK = Checkpoint.key_of("acme", "t-1", "a-1")
AGENT = Registered.key_of("acme", "far")
ALL, OWN, SKILL = (Halt.key_of(0, scope) for scope in ("all", "tenant:acme", "skill:acme/work"))


@pytest.mark.parametrize(
    ("who", "checkpoint", "agent", "everything", "tenant"),
    [
        (ANN, True, True, True, True),
        (OPS, True, True, True, True),
        (SERVICE, True, True, False, False),
        (PLATFORM, False, True, True, True),
        (SPY, False, False, True, True),
        (ROOT, False, False, True, True),
        (
            Principal("bearer:ann", "other", Kind.PERSON, frozenset({Role.APPROVER})),
            False,
            False,
            True,
            False,
        ),
    ],
    ids=["approver", "operator", "service", "platform", "spy", "platform elsewhere", "elsewhere"],
)
def test_each_is_told_of_what_they_may_see(
    who: Principal, checkpoint: bool, agent: bool, everything: bool, tenant: bool
) -> None:
    assert told(ASK.pk, ASK.sk, who) == [Topic.CHECKPOINTS] * checkpoint
    assert told(AGENT.pk, AGENT.sk, who) == [Topic.FLEET] * agent
    assert told(ALL.pk, ALL.sk, who) == [Topic.HALTS] * everything
    for scope in (OWN, SKILL):
        assert told(scope.pk, scope.sk, who) == [Topic.HALTS] * tenant


def test_who_sees_none_of_it_is_told_nothing() -> None:
    with pytest.raises(PermissionDenied):
        look(Deployment(asking()).engine, NOBODY)


def test_what_is_raised_twice_changes_twice() -> None:
    engine = Deployment(asking()).engine
    tokens = [look(engine, ANN).token]
    for _ in range(3):
        raise_beat(engine.table, Beat("acme", Topic.FLEET))
        tokens.append(look(engine, ANN).token)
    assert len(set(tokens)) == 4
    assert Seen.parse(tokens[3]).changed_since(Seen.parse(tokens[1])) == [Topic.FLEET]


@pytest.mark.parametrize("token", ["", "x", "..g", "..", "...", "a.b", f"{'a' * 129}..", "..\n", "A.."])
def test_a_token_that_is_none_is_refused(token: str) -> None:
    if token == "..":
        assert Seen.parse(token).token == token
        return
    with pytest.raises(InvalidParams):
        Seen.parse(token)
