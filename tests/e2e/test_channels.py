"""A press in Discord on a deployment: through the gateway to a decision, and what the message says then."""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from a2a.types import a2a_pb2 as pb
from tests.support.discord import APPLICATION, Discord, discord_stand_in, labels
from tests.support.redeployed import redeployed
from tests.support.stored import Stored
from tests.support.story import Place, eventually, said
from tools.deploy.local import Stack

WRITING = ("A2aFunction", "OperatorFunction", "TurnsFunction", "TimersFunction")
CALLING_OUT = ("OutboxFunction", "ChannelsFunction")


@dataclass(frozen=True)
class Gateway:
    """Implements `Reached`."""

    url: str

    def now(self) -> datetime:
        return datetime.now(UTC)

    def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> httpx.Response:
        sent = {"Content-Type": "application/json", **headers}
        return httpx.post(self.url + path, content=body, headers=sent, timeout=30)


@pytest.fixture(scope="module")
def discord(deployment: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Discord]:
    renderers = tmp_path_factory.mktemp("channels") / "renderers.json"
    settings = {"INTERLOCK_RENDERERS": f"file:{renderers}"}
    with ExitStack() as ended:
        found = ended.enter_context(discord_stand_in())
        document = {"renderers": {"discord": found.entry}, "default": ["discord"], "url": deployment.url}
        Path(renderers).write_text(json.dumps(document))
        ended.enter_context(redeployed(deployment, *WRITING, **settings))
        # A deployment calls nothing at such addresses unless it is told to.
        ended.enter_context(redeployed(deployment, *CALLING_OUT, **settings, INTERLOCK_LOCAL_WEBHOOKS="true"))
        yield found


def test_a_press_decides_and_the_message_says_so(
    stack: Place, deployment: Stack, stored: Stored, discord: Discord
) -> None:
    gateway, agent = Gateway(deployment.url), stack.caller("agent", "JSONRPC")
    task = agent.send("deploy 3.1.0")
    eventually(lambda: len(discord.messages) == 1)
    card = discord.card
    assert f"{deployment.url}/inbox/#/waiting/{task.id}/" in card["content"]
    assert discord.send(gateway, {"type": 1, "id": "1", "application_id": APPLICATION}).json() == {"type": 1}
    assert discord.press(gateway, "Approve", "bob", old=400).status_code == 401
    outsider = discord.press(gateway, "Approve", "1299999999999999999")
    assert "not known here" in outsider.json()["data"]["content"]
    assert agent.get(task.id).status.state == pb.TASK_STATE_INPUT_REQUIRED
    pressed = discord.press(gateway, "Approve", "bob")
    assert pressed.json()["data"]["content"] == "Approved."
    done = agent.settled(task.id)
    assert (done.status.state, said(done)) == (pb.TASK_STATE_COMPLETED, "Deployed 3.1.0.")
    eventually(lambda: labels(discord.card) == [])
    assert "Approved by bearer:bob" in discord.card["content"]
    again = discord.press(gateway, "Approve", "bob", message=card)
    assert again.json()["data"]["content"] == "Approved."

    def via() -> list[str]:
        records = stored.records()[task.id]
        return [record["detail"]["via"] for record in records if record["kind"] == "approval"]

    eventually(lambda: via() == ["discord:discord"])
    assert discord.refused == []
