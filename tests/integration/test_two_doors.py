"""Agents and people at the same time: what one door accepted, the other knows."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from tests.support.bindings import BINDINGS, Binding, Client
from tests.support.calls import call
from tests.support.twin import APPROVAL, Deployment, asking

from interlock.a2a.models import TaskState
from interlock.agents.demo import agent as demo
from interlock.engine.errors import AnswerRefused
from interlock.oversight import hitl_prompt

KEY = "0123456789abcdef"
YES: dict[str, Any] = {"approved": True}
NO: dict[str, Any] = {"approved": False}


def sent(text: str = "release 1.2.0", **more: Any) -> dict[str, Any]:
    return {"message": {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": text}], **more}}


def answer_of(deployment: Deployment, task_id: str, payload: Any, message_id: str) -> dict[str, Any]:
    said = {"prompt_id": deployment.open_prompt(task_id), "payload": payload}
    return sent("answer", messageId=message_id, taskId=task_id, metadata={"hitl_response_for": said})


@pytest.mark.parametrize("binding", BINDINGS, ids=lambda binding: binding.name)
def test_an_agent_asks_a_person_answers_and_the_agent_sees_what_came_of_it(binding: Binding) -> None:
    deployment = Deployment(demo)
    people, agents = deployment.people_door(), Client(deployment.agents_door(), binding)
    headers = {"A2A-Extensions": hitl_prompt.URI}
    task = agents.call("SendMessage", sent(), headers=headers).task
    envelope = task["status"]["message"]["metadata"][hitl_prompt.URI]
    (waiting,) = call(people, "GET", "/people/checkpoints", who="ann").json()["checkpoints"]
    assert (waiting["taskId"], waiting["checkpointId"]) == (task["id"], envelope["prompt_id"])
    assert waiting["responseSchema"] == envelope["response_schema"]
    path = f"/people/tasks/{waiting['taskId']}/checkpoints/{waiting['checkpointId']}/answer"
    assert call(people, "POST", path, who="ann", body={"payload": YES}).json() == {"status": "accepted"}
    assert call(people, "GET", "/people/checkpoints", who="ann").json()["checkpoints"] == []
    seen = agents.call("GetTask", {"id": task["id"]}, headers=headers).task
    assert seen["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize("binding", BINDINGS, ids=lambda binding: binding.name)
def test_an_answer_at_one_door_is_a_repeat_at_the_other(binding: Binding) -> None:
    deployment = Deployment(demo)
    people, agents = deployment.people_door(), Client(deployment.agents_door(), binding)
    task_id = agents.call("SendMessage", sent()).task["id"]
    again = answer_of(deployment, task_id, YES, KEY)
    path = f"/people/tasks/{task_id}/checkpoints/{deployment.open_prompt(task_id)}/answer"
    headers = {"Idempotency-Key": KEY}
    assert call(people, "POST", path, who="ann", body={"payload": YES}, headers=headers).status_code == 200
    with deployment.unchanged():
        assert agents.call("SendMessage", again, "ann").task["status"]["state"] == "TASK_STATE_COMPLETED"
        agents.call("SendMessage", again, "ben").refused(AnswerRefused)


def test_of_many_answers_at_both_doors_at_once_one_is_accepted_and_the_others_are_told_who_won() -> None:
    deployment = Deployment(asking(APPROVAL))
    task_id = deployment.send().id
    prompt_id = deployment.open_prompt(task_id)
    people, agents = deployment.people_door(), deployment.agents_door()
    path = f"/people/tasks/{task_id}/checkpoints/{prompt_id}/answer"
    callers = ["ann", "ben", "cleo", "bot"] * 3
    start = Barrier(len(callers))

    def answer(number: int) -> tuple[str, int, str]:
        who, payload = callers[number], YES if number % 2 else NO
        said = sent(
            "answer",
            messageId=f"m-{number}",
            taskId=task_id,
            metadata={"hitl_response_for": {"prompt_id": prompt_id, "payload": payload}},
        )
        start.wait()
        if number % 3 == 0:
            response = call(people, "POST", path, who=who, body={"payload": payload})
        else:
            headers = {"A2A-Version": "1.0"}
            response = call(agents, "POST", "/message:send", who=who, body=said, headers=headers)
        error = response.json().get("error")
        winner = error["details"][0]["metadata"]["winner"] if error else f"bearer:{who}"
        return who, response.status_code, winner

    with ThreadPoolExecutor(len(callers)) as pool:
        told = list(pool.map(answer, range(len(callers))))
    assert sorted(status for _, status, _ in told) == [200] + [409] * (len(callers) - 1)
    assert len({winner for _, _, winner in told}) == 1
    assert deployment.meta(task_id).task_state is TaskState.COMPLETED
    assert deployment.meta(task_id).turn == 2
