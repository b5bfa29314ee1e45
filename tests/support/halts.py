"""Halts of a deployment: declared and lifted by a person through its API, and what is stored meanwhile."""

from dataclasses import dataclass
from typing import Any

import httpx
from tests.support.stored import Stored

from interlock.engine.halt import current
from interlock.engine.records import SHARDS, Halt, Run, run_pk
from interlock.oversight.halts import Scope


@dataclass(frozen=True)
class Halts:
    """`http` is the connections of an operator."""

    http: httpx.Client
    stored: Stored

    def declare(self, scope: Scope, reason: str) -> dict[str, Any]:
        return self._post("/people/halts", scope=str(scope), reason=reason)

    def lift(self, scope: Scope) -> str:
        """`lifted`, `nothing` or `halted-anew`."""
        return str(self._post("/people/halts/resume", scope=str(scope))["status"])

    def report(self, scope: Scope) -> dict[str, Any]:
        return self._read(self.http.get("/people/halts/report", params={"scope": str(scope)}))

    def current(self, scope: Scope) -> Halt | None:
        return current(self.stored.table, scope)

    def walked(self, scope: Scope) -> Halt | None:
        """The halt, once everything that it found running was stopped, or told to stop."""
        halt = self.current(scope)
        return halt if halt is not None and halt.walked_at is not None else None

    def running(self, tenant: str) -> list[Run]:
        """The work of a tenant that is accepted and not finished."""
        pages = [
            self.stored.table.query(run_pk(number), first=f"{tenant}#", last=f"{tenant}$").rows
            for number in range(SHARDS)
        ]
        return [Run.read(item) for rows in pages for _, item in rows]

    def _post(self, path: str, **body: str) -> dict[str, Any]:
        return self._read(self.http.post(path, json=body))

    @staticmethod
    def _read(reply: httpx.Response) -> dict[str, Any]:
        assert reply.status_code == 200, reply.text
        document: dict[str, Any] = reply.json()
        return document
