"""The conformance scenarios against an agent that is right, and against agents with one mistake each."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.cli.fake_agent import FakeAgent
from tests.unit.cli.serving import Request, Response, serving
from typer.testing import CliRunner

from interlock.adapters.schema_worker import SchemaWorker
from interlock.cli.app import app
from interlock.conformance import scenarios
from interlock.conformance.client import Binding, Client, Interface, choose_interface, fetch_card
from interlock.conformance.scenarios import Result, Run

ALL = ["CF-1", "CF-2", "CF-3", "CF-4", "CF-5", "CF-6", "CF-7"]


@pytest.fixture(scope="module")
def guard() -> Iterator[SchemaWorker]:
    worker = SchemaWorker(deadline=5)
    yield worker
    worker.close()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What never comes is waited for briefly."""
    monkeypatch.setattr(scenarios, "SETTLE_SECONDS", 0.2)


def judge(
    agent: FakeAgent, guard: SchemaWorker, binding: Binding | None = None, **options: Any
) -> dict[str, Result]:
    with serving(agent) as url:
        agent.url = url
        card = fetch_card(url, agent.token)
        run = Run(
            card,
            choose_interface(card, binding),
            agent.token,
            options.pop("prompt_text", "release 1.0.0"),
            guard,
            **{"trials": 1, **options},
        )
        return {result.id: result for result in scenarios.scenarios(run)}


def failed(results: dict[str, Result]) -> list[str]:
    return [id_ for id_, result in results.items() if not result.passed]


@pytest.mark.parametrize("binding", list(Binding))
def test_an_agent_that_is_right_passes(guard: SchemaWorker, binding: Binding) -> None:
    agent = FakeAgent()
    results = judge(agent, guard, binding, trials=3)
    assert list(results) == ALL
    assert failed(results) == []
    assert results["CF-1"].figure == "1 of 4 concurrent answers accepted, 5 others refused with 409"
    assert results["CF-2"].figure == "200, then TASK_STATE_COMPLETED"
    assert "6 invalid answers refused with 422" in results["CF-3"].figure
    assert results["CF-4"].figure.endswith("of 3 trials")
    assert results["CF-7"].figure == "6 of 6 passed"
    assert agent.called == {"rpc" if binding is Binding.JSONRPC else "rest"}


@pytest.mark.parametrize("binding", list(Binding))
def test_no_task_is_left_waiting(guard: SchemaWorker, binding: Binding) -> None:
    for mistake in ("", "valid is refused"):
        agent = FakeAgent(mistake)
        judge(agent, guard, binding)
        assert {task["state"] for task in agent.tasks.values()} <= {
            "TASK_STATE_COMPLETED",
            "TASK_STATE_WORKING",
            "TASK_STATE_CANCELED",
        }


@pytest.mark.parametrize("binding", list(Binding))
def test_the_interfaces_tenant_is_repeated(guard: SchemaWorker, binding: Binding) -> None:
    assert failed(judge(FakeAgent(tenant="acme"), guard, binding)) == []


MISTAKES = {
    "not declared": ["CF-1"],
    "required": ["CF-1"],
    "params": ["CF-1"],
    "no echo": ["CF-1"],
    "envelope without activation": ["CF-1"],
    "no uuid": ["CF-1", "CF-5"],
    "unknown id is 422": ["CF-1"],
    "two concurrent answers": ["CF-1"],
    "a second answer": ["CF-1"],
    "a loser is told 500": ["CF-1"],
    "echo without activation": ["CF-1"],
    "id used twice": ["CF-2", "CF-3", "CF-4", "CF-5", "CF-6"],
    "valid is refused": ["CF-1", "CF-2", "CF-3", "CF-4", "CF-6"],
    "task does not resume": ["CF-1", "CF-2", "CF-4"],
    "answer in status": ["CF-2"],
    "invalid is accepted": ["CF-3"],
    "invalid is 400": ["CF-3"],
    "only some keywords": ["CF-3"],
    "payload members taken": ["CF-3"],
    "only the first error": ["CF-3"],
    "no list of errors": ["CF-3"],
    "list of texts": ["CF-3"],
    "errors without a keyword": ["CF-3"],
    "invalid answer resumes the task": ["CF-3"],
    "invalid answer ends the task": ["CF-3"],
    "invalid answer consumes the prompt": ["CF-3"],
    "extra members taken": ["CF-3"],
    "member of a user interface": ["CF-5"],
    "empty prompt": ["CF-5"],
    "long prompt": ["CF-5"],
    "deadline passed": ["CF-5"],
    "deadline is no time": ["CF-5"],
    "responder unknown": ["CF-5"],
    "nobody may respond": ["CF-5"],
    "another schema on replay": ["CF-6"],
    "another id on replay": ["CF-3", "CF-6"],
    "schema with a remote reference": ["CF-1", "CF-2", "CF-3", "CF-4", "CF-5", "CF-6"],
}


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("binding", list(Binding))
def test_each_mistake_fails_its_scenario(guard: SchemaWorker, mistake: str, binding: Binding) -> None:
    results = judge(FakeAgent(mistake), guard, binding)
    assert failed(results) == [*MISTAKES[mistake], "CF-7"], results
    assert list(results) == ALL


def test_a_schema_that_is_not_an_objects(guard: SchemaWorker) -> None:
    results = judge(FakeAgent("schema is no object's"), guard)
    assert not results["CF-5"].passed


def test_a_prompt_that_is_not_replayed(guard: SchemaWorker) -> None:
    results = judge(FakeAgent("no replay"), guard)
    assert not results["CF-6"].passed
    assert "not there" in results["CF-6"].figure


def test_a_slow_resume_fails_by_its_figure(guard: SchemaWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenarios, "RESUME_LIMIT_SECONDS", 0.0)
    results = judge(FakeAgent(), guard, trials=3)
    assert failed(results) == ["CF-4", "CF-7"]
    assert results["CF-4"].figure.endswith("of 3 trials, more than 0 ms")


def test_a_task_that_an_invalid_answer_moves(guard: SchemaWorker) -> None:
    results = judge(FakeAgent("invalid answer resumes the task"), guard)
    assert results["CF-3"].figure == "several at once: the task left INPUT_REQUIRED"


def test_the_percentile_is_one_of_the_values() -> None:
    assert scenarios.p95([float(number) for number in range(20, 0, -1)]) == 19
    assert scenarios.p95([float(number) for number in range(100)]) == 94
    assert scenarios.p95([7.0]) == 7


def test_why_it_failed_is_not_hidden_by_what_comes_after(guard: SchemaWorker) -> None:
    results = judge(FakeAgent("refuses and can not be read"), guard)
    assert "a valid answer was refused" in results["CF-2"].figure


def test_uris_are_compared_whatever_their_case(guard: SchemaWorker) -> None:
    assert failed(judge(FakeAgent("echo in capitals"), guard)) == []


def test_a_result_beside_an_error_status_is_no_success() -> None:
    document = {"jsonrpc": "2.0", "id": 1, "result": {"status": {}}}
    with serving(lambda _: Response(document, 500)) as url:
        interface = Interface(url, Binding.JSONRPC)
        with Client(interface, None, "urn:x") as client:
            assert not client.get_task("1").accepted


def test_a_refused_retry_is_said_and_allowed(guard: SchemaWorker) -> None:
    results = judge(FakeAgent("retry refused"), guard)
    assert failed(results) == []
    assert "refused" in results["CF-1"].notes[0]
    assert "won" in judge(FakeAgent(), guard)["CF-1"].notes[0]


def test_a_schema_that_takes_everything_can_not_be_judged(guard: SchemaWorker) -> None:
    results = judge(FakeAgent(schema={"type": "object"}), guard)
    assert failed(results) == ["CF-3", "CF-7"]


def test_where_no_answer_can_be_made_one_is_asked_for(guard: SchemaWorker) -> None:
    schema = {
        "type": "object",
        "properties": {"code": {"type": "string", "pattern": "^[0-9]{4}$"}},
        "required": ["code"],
    }
    results = judge(FakeAgent(schema=schema), guard)
    assert failed(results) == ["CF-1", "CF-2", "CF-3", "CF-4", "CF-6", "CF-7"]
    assert "--payload" in results["CF-2"].figure
    assert failed(judge(FakeAgent(schema=schema), guard, payload={"code": "1234"})) == []


@pytest.mark.parametrize("text", ["hello", "do"])
def test_an_agent_that_does_not_ask_fails_and_says_why(guard: SchemaWorker, text: str) -> None:
    results = judge(FakeAgent(), guard, prompt_text=text)
    assert failed(results) == ALL
    assert "--prompt-text" in results["CF-2"].figure


def test_an_agent_that_breaks_down_fails(guard: SchemaWorker) -> None:
    agent = FakeAgent()

    def answer(request: Request) -> Response:
        return agent(request) if request.method == "GET" else Response(b"<html>", 500)

    with serving(answer) as url:
        agent.url = url
        card = fetch_card(url, None)
        run = Run(card, choose_interface(card, None), None, "release", guard)
        assert [result.passed for result in scenarios.scenarios(run)] == [False] * 7


# The command


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["conformance", *arguments])


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "http+json"])
def test_the_command_prints_a_line_for_each_scenario(binding: str) -> None:
    agent = FakeAgent(token="secret")
    with serving(agent) as url:
        agent.url = url
        result = invoke(url, "--token", "secret", "--binding", binding)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert [line.split()[:2] for line in lines] == [[id_, "PASS"] for id_ in ALL]
    assert "of 20 trials" in lines[3]


def test_the_command_fails_if_one_scenario_does() -> None:
    agent = FakeAgent("only the first error")
    with serving(agent) as url:
        agent.url = url
        result = invoke(url, "--json")
    assert result.exit_code == 1
    report = json.loads(result.output)
    assert report["passed"] is False
    assert report["interface"] == {"url": f"{url}/rpc", "binding": "JSONRPC"}
    assert [(s["id"], s["passed"]) for s in report["scenarios"]] == [
        (id_, id_ not in ("CF-3", "CF-7")) for id_ in ALL
    ]


def test_the_card_is_found_at_the_url_or_at_its_host() -> None:
    asked = []

    def answer(request: Request) -> Response:
        asked.append(request.path)
        return (
            Response({"here": True}) if request.path == "/.well-known/agent-card.json" else Response({}, 404)
        )

    with serving(answer) as url:
        assert fetch_card(f"{url}/stage/", None) == {"here": True}
        assert fetch_card(f"{url}/.well-known/agent-card.json", None) == {"here": True}
    assert asked == [
        "/stage/.well-known/agent-card.json",
        "/.well-known/agent-card.json",
        "/.well-known/agent-card.json",
    ]


def test_nobody_there() -> None:
    with serving(lambda _: Response({})) as url:
        pass
    result = invoke(url)
    assert result.exit_code == 3
    assert "can not be reached" in result.output


@pytest.mark.parametrize("document", [[], b"<html>", {}, {"supportedInterfaces": [{"protocolBinding": []}]}])
def test_a_card_that_is_of_no_use(document: Any) -> None:
    with serving(lambda _: Response(document)) as url:
        result = invoke(url, "--json")
    assert result.exit_code == 1
    assert "No agent can be called" in json.loads(result.output)["error"]["message"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["ftp://example.com"],
        ["http://127.0.0.1:1", "--trials", "19"],
        ["http://127.0.0.1:1", "--payload", "[]"],
    ],
)
def test_wrong_usage(arguments: list[str]) -> None:
    assert invoke(*arguments).exit_code == 2


def test_what_an_agent_says_is_shown_and_not_obeyed() -> None:
    agent = FakeAgent()

    def answer(request: Request) -> Response:
        response = agent(request)
        if request.path == "/rpc":
            task = response.document.get("result", {}).get("task", {})
            if "status" in task:
                task["status"]["state"] = "\x1b[2J\u202eevil\nCF-7 PASS"
        return response

    with serving(answer) as url:
        agent.url = url
        result = invoke(url)
    assert result.exit_code == 1
    assert "evil" in result.output
    assert "\x1b" not in result.output
    assert "\u202e" not in result.output
    assert len(result.output.splitlines()) == 7
