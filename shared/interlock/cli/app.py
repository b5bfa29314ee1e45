"""The application `interlock`: one module for each group of commands."""

import typer

from interlock.cli import agents, audit, away, conformance, drill, halts, people, tasks, tokens
from interlock.cli.output import EXIT_CODES

app = typer.Typer(
    help="Human oversight for A2A agents.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # a traceback must not show tokens
)
app.command(epilog=EXIT_CODES)(people.inbox)
app.command(epilog=EXIT_CODES)(people.answer)
app.command(epilog=EXIT_CODES)(people.approve)
app.command(epilog=EXIT_CODES)(people.deny)
app.command(epilog=EXIT_CODES)(away.away)
app.command(epilog=EXIT_CODES)(tasks.tasks)
app.command(epilog=EXIT_CODES)(tasks.cancel)
app.command(epilog=EXIT_CODES)(halts.halt)
app.command(epilog=EXIT_CODES)(halts.resume)
app.command(epilog=EXIT_CODES)(halts.status)
app.command(epilog=EXIT_CODES)(drill.drill)
app.command(epilog=EXIT_CODES)(conformance.conformance)
app.command(epilog=EXIT_CODES)(agents.fleet)
app.add_typer(agents.app, name="agents")
app.add_typer(tokens.app, name="tokens")
app.add_typer(audit.app, name="audit")
