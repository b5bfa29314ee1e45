"""The command line against the real doors, over the in-memory twin and HTTP on loopback."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from tests.support.twin import AGENT, APPROVAL, CAROL, Deployment, asking
from typer.testing import CliRunner, Result

from interlock.agents.demo import agent as demo
from interlock.cli.app import app


@contextmanager
def serving(deployment: Deployment) -> Iterator[str]:
    """The URL of both doors."""
    agents, people = deployment.agents_door(), deployment.people_door()

    async def doors(scope: Scope, receive: Receive, send: Send) -> None:
        await (people if scope["path"].startswith("/people/") else agents)(scope, receive, send)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(doors, lifespan="off", log_level="warning"))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def interlock(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_what_an_agent_asks_is_seen_and_answered_once() -> None:
    deployment = Deployment(asking(APPROVAL))
    task = deployment.send()
    with serving(deployment) as url:
        ann, ben = ("--url", url, "--token", "ann"), ("--url", url, "--token", "ben")
        (waiting,) = json.loads(interlock("inbox", *ann, "--json").output)["checkpoints"]
        assert waiting["taskId"] == task.id
        assert waiting["requestedBy"] == AGENT.id
        assert waiting["responseSchema"] == APPROVAL
        assert "Go on?" in interlock("inbox", *ann).output

        reference = waiting["reference"]
        refused = interlock("answer", reference, "--payload", '{"approved": 1, "zip": 2}', *ann)
        assert refused.exit_code == 1
        assert [line.split()[:2] for line in refused.stderr.splitlines()[1:]] == [
            ["/approved", "type"],
            ["/zip", "additionalProperties"],
        ]
        said = ("--set", "approved=true", "--set", "comment=ok")
        assert interlock("answer", reference, *said, *ann).output == "Accepted.\n"
        assert deployment.get(task.id).status.state.terminal

        whole = f"{task.id}/{waiting['checkpointId']}"
        assert interlock("answer", whole, *said, *ann).output == "Accepted.\n"
        late = interlock("answer", whole, *said, *ben)
        assert late.exit_code == 1
        assert "answered by bearer:ann" in late.stderr
        assert interlock("inbox", *ann).output == "Nothing waits for an answer.\n"


def test_a_consensus_is_counted() -> None:
    deployment = Deployment(asking(APPROVAL, allowed_responders=["consensus:2"]))
    deployment.send()
    with serving(deployment) as url:
        (waiting,) = json.loads(interlock("inbox", "--url", url, "--token", "ann", "--json").output)[
            "checkpoints"
        ]
        said = ("answer", waiting["reference"], "--set", "approved=true", "--url", url, "--token")
        assert interlock(*said, "ann").output == "Counted: the prompt needs 2 equal answers.\n"
        assert "(1 of 2)" in interlock("inbox", "--url", url, "--token", "ann").output
        assert interlock(*said, "ben").output == "Accepted.\n"


def test_a_refund_is_approved_by_two_and_by_nobody_else() -> None:
    deployment = Deployment(demo)
    task_id = deployment.send("refund 1182 100", CAROL).id
    with serving(deployment) as url:
        alice, bob, carol = (("--url", url, "--token", label) for label in ("alice", "bob", "carol"))
        (waiting,) = json.loads(interlock("inbox", *alice, "--json").output)["checkpoints"]
        reference = waiting["reference"]
        assert "approve or deny (0 of 2)" in interlock("inbox", *alice).output
        own = interlock("approve", reference, *carol)
        assert (own.exit_code, own.stderr) == (1, "You may not decide this request\n")
        assert interlock("approve", reference, *alice).output.endswith("Counted: it takes 2 approvals.\n")
        assert "approve or deny (1 of 2)" in interlock("inbox", *bob).output
        shown = interlock("approve", reference, "--comment", "fine", *bob).output
        assert '"amount": "100.00"' in shown
        assert shown.endswith("Approved.\n")
        assert deployment.get(task_id, CAROL).status.state.terminal
        whole = f"{task_id}/{waiting['checkpointId']}"
        assert interlock("approve", whole, *alice).output.endswith("Approved.\n")
        assert interlock("deny", whole, "--comment", "late", *alice).exit_code == 1


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
def test_the_conformance_scenarios_pass(binding: str) -> None:
    with serving(Deployment(asking(APPROVAL))) as url:
        result = interlock("conformance", url, "--token", "agent", "--binding", binding)
    assert result.exit_code == 0, result.output
    assert "a retry of the accepted message is told that it won" in result.output


def test_who_is_not_known_is_told_so() -> None:
    with serving(Deployment(asking(APPROVAL))) as url:
        refused = interlock("inbox", "--url", url, "--token", "mallory")
        assert (refused.exit_code, refused.stderr) == (1, "Authentication required\n")
        assert interlock("conformance", url, "--token", "mallory").exit_code == 1
