"""What a registered agent has at its own address here: a card that says what holds here, and nothing more."""

from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

from interlock.a2a.card import AgentCard, AgentExtension, AgentProvider, AgentSkill
from interlock.a2a.errors import Unavailable
from interlock.a2a.models import SendMessageRequest
from interlock.engine.registered import RegisteredAgent, RemoteSkill
from interlock.engine.request_metadata import SKILL_HINT
from interlock.oversight import modes

MAX_TEXT = 4000
"""Characters of a text of theirs."""
MAX_TEXTS = 64


def registered_card(agent: RegisteredAgent, ours: AgentCard) -> AgentCard:
    """Its name, description and skills are the agent's own; the way to it, who is let in, and what is
    demanded of people are ours. It has no signature of theirs: what they have signed is something else.

    Raises `Unavailable` while nothing is known of the agent.
    """
    card = agent.card
    listed = [skill for skill in agent.skills.values() if skill.listed]
    if card is None or not listed:
        raise Unavailable("The card of this agent is not known yet", retry_after=30)
    kept = [each for each in ours.capabilities.extensions or [] if each.uri != modes.URI]
    declared: dict[str, JsonValue] = {skill.id: skill.mode.to_wire() for skill in listed}
    demanded = AgentExtension(
        uri=modes.URI,
        description="How much human is in the loop, for each skill",
        required=False,
        params={"skills": declared},
    )
    described = _by_id(card)
    return ours.model_copy(
        update={
            "name": _text(card.get("name"), agent.record.name),
            "description": _text(card.get("description"), agent.record.name),
            "version": _text(card.get("version"), "1"),
            "capabilities": ours.capabilities.model_copy(
                update={"extended_agent_card": False, "extensions": [*kept, demanded]}
            ),
            "default_input_modes": _texts(card.get("defaultInputModes")) or ["text/plain"],
            "default_output_modes": _texts(card.get("defaultOutputModes")) or ["text/plain"],
            "skills": [_skill(skill, described[skill.id]) for skill in listed],
            "provider": _provider(card.get("provider")),
            "documentation_url": _text(card.get("documentationUrl"), "") or None,
            "icon_url": _text(card.get("iconUrl"), "") or None,
            "signatures": None,
        }
    )


def hinted(request: SendMessageRequest) -> SendMessageRequest:
    """A hint of the request is kept with the message, for whoever forwards that."""
    hint = (request.metadata or {}).get(SKILL_HINT)
    metadata = request.message.metadata or {}
    if hint is None or SKILL_HINT in metadata:
        return request
    message = request.message.model_copy(update={"metadata": {**metadata, SKILL_HINT: hint}})
    return request.model_copy(update={"message": message})


def _by_id(card: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """As the card lists them, the first of each id."""
    found: dict[str, Mapping[str, Any]] = {}
    for skill in card["skills"]:
        if isinstance(skill, dict) and isinstance(skill.get("id"), str):
            found.setdefault(skill["id"], skill)
    return found


def _skill(skill: RemoteSkill, theirs: Mapping[str, Any]) -> AgentSkill:
    return AgentSkill(
        id=skill.id,
        name=_text(theirs.get("name"), skill.id),
        description=_text(theirs.get("description"), skill.id),
        tags=_texts(theirs.get("tags")) or [skill.id],
        examples=_texts(theirs.get("examples")) or None,
        input_modes=_texts(theirs.get("inputModes")) or None,
        output_modes=_texts(theirs.get("outputModes")) or None,
    )


def _provider(theirs: Any) -> AgentProvider | None:
    if not isinstance(theirs, dict):
        return None
    url, organization = _text(theirs.get("url"), ""), _text(theirs.get("organization"), "")
    return AgentProvider(url=url, organization=organization) if url and organization else None


def _text(theirs: Any, otherwise: str) -> str:
    return theirs[:MAX_TEXT] if isinstance(theirs, str) and theirs else otherwise


def _texts(theirs: Any) -> list[str]:
    listed = theirs if isinstance(theirs, list) else []
    return [text[:MAX_TEXT] for text in listed[:MAX_TEXTS] if isinstance(text, str) and text]
