"""The command line. Its requirements are the extra `cli`, which no function has."""

import sys


def main() -> None:
    try:
        from interlock.cli.app import app
    except ModuleNotFoundError as error:
        sys.exit(f"The command line needs {error.name}: install interlock[cli].")
    app()
