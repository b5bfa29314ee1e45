"""A newsroom: a skill in each of the five modes."""

from datetime import timedelta

from interlock.agents import Agent, Mode, Turn
from interlock.agents.demo.matching import text_begins_with

agent = Agent("newsroom", "Writes and publishes, with as much human in the loop as each step needs.")

GOOD = {
    "type": "object",
    "properties": {"good": {"type": "boolean"}},
    "required": ["good"],
    "additionalProperties": False,
}


@agent.skill("sitrep", "Says how things are", examples=["sitrep"], matches=text_begins_with("sitrep"))
async def sitrep(turn: Turn) -> None:
    await turn.complete("All is quiet.")


@agent.skill(
    "open_pr",
    "Opens a change for review, and people are told",
    examples=["open pr fix the typo"],
    matches=text_begins_with("open pr "),
    mode=Mode.NOTIFICATION,
)
async def open_pr(turn: Turn) -> None:
    await turn.complete(f"Opened: {turn.text.removeprefix('open pr ')}.")


@agent.skill(
    "merge_pr",
    "Merges a change, unless somebody is against it within ten seconds",
    examples=["merge pr 17"],
    matches=text_begins_with("merge pr "),
    mode=Mode.VETO,
    veto=timedelta(seconds=10),
)
async def merge_pr(turn: Turn) -> None:
    await turn.complete(f"Merged {turn.text.removeprefix('merge pr ')}.")


@agent.skill(
    "production_deploy",
    "Deploys, once it is approved",
    examples=["deploy 1.2.0"],
    matches=text_begins_with("deploy "),
    mode=Mode.GATED,
    reviewer="operator",
    note="This reaches everybody at once.",
)
async def production_deploy(turn: Turn) -> None:
    await turn.complete(f"Deployed {turn.text.removeprefix('deploy ')}.")


@agent.skill(
    "publish_post",
    "Publishes a post: the start, the draft and the final text are each looked at",
    examples=["publish why we halt"],
    matches=text_begins_with("publish "),
    mode=Mode.COMPOUND,
)
async def publish_post(turn: Turn) -> None:
    title, looked = turn.text.removeprefix("publish "), len(turn.answers)
    if looked and not turn.answers[-1].payload["good"]:
        await turn.reject(f"{title!r} was not published.")
    elif looked == 2:
        await turn.complete(f"Published {title!r}.")
    else:
        question = (f"Is the draft of {title!r} good?", f"Publish {title!r} as it is now?")[looked]
        await turn.ask(question, GOOD)
