"""The command ``manihash``."""


def main() -> None:
    """Run the command; nothing that computes is imported before a command asks for it."""
    from manihash.cli._app import app
    from manihash.cli._errors import unexpected_reported

    with unexpected_reported():
        app()
