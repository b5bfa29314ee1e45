"""The application `interlock`: one module for each group of commands."""

import typer

from interlock.cli import (
    agents,
    audit,
    away,
    conformance,
    decisions,
    drill,
    halts,
    handling,
    people,
    profiles,
    search,
    statistics,
    tasks,
    tokens,
)
from interlock.cli.output import ending

app = typer.Typer(
    help="Human oversight for A2A agents.",
    epilog=ending("interlock inbox", "interlock halt --all --reason 'an incident'", "interlock status"),
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # a traceback must not show tokens
)
app.command(
    epilog=ending("interlock inbox", "interlock inbox --watch", "interlock inbox --json --profile prod")
)(people.inbox)
app.command(
    epilog=ending(
        "interlock answer 4f1c --set approved=true --set comment='go ahead'",
        """interlock answer 4f1c --payload '{"approved": false}'""",
    )
)(people.answer)
app.command(epilog=ending("interlock approve 4f1c", "interlock approve 4f1c 7b20 c913 --comment 'go ahead'"))(
    decisions.approve
)
app.command(epilog=ending("interlock deny 4f1c --comment 'twice too much'"))(decisions.deny)
app.command(
    epilog=ending(
        "interlock changes 4f1c --comment 'only half of it'",
        """interlock changes 4f1c --edit '{"tool": "refund", "order": 1182, "amount": "70.00"}'""",
    )
)(decisions.changes)
app.command(epilog=ending("interlock claim 4f1c", "interlock claim 4f1c --release"))(handling.claim)
app.command(epilog=ending("interlock extend 4f1c --until 4h"))(handling.extend)
app.command(
    "pass-on",
    epilog=ending(
        "interlock pass-on 4f1c --to bearer:bob --comment 'you know that order'",
        "interlock pass-on 4f1c --operators",
    ),
)(handling.pass_on)
app.command(epilog=ending("interlock stats --days 30"))(statistics.stats)
app.command(epilog=ending("interlock history --limit 100", "interlock history --json"))(people.history)
app.command(
    epilog=ending("interlock away --to bearer:bob --until 2w", "interlock away", "interlock away --clear")
)(away.away)
app.command(epilog=ending("interlock tasks 018f2c1e-7d3a-7c11-a7f0-3c2b8f1d9e42"))(tasks.tasks)
app.command(epilog=ending("interlock cancel 018f2c1e-7d3a-7c11-a7f0-3c2b8f1d9e42"))(tasks.cancel)
app.command(
    epilog=ending(
        "interlock halt --all --reason 'an incident'",
        "interlock halt --agent billing --reason 'wrong amounts'",
        "interlock halt --all --reason 'the API is down' --break-glass --stack interlock-prod",
    )
)(halts.halt)
app.command(epilog=ending("interlock resume --all", "interlock resume --agent billing --generation 3"))(
    halts.resume
)
app.command(
    epilog=ending("interlock status --watch", "interlock status --break-glass --stack interlock-prod --json")
)(halts.status)
app.command(epilog=ending("interlock drill --json"))(drill.drill)
app.command(epilog=ending("interlock conformance https://agents.example/desk --json"))(
    conformance.conformance
)
app.command(epilog=ending("interlock fleet"))(agents.fleet)
app.add_typer(agents.app, name="agents")
app.add_typer(profiles.app, name="profiles")
app.add_typer(tokens.app, name="tokens")
audit.app.command(
    epilog=ending(
        "interlock audit search --who bearer:alice --after 2d", "interlock audit search --kind halt"
    )
)(search.search)
app.add_typer(audit.app, name="audit")
