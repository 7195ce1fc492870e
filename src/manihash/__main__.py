"""``python -m manihash`` is the command ``manihash``."""

from manihash.cli import main

if __name__ == "__main__":
    main()
