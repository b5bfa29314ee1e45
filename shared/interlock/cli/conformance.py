"""`interlock conformance`: whether an agent does what hitl-prompt/v1 asks of it."""

from contextlib import closing
from typing import Annotated

import httpx
import typer
from pydantic import JsonValue

from interlock.a2a.models import JsonObject
from interlock.adapters.schema_worker import SchemaWorker
from interlock.cli.output import AsJson, Exit, Failure, failures, print_json
from interlock.cli.payload import object_of
from interlock.cli.progress import progress
from interlock.cli.target import dev_token
from interlock.conformance.client import Binding, CardError, Interface, choose_interface, fetch_card
from interlock.conformance.scenarios import MIN_TRIALS, Result, Run, scenarios
from interlock.oversight.hitl_prompt import URI

DEFAULT_PROMPT = "release 1.0.0"
SCENARIOS = 7
DEV_CALLER = "agent"
"""Whose token of `.interlock/dev.json` is used for the laptop's own deployment."""


def conformance(
    url: Annotated[str, typer.Argument(help="The agent: where its card is, or the card itself.")],
    token: Annotated[
        str | None,
        typer.Option("--token", envvar="INTERLOCK_TOKEN", help="The bearer token, if it needs one."),
    ] = None,
    binding: Annotated[
        Binding | None,
        typer.Option("--binding", case_sensitive=False, help="Default: the first that the card prefers."),
    ] = None,
    prompt_text: Annotated[
        str, typer.Option("--prompt-text", help="The message that makes the agent ask.")
    ] = DEFAULT_PROMPT,
    payload: Annotated[
        str | None,
        typer.Option(
            "--payload", metavar="JSON", help="A valid answer. Default: made from the response schema."
        ),
    ] = None,
    trials: Annotated[int, typer.Option("--trials", min=MIN_TRIALS, max=1000, help="Of CF-4.")] = MIN_TRIALS,
    as_json: AsJson = False,
) -> None:
    """Run the scenarios CF-1 to CF-7 of hitl-prompt/v1 against any A2A 1.0 agent.

    Prints a line for each with its figure; done only if all pass. Tasks it makes are answered or canceled.
    """
    with failures(as_json):
        answer = None if payload is None else object_of(payload, "--payload")
        token = token or dev_token(url, DEV_CALLER)
        card, interface = _agent(url, token, binding)
        results = []
        every = "CF-1 to CF-7"
        with closing(SchemaWorker()) as guard, progress(every, SCENARIOS, shown=not as_json) as bar:
            run = Run(card, interface, token, prompt_text, guard, answer, trials)
            for result in scenarios(run):
                results.append(result)
                bar.step()
                if not as_json:
                    bar.say(_line(result))
    if as_json:
        print_json(_report(url, interface, results))
    if not all(result.passed for result in results):
        raise typer.Exit(Exit.FAILED)


def _agent(url: str, token: str | None, binding: Binding | None) -> tuple[JsonObject, Interface]:
    try:
        card = fetch_card(url, token)
        return card, choose_interface(card, binding)
    except (httpx.InvalidURL, httpx.UnsupportedProtocol, UnicodeEncodeError) as error:
        raise Failure(f"{url} or the token is not valid.", Exit.USAGE) from error
    except httpx.TransportError as error:
        raise Failure(f"{url} can not be reached: {error}", Exit.UNREACHABLE) from error
    except CardError as error:
        raise Failure(f"No agent can be called at {url}: {error}.") from error


def _line(result: Result) -> str:
    notes = f" ({'; '.join(result.notes)})" if result.notes else ""
    return f"{result.id} {'PASS' if result.passed else 'FAIL'} {result.title}: {result.figure}{notes}"


def _report(url: str, interface: Interface, results: list[Result]) -> dict[str, JsonValue]:
    return {
        "agent": url,
        "interface": {"url": interface.url, "binding": interface.binding.value},
        "extension": URI,
        "passed": all(result.passed for result in results),
        "scenarios": [
            {
                "id": result.id,
                "title": result.title,
                "passed": result.passed,
                "figure": result.figure,
                "notes": list(result.notes),
            }
            for result in results
        ],
    }
