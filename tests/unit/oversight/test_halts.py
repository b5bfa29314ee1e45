"""What a scope covers, how it is written, and who may halt it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.oversight.halts import ALL, MAX_REASON, Scope, check_reason, may_halt, scopes_of
from interlock.oversight.principals import Kind, Principal, Role

TENANTS = st.from_regex(r"[a-z0-9](?:[a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
NAMES = st.from_regex(r"[a-z0-9](?:[a-z0-9_-]{0,8}[a-z0-9])?", fullmatch=True)
SCOPES = st.one_of(
    st.just(Scope()),
    st.builds(Scope, TENANTS),
    st.builds(lambda tenant, agent: Scope(tenant, agent=agent), TENANTS, NAMES),
    st.builds(lambda tenant, skill: Scope(tenant, skill=skill), TENANTS, NAMES),
)


def who(*roles: Role, kind: Kind = Kind.PERSON, tenant: str = "acme") -> Principal:
    return Principal("bearer:someone", tenant, kind, frozenset(roles))


@given(SCOPES)
def test_what_is_written_is_read_as_the_same(scope: Scope) -> None:
    assert Scope.parse(str(scope), "somebody-else") == scope


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        ("all", Scope()),
        ("tenant:acme", Scope("acme")),
        ("agent:desk", Scope("own", agent="desk")),
        ("skill:release", Scope("own", skill="release")),
        ("agent:acme/desk", Scope("acme", agent="desk")),
        ("skill:acme/release", Scope("acme", skill="release")),
    ],
)
def test_an_agent_or_a_skill_without_a_tenant_is_of_the_callers(text: str, scope: Scope) -> None:
    assert Scope.parse(text, "own") == scope


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ALL",
        "all:",
        "all:acme",
        "tenant",
        "tenant:",
        "tenant:ACME",
        "tenant:a/b",
        "tenant:a#b",
        "agent:",
        "agent:acme/",
        "agent:/desk",
        "agent:a/b/c",
        "agent:acme/de#sk",
        "agent:acme/desk\n",
        "skill:acme/é",
        "skill:acme/" + "s" * 129,
        "task:acme/1",
    ],
)
def test_anything_else_is_no_scope(text: str) -> None:
    with pytest.raises(ValueError, match="a scope is"):
        Scope.parse(text, "own")


def test_without_a_tenant_of_ones_own_it_has_to_be_named() -> None:
    with pytest.raises(ValueError, match="a scope is"):
        Scope.parse("agent:desk", "")
    assert Scope.parse("agent:acme/desk", "") == Scope("acme", agent="desk")


@given(SCOPES, TENANTS, NAMES, NAMES)
def test_a_task_is_covered_by_everything_its_tenant_its_agent_and_its_skill(
    scope: Scope, tenant: str, agent: str, skill: str
) -> None:
    expected = (
        scope.tenant in {None, tenant} and scope.agent in {None, agent} and scope.skill in {None, skill}
    )
    assert scope.covers(tenant, agent, skill) is expected


def test_the_widest_reason_is_told_first() -> None:
    written = [str(scope) for scope in scopes_of("acme", "desk", "release")]
    assert written == [ALL, "tenant:acme", "agent:acme/desk", "skill:acme/release"]


OWN = [Scope("acme"), Scope("acme", agent="desk"), Scope("acme", skill="release")]
OTHERS = [Scope("other"), Scope("other", agent="desk"), Scope("other", skill="release")]


@pytest.mark.parametrize("scope", [Scope(), *OWN, *OTHERS], ids=str)
def test_who_may_halt_what(scope: Scope) -> None:
    assert may_halt(who(Role.PLATFORM_OPERATOR), scope)
    assert may_halt(who(Role.OPERATOR), scope) is (scope in OWN)
    assert not may_halt(who(Role.CALLER, Role.APPROVER), scope)
    assert not may_halt(who(), scope)
    assert not may_halt(who(*Role, kind=Kind.SERVICE), scope)


@pytest.mark.parametrize("reason", ["x", "r" * MAX_REASON, "Preise sind falsch, bitte warten"])
def test_a_reason_is_one_line(reason: str) -> None:
    check_reason(reason)


@pytest.mark.parametrize("reason", ["", " ", "r" * (MAX_REASON + 1), "a\nb", "a\tb", "\x1b[2J", "\u202ex"])
def test_anything_else_is_no_reason(reason: str) -> None:
    with pytest.raises(ValueError, match="a reason is one line"):
        check_reason(reason)
