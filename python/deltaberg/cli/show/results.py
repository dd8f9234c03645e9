"""The output of commands that write."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from deltaberg.cli.show.output import print_facts, print_json

if TYPE_CHECKING:
    from deltaberg import CommitResult, DeltaTable, IcebergTable
    from deltaberg.table.verbs.matching import Preview

__all__ = ["in_words", "numbers_of", "print_done", "print_result", "state_of"]


def state_of(table: DeltaTable | IcebergTable, branch: str | None) -> dict[str, int | None]:
    """Return the version of a table, or the snapshot of one of its branches."""
    from deltaberg import IcebergTable

    if not isinstance(table, IcebergTable):
        return {"version": table.version}
    return {"snapshot_id": table.snapshot_id if branch is None else table.refs[branch].snapshot_id}


def numbers_of(would_do: Preview) -> dict[str, int | None]:
    """Return what would be done, by what it is called in the output of commands."""
    return {
        "rows_to_insert": would_do.inserted,
        "rows_to_update": would_do.updated,
        "rows_to_delete": would_do.deleted,
        "rows_to_copy": would_do.copied,
        "files_to_add": would_do.added_files,
        "files_to_remove": would_do.removed_files,
    }


def print_result(location: str, result: CommitResult | Mapping[str, Any], as_json: bool) -> None:
    """Print what a commit did, or what a command would do."""
    if isinstance(result, Mapping):
        labelled = (("dry run", "nothing was changed"), *_labelled(result))
        print_done(location, {"dry_run": True, **result}, as_json, *labelled)
        return
    state = "" if result.committed else ", unchanged: there was nothing to do"
    # The number of the metadata file says nothing to who wants to open the state again.
    name, number = ("version", result.version) if result.snapshot_id is None else ("snapshot id", result.snapshot_id)
    print_done(location, asdict(result), as_json, (name, f"{number}{state}"), *result.facts)


def in_words(result: object) -> str:
    """Return what a result says of itself, without the name of its class around it."""
    shown = re.fullmatch(r"[A-Z]\w*(?:Result|Cleanup)\((.*)\)", str(result), re.DOTALL)
    return str(result) if shown is None else shown[1]


def print_done(location: str, facts: Mapping[str, Any], as_json: bool, *shown: tuple[str, Any]) -> None:
    """Print facts, as JSON or as text.

    Parameters
    ----------
    shown
        What is printed as text; by default the facts.
    """
    if as_json:
        print_json({"location": location, **facts})
    else:
        print_facts([("table", location), *(shown or _labelled(facts))])


def _labelled(facts: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(name.replace("_", " "), "unknown" if value is None else value) for name, value in facts.items()]
