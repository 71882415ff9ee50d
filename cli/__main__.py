"""The start of the program `minikafka`: Ctrl-C ends it without a trace while it imports, too."""

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Import and run the command line. Exits as `main.main` does, with 130 after Ctrl-C at any time.

    This file imports nothing that takes time: an interruption before `main` is called shows a trace.
    """
    try:
        from minikafka.cli.main import main as run

        run()
    except KeyboardInterrupt:
        print(file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
