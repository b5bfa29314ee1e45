"""Declaring an agent: names, routing, including others, and the card that follows."""

from typing import Any

import pytest
from tests.support.twin import Deployment, message, nothing

from interlock.a2a.errors import InvalidParams
from interlock.a2a.models import Message
from interlock.agents import Agent
from interlock.doors.agents import agent_card
from interlock.oversight import approvals, hitl_prompt, modes


def says(word: str) -> Any:
    return lambda message: message.text == word


def agent_with(*skills: tuple[str, Any], name: str = "desk") -> Agent:
    agent = Agent(name, "Does things")
    for id_, matches in skills:
        agent.skill(id_, f"Does {id_}", matches=matches)(nothing)
    return agent


def routed(agent: Agent, text: str = "go", hint: str | None = None) -> str:
    return agent.route(message(text), hint).id


@pytest.mark.parametrize("name", ["", "A", "a b", "-a", "a-", "a#b", "é", "a" * 65, "a/b", "a\n", "_a"])
def test_a_name_that_could_not_be_part_of_a_key_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="1 to 64"):
        Agent(name, "Does things")
    with pytest.raises(ValueError, match="1 to 64"):
        Agent("desk", "Does things").skill(name, "Does it")


@pytest.mark.parametrize("name", ["a", "0", "release-desk", "release_desk", "a" * 64])
def test_names_are_short_and_plain(name: str) -> None:
    agent = agent_with((name, None), name=name)
    assert (agent.name, agent.skills[0].id) == (name, name)


def test_a_skill_is_declared_once() -> None:
    agent = agent_with(("work", None))
    with pytest.raises(ValueError, match="twice"):
        agent.skill("work", "Again")


def test_a_declaration_gives_the_function_back() -> None:
    agent = Agent("desk", "Does things")
    assert agent.skill("work", "Works")(nothing) is nothing


def test_what_is_not_said_of_a_skill_follows_from_its_id() -> None:
    agent = Agent("desk", "Does things")
    agent.skill("ask_first-then", "Works")(nothing)
    (skill,) = agent.skills
    assert (skill.name, skill.tags, skill.examples, skill.rerun) == (
        "Ask first then",
        ("ask_first-then",),
        (),
        False,
    )


# Which skill a message is for.


def test_a_hint_goes_before_everything() -> None:
    agent = agent_with(("first", says("go")), ("second", None))
    assert routed(agent, "go", "second") == "second"


def test_a_hint_that_names_no_skill_is_the_callers_mistake() -> None:
    with pytest.raises(InvalidParams):
        routed(agent_with(("first", None)), "go", "other")


def test_the_first_skill_that_matches_takes_the_message() -> None:
    agent = agent_with(("rest", None), ("one", says("one")), ("also-one", says("one")), ("two", says("two")))
    assert [routed(agent, text) for text in ("one", "two", "three")] == ["one", "two", "rest"]


def test_without_a_match_the_first_skill_without_a_condition_takes_it() -> None:
    agent = agent_with(("one", says("one")), ("rest", None), ("more", None))
    assert routed(agent, "three") == "rest"


def test_a_message_that_no_skill_takes_is_refused() -> None:
    for agent in (agent_with(), agent_with(("one", says("one")))):
        with pytest.raises(InvalidParams):
            routed(agent, "three")


def test_what_may_be_run_again_is_known_where_a_message_is_routed() -> None:
    agent = Agent("desk", "Does things")
    agent.skill("once", "Once", matches=says("once"))(nothing)
    agent.skill("again", "Again", rerun=True)(nothing)
    assert [agent.route(message(text), None).rerun for text in ("once", "again")] == [False, True]


# Several agents behind one endpoint.


def test_included_skills_come_after_those_declared_before_and_keep_their_agent() -> None:
    agent = agent_with(("own", says("own")))
    agent.include(agent_with(("one", says("own")), name="first"), agent_with(("two", None), name="second"))
    agent.skill("last", "Last")(nothing)
    assert [skill.id for skill in agent.skills] == ["own", "one", "two", "last"]
    assert routed(agent, "own") == "own"
    assert routed(agent, "other") == "two"
    assert agent.route(message("other"), None).agent == "second"


def test_a_skill_that_is_there_already_is_not_included() -> None:
    agent = agent_with(("work", None))
    with pytest.raises(ValueError, match="twice"):
        agent.include(agent_with(("work", None), name="other"))


def test_a_task_runs_the_skill_of_its_own_agent() -> None:
    agent = agent_with(("own", None))
    other = agent_with(("theirs", says("theirs")), name="other")
    agent.include(other)
    assert agent.declared("other", "theirs") is other.skills[0]
    assert agent.declared("desk", "own") is agent.skills[0]
    assert agent.declared("desk", "theirs") is agent.declared("other", "own") is None


def test_a_task_of_a_skill_that_was_taken_away_fails() -> None:
    deployment = Deployment(agent_with(("work", None)), at_once=False)
    task_id = deployment.send().id
    deployment.agent.skills.clear()
    deployment.work()
    task = deployment.get(task_id)
    assert task.status.message is not None
    assert task.status.message.text == "The agent failed."


# Direct replies.


def hello(message: Message) -> str | None:
    return "hi" if message.text == "hello" else None


def test_a_reply_is_a_message_in_the_callers_context_or_a_new_one() -> None:
    agent = agent_with(("work", None))
    assert agent.reply(message("hello")) is None
    assert agent.reply_with(hello) is hello
    reply = agent.reply(message("hello", context_id="c-1"))
    assert reply is not None
    assert (reply.text, reply.context_id, reply.task_id) == ("hi", "c-1", None)
    assert agent.reply(message("go")) is None
    contexts = {str((agent.reply(message("hello")) or reply).context_id) for _ in range(2)}
    assert len(contexts) == 2


def test_an_included_agent_may_reply_and_two_may_not() -> None:
    agent, one, two = (agent_with((name, None), name=name) for name in ("own", "one", "two"))
    one.reply_with(hello)
    two.reply_with(hello)
    agent.include(one)
    assert agent.reply(message("hello")) is not None
    with pytest.raises(ValueError, match="reply directly"):
        agent.include(two)


# The card.


def test_the_card_says_what_was_declared() -> None:
    agent = Agent(
        "desk", "Does things", version="2.0.0", input_modes=["text/plain"], output_modes=["text/html"]
    )
    agent.skill("work", "Works", name="Work", tags=["a", "b"], examples=["go"])(nothing)
    agent.skill("rest", "Rests")(nothing)
    card = agent_card(agent).wire()
    assert (card["name"], card["description"], card["version"]) == ("desk", "Does things", "2.0.0")
    assert (card["defaultInputModes"], card["defaultOutputModes"]) == (["text/plain"], ["text/html"])
    assert card["skills"] == [
        {"id": "work", "name": "Work", "description": "Works", "tags": ["a", "b"], "examples": ["go"]},
        {"id": "rest", "name": "Rest", "description": "Rests", "tags": ["rest"]},
    ]


def test_the_card_declares_the_extensions_as_they_ask() -> None:
    capabilities: Any = agent_card(agent_with(("work", None))).wire()["capabilities"]
    params = {extension["uri"]: extension["params"] for extension in capabilities["extensions"]}
    declared = {"skills": {"work": {"mode": "autonomous"}}}
    assert params == {hitl_prompt.URI: {}, approvals.URI: {}, modes.URI: declared}
    for extension in capabilities["extensions"]:
        assert extension["description"]
        assert extension["required"] is False
