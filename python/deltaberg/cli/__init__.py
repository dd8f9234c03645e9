"""The command ``deltaberg``, which inspects and writes tables from a terminal or a script.

No large package is imported before a command runs, so that ``--help`` and ``--version`` answer at once.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from io import TextIOWrapper

__all__ = ["main"]

#: The exit code of `MissingDependencyError`.
_NOT_INSTALLED = 11


def main() -> None:
    """Run the command line, which needs the extra ``cli``."""
    missing = [name for name in ("click", "rich") if find_spec(name) is None]
    if missing:
        print(f"deltaberg: {missing[0]} is not installed; hint: pip install 'deltaberg[cli]'", file=sys.stderr)  # noqa: T201
        sys.exit(_NOT_INSTALLED)
    from deltaberg.cli.app import cli

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # Characters that the terminal cannot show are printed as escapes.
            stream.reconfigure(errors="backslashreplace")
    cli.main(prog_name="deltaberg")
