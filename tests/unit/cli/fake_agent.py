"""A small A2A agent with hitl-prompt/v1, on both bindings, that makes one mistake on request."""

import json
import threading
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

from jsonschema import Draft202012Validator
from tests.unit.cli.serving import Request, Response

from interlock.conformance.scenarios import RIVALS

URI = "https://agentic-sandbox.aiwg.io/extensions/hitl-prompt/v1"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "comment": {"type": "string", "maxLength": 16},
    },
    "required": ["approved"],
    "additionalProperties": False,
}
PRIMITIVES = {"boolean": bool, "string": str}


class Refused(Exception):
    def __init__(self, code: int, status: int, **members: Any) -> None:
        self.code = code
        self.status = status
        self.members = members
        super().__init__()


class FakeAgent:
    def __init__(
        self,
        mistake: str = "",
        *,
        schema: dict[str, Any] = SCHEMA,
        tenant: str = "",
        token: str | None = None,
    ) -> None:
        self.mistake = mistake
        self.schema = schema
        self.tenant = tenant
        self.token = token
        self.lock = threading.RLock()
        self.tasks: dict[str, dict[str, Any]] = {}
        self.url = ""
        self.used_id = str(uuid4())
        self.called: set[str] = set()

    # HTTP

    def __call__(self, request: Request) -> Response:
        if request.path.endswith("/.well-known/agent-card.json"):
            return Response(self.card())
        if self.token is not None and request.headers.get("authorization") != f"Bearer {self.token}":
            return Response({"error": {"code": 401}}, 401)
        active = URI in request.headers.get("a2a-extensions", "")
        echoed = self.mistake != "no echo" if active else self.mistake == "echo without activation"
        uri = URI.upper() if self.mistake == "echo in capitals" else URI
        headers = {"A2A-Extensions": f"urn:other, {uri}"} if echoed else {}
        if request.headers.get("a2a-version") != "1.0":
            raise AssertionError("no version")
        with self.lock:
            self.called.add(request.path.split("/")[1])
            if request.path == "/rpc":
                return self.jsonrpc(request, active, headers)
            return self.http_json(request, active, headers)

    def card(self) -> dict[str, Any]:
        entry: dict[str, Any] = {"uri": URI, "description": "asks", "required": False, "params": {}}
        if self.mistake == "required":
            entry["required"] = True
        if self.mistake == "params":
            entry["params"] = {"channel": "email"}
        interfaces = [
            {"url": f"{self.url}/grpc", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
            {"url": f"{self.url}/old", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
            {"url": f"{self.url}/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
            {"url": f"{self.url}/rest/", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
        ]
        if self.tenant:
            interfaces = [{**interface, "tenant": self.tenant} for interface in interfaces]
        extensions = [] if self.mistake == "not declared" else [entry]
        return {"name": "fake", "capabilities": {"extensions": extensions}, "supportedInterfaces": interfaces}

    def jsonrpc(self, request: Request, active: bool, headers: dict[str, str]) -> Response:
        call = request.document
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": call["id"]}
        assert call["params"].get("tenant", "") == self.tenant
        try:
            reply["result"] = self.call(call["method"], call["params"], active)
        except Refused as refused:
            data = {"extension": URI, "details": [], **refused.members}
            reply["error"] = {"code": refused.code, "message": "refused", "data": data}
        return Response(reply, 200, headers)

    def http_json(self, request: Request, active: bool, headers: dict[str, str]) -> Response:
        path = request.path.removeprefix("/rest")
        if self.tenant:
            assert path.startswith(f"/{self.tenant}/")
            path = path.removeprefix(f"/{self.tenant}")
        params = json.loads(request.body or b"{}")
        if path.startswith("/tasks/"):
            task_id, _, verb = unquote(path.removeprefix("/tasks/")).partition(":")
            assert params == {}
            method, params = ("CancelTask" if verb == "cancel" else "GetTask"), {"id": task_id}
        else:
            method = "SendMessage"
        try:
            return Response(self.call(method, params, active), 200, headers)
        except Refused as refused:
            error = {"code": refused.status, "message": "refused", "details": [], **refused.members}
            return Response({"error": error}, refused.status, headers)

    # A2A

    def call(self, method: str, params: dict[str, Any], active: bool) -> dict[str, Any]:
        if method == "GetTask":
            if self.mistake == "refuses and can not be read":
                raise Refused(-32603, 500)
            task = self.tasks[params["id"]]
            if task["state"] == "TASK_STATE_WORKING":
                task["state"] = "TASK_STATE_COMPLETED"
            return self.shown(task, active, read=True)
        if method == "CancelTask":
            self.tasks[params["id"]]["state"] = "TASK_STATE_CANCELED"
            return self.shown(self.tasks[params["id"]], active)
        message = params["message"]
        if "taskId" not in message:
            return self.ask(message, active)
        return {"task": self.shown(self.answer(message), active)}

    def ask(self, message: dict[str, Any], active: bool) -> dict[str, Any]:
        if message["parts"] == [{"text": "hello"}]:
            return {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]}}
        state = (
            "TASK_STATE_COMPLETED" if message["parts"] == [{"text": "do"}] else "TASK_STATE_INPUT_REQUIRED"
        )
        prompt_id = str(uuid4())
        if self.mistake == "no uuid":
            prompt_id = f"prompt-{prompt_id}"
        if self.mistake == "id used twice":
            prompt_id = self.used_id
        task = {"id": str(uuid4()), "state": state, "prompt_id": prompt_id, "answers": 0, "winner": None}
        self.tasks[str(task["id"])] = task
        return {"task": self.shown(task, active)}

    def shown(self, task: dict[str, Any], active: bool, read: bool = False) -> dict[str, Any]:
        status: dict[str, Any] = {"state": task["state"]}
        if task["state"] == "TASK_STATE_INPUT_REQUIRED":
            status["message"] = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "Release?"}]}
            if active or self.mistake == "envelope without activation":
                status["message"]["metadata"] = {URI: self.envelope(task, read)}
            if read and self.mistake == "no replay":
                del status["message"]
        elif self.mistake == "answer in status" and task["winner"] is not None:
            status["message"] = task["winner"]
        return {"id": task["id"], "contextId": "context", "status": status}

    def envelope(self, task: dict[str, Any], read: bool) -> dict[str, Any]:
        envelope: dict[str, Any] = {
            "prompt_id": task["prompt_id"],
            "prompt": "Release?",
            "response_schema": self.schema,
            "allowed_responders": ["any"],
            "deadline": (datetime.now(UTC) + timedelta(hours=1)).isoformat(),
        }
        changes: dict[str, dict[str, Any]] = {
            "member of a user interface": {"ui": {"widget": "buttons"}},
            "empty prompt": {"prompt": ""},
            "long prompt": {"prompt": "x" * 4097},
            "deadline passed": {"deadline": "2020-01-01T00:00:00Z"},
            "deadline is no time": {"deadline": "tomorrow"},
            "responder unknown": {"allowed_responders": ["role:admin"]},
            "nobody may respond": {"allowed_responders": []},
            "schema is no object's": {"response_schema": {"properties": {"approved": {"type": "boolean"}}}},
            "schema with a remote reference": {"response_schema": {"$ref": "https://example.com/schema"}},
        }
        envelope |= changes.get(self.mistake, {})
        if read and self.mistake == "another schema on replay":
            envelope["response_schema"] = {"type": "object"}
        if read and self.mistake == "another id on replay":
            envelope["prompt_id"] = str(uuid4())
        return envelope

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        response = message["metadata"]["hitl_response_for"]
        task = self.tasks[message["taskId"]]
        if self.mistake != "extra members taken" and response.keys() != {"prompt_id", "payload"}:
            raise Refused(-32602, 400)
        if task["winner"] == message:
            if self.mistake == "retry refused":
                raise Refused(-32010, 409)
            return task
        if response["prompt_id"] != task["prompt_id"]:
            if self.mistake == "unknown id is 422":
                raise Refused(-32011, 422, validation_errors=[violation("/prompt_id", "const")])
            raise Refused(-32010, 409)
        self.check_open(task)
        violations = self.violations(response["payload"])
        if violations:
            if self.mistake == "invalid answer ends the task":
                task["state"] = "TASK_STATE_FAILED"
            if self.mistake == "invalid answer resumes the task":
                task["state"] = "TASK_STATE_WORKING"
            if self.mistake == "invalid answer consumes the prompt":
                task["winner"] = {}
            if self.mistake == "invalid is 400":
                raise Refused(-32602, 400, validation_errors=violations)
            if self.mistake == "no list of errors":
                raise Refused(-32011, 422)
            if self.mistake == "list of texts":
                raise Refused(-32011, 422, validation_errors=[v["message"] for v in violations])
            if self.mistake == "errors without a keyword":
                for found in violations:
                    del found["keyword"]
            raise Refused(-32011, 422, validation_errors=violations)
        if self.mistake in ("valid is refused", "refuses and can not be read"):
            raise Refused(-32602, 400)
        task["answers"] += 1
        task["winner"] = message
        if self.mistake != "task does not resume":
            task["state"] = "TASK_STATE_WORKING"
        return task

    def check_open(self, task: dict[str, Any]) -> None:
        if task["winner"] is None:
            return
        task["answers"] += 1
        if self.mistake == "two concurrent answers" and task["answers"] == 2:
            return
        if self.mistake == "a second answer" and task["answers"] == RIVALS + 1:
            return
        if self.mistake == "a loser is told 500" and task["answers"] == 2:
            raise Refused(-32603, 500)
        raise Refused(-32010, 409)

    def violations(self, payload: dict[str, Any]) -> list[dict[str, Any]]:
        found = []
        for error in Draft202012Validator(self.schema).iter_errors(payload):
            path = "".join(f"/{step}" for step in error.absolute_path)
            found.append(violation(path, str(error.validator)))
        if self.mistake == "only some keywords":
            found = [v for v in found if v["keyword"] in ("type", "required", "additionalProperties")]
        if self.mistake == "payload members taken":
            found = [v for v in found if v["keyword"] != "additionalProperties"]
        if self.mistake == "only the first error":
            del found[1:]
        return [] if self.mistake == "invalid is accepted" else found


def violation(path: str, keyword: str) -> dict[str, Any]:
    return {"path": path, "keyword": keyword, "message": "does not fit"}
