"""The command ``manihash``."""


def main() -> None:
    """Run the command; numpy and the library are imported only when a command needs them."""
    from manihash.cli._app import app
    from manihash.cli._errors import internal_errors_reported

    with internal_errors_reported():
        app()
