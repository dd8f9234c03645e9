"""The output of commands that write."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from deltaberg.cli.output import print_facts, print_json

if TYPE_CHECKING:
    from deltaberg import CommitResult

__all__ = ["print_plan", "print_result"]


def print_result(location: str, result: CommitResult, as_json: bool) -> None:
    """Print what a commit did."""
    if as_json:
        print_json({"location": location, **asdict(result)})
        return
    state = "" if result.committed else ", which was there already: nothing was to be done"
    print_facts([("table", location), ("version", f"{result.version}{state}"), *result.facts])


def print_plan(location: str, facts: dict[str, Any], as_json: bool) -> None:
    """Print what a command would do."""
    if as_json:
        print_json({"location": location, "dry_run": True, **facts})
        return
    named = ((name.replace("_", " "), value) for name, value in facts.items())
    print_facts([("table", location), ("dry run", "nothing was changed"), *named])
