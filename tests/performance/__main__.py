"""`make bench`: prints what the product costs. Ratios and counts carry over to other machines, times do not.

python -m tests.performance [--json] [operations] [modes] [inbox] [remote] [halts] [cpu] [imports] [latency]
                            [streams] [page] [money]
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from tests.performance import (
    cpu,
    halts,
    imports,
    inbox,
    latency,
    modes,
    money,
    operations,
    page,
    remote,
    streams,
)

SECTIONS: dict[str, Callable[[], Sequence[Any]]] = {
    "operations": operations.measure,
    "modes": modes.measure,
    "inbox": inbox.measure,
    "remote": remote.measure,
    "halts": halts.measure,
    "cpu": cpu.measure,
    "imports": imports.measure,
    "latency": lambda: [latency.measure()],
    "streams": streams.measure,
    "page": page.measure,
    "money": money.measure,
}
TITLES = {
    "operations": "DynamoDB requests and units of each operation",
    "modes": "DynamoDB requests and units of a send in each mode, and of what comes after it",
    "inbox": "DynamoDB requests and read units of what people's pages ask for",
    "remote": "One task of an agent elsewhere: calls, requests, units, and microseconds of the caller's CPU",
    "halts": "A halt with accepted work in the index, and live workers; each request takes 10 ms",
    "cpu": "CPU of a SendMessage, in microseconds",
    "imports": "Cold start of each function: CPU in ms, memory in MiB",
    "latency": "From an answer to the resumed agent, in ms, on a laptop deployment",
    "streams": "Streams and parked tasks: first event in ms, events a second of CPU, memory in KiB",
    "page": "The page for people: bytes as they are sent, and the first paint on a laptop deployment",
    "money": f"USD at list prices of {money.AS_OF}, us-east-1",
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], default=[])
    given = parser.parse_args()
    chosen = given.sections or list(SECTIONS)
    measured = {}
    for section in chosen:
        rows = [asdict(row) for row in SECTIONS[section]()]
        measured[section] = rows
        if not given.json:
            print(f"{TITLES[section]}\n")
            print(table(rows), flush=True)
    if given.json:
        print(json.dumps(measured, indent=2))


def table(rows: list[dict[str, Any]]) -> str:
    cells = [list(rows[0]), *([_cell(value) for value in row.values()] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    )
    return "\n".join(lines) + "\n"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.1f}" if value == 0 or abs(value) >= 1 else f"{value:.2g}"
    if isinstance(value, tuple | list):
        runs = [(name, len(list(run))) for name, run in groupby(value)]
        return ", ".join(name if count == 1 else f"{count} {name}" for name, count in runs)
    return "" if value is None else str(value)


if __name__ == "__main__":
    main()
