"""The command ``deltaberg``: looks into tables from a terminal or a script."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; needs the extra ``cli``."""
    try:
        import click  # noqa: F401
        import rich  # noqa: F401
    except ImportError as error:
        print(f"deltaberg: {error.name} is not installed; pip install 'deltaberg[cli]'", file=sys.stderr)  # noqa: T201
        sys.exit(1)
    from deltaberg.cli.app import run

    sys.exit(run(sys.argv[1:]))
