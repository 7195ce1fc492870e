"""The command ``manihash``."""

import sys


def main() -> None:
    """Run the command; numpy and the library are imported only when a command needs them."""
    try:
        from manihash.cli._app import app
        from manihash.cli._command import internal_errors_reported
        from manihash.cli._output import prepare_streams

        prepare_streams()
        with internal_errors_reported():
            app()
    except KeyboardInterrupt:  # before a command runs, which reports it itself
        if sys.stderr is not None:
            sys.stderr.write("error: interrupted; nothing was written\n")
        sys.exit(130)
