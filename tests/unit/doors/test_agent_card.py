"""The cards of an agent: what they say is what its door does."""

import pytest
from pydantic import ValidationError
from tests.support.a2a_wire import ask
from tests.support.twin import Deployment

from interlock.a2a.card import AgentCard
from interlock.agents import Agent, Turn
from interlock.doors.agents import agent_card, extended_card
from interlock.oversight import approvals, hitl_prompt, modes

CARD = "/.well-known/agent-card.json"


def desk() -> Agent:
    agent = Agent("desk", "Works")

    @agent.skill("work", "Works", tags=["work"], examples=["work hard"])
    async def work(turn: Turn) -> None:
        await turn.complete("worked")

    @agent.skill("audit", "Audits", listed=False)
    async def audit(turn: Turn) -> None:
        await turn.complete("audited")

    return agent


def schemes(card: AgentCard) -> dict[str, object]:
    return {name: scheme.wire() for name, scheme in (card.security_schemes or {}).items()}


BEARER = {"httpAuthSecurityScheme": {"scheme": "Bearer"}}


def test_tokens_of_the_deployment_are_always_accepted() -> None:
    card = agent_card(desk())
    assert schemes(card) == {"bearer": BEARER}
    assert card.wire()["securityRequirements"] == [{"schemes": {"bearer": {}}}]


@pytest.mark.parametrize("issuer", ["https://id.example/realm", "https://id.example/realm/"])
def test_tokens_of_an_issuer_are_an_alternative_where_one_is_set(issuer: str) -> None:
    card = agent_card(desk(), oidc_issuer=issuer)
    url = "https://id.example/realm/.well-known/openid-configuration"
    assert schemes(card) == {
        "bearer": BEARER,
        "oidc": {"openIdConnectSecurityScheme": {"openIdConnectUrl": url}},
    }
    assert card.wire()["securityRequirements"] == [{"schemes": {"bearer": {}}}, {"schemes": {"oidc": {}}}]


def test_where_no_credential_is_needed_the_card_asks_for_none() -> None:
    card = agent_card(desk(), anonymous=True)
    assert schemes(card) == {"bearer": BEARER}
    assert "securityRequirements" not in card.wire()


@pytest.mark.parametrize("streaming", [True, False])
def test_capabilities_are_those_of_the_door(streaming: bool) -> None:
    capabilities = agent_card(desk(), streaming=streaming).capabilities
    assert (capabilities.streaming, capabilities.extended_agent_card) == (streaming, True)
    assert [extension.uri for extension in capabilities.extensions or []] == [
        hitl_prompt.URI,
        approvals.URI,
        modes.URI,
    ]


def test_the_extended_card_has_the_skills_that_are_not_listed() -> None:
    agent = desk()
    public = agent_card(agent, streaming=True, oidc_issuer="https://id.example")
    extended = extended_card(agent, public)
    assert [skill.id for skill in public.skills] == ["work"]
    assert [skill.id for skill in extended.skills] == ["work", "audit"]
    assert extended.model_copy(update={"skills": public.skills}) == public


def test_an_agent_lists_at_least_one_skill() -> None:
    agent = Agent("desk", "Works")

    @agent.skill("audit", "Audits", listed=False)
    async def audit(turn: Turn) -> None:
        await turn.complete()

    with pytest.raises(ValidationError, match="skills"):
        agent_card(agent)


def test_a_skill_that_is_not_listed_is_told_to_authenticated_callers_and_served() -> None:
    deployment = Deployment(desk())
    door = deployment.agents_door()
    headers = {"host": "a.example", "a2a-version": "1.0"}
    public = ask(door, "GET", CARD, headers=headers).json()
    assert [skill["id"] for skill in public["skills"]] == ["work"]
    assert ask(door, "GET", "/extendedAgentCard", headers=headers).status == 401
    known = {**headers, "authorization": "Bearer agent"}
    extended = ask(door, "GET", "/extendedAgentCard", headers=known).json()
    assert [skill["id"] for skill in extended["skills"]] == ["work", "audit"]
    assert extended["supportedInterfaces"] == public["supportedInterfaces"]

    task = deployment.send("anything", metadata={"skillHint": "audit"})
    said = deployment.get(task.id).status.message
    assert said is not None
    assert said.text == "audited"


@pytest.mark.parametrize(("tenant", "status"), [("acme", 200), ("other", 400)])
def test_the_extended_card_is_routed_by_the_callers_own_tenant_only(tenant: str, status: int) -> None:
    headers = {"host": "a.example", "a2a-version": "1.0", "authorization": "Bearer agent"}
    door = Deployment(desk()).agents_door()
    assert ask(door, "GET", f"/{tenant}/extendedAgentCard", headers=headers).status == status
