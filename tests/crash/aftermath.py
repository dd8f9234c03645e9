"""What is looked at after an operation was killed, disturbed or refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.crash.formats import Files, State, format_of
from tests.crash.states import Verdict, past_rows, state_of
from tests.crash.targets import Target
from tests.support.tally import Tally

__all__ = ["local_files", "look_after"]


def look_after(
    tally: Tally, verdict: Verdict, where: str, at: Target, files: Callable[[], Files], *, acknowledged: bool
) -> State | None:
    """Read what is left, and let another writer go on; return what a reader saw, if it could read.

    Parameters
    ----------
    where
        What happened to the operation, for the findings.
    at
        The table, without what disturbed the operation.
    files
        Finds the files of the table.
    acknowledged
        Whether the operation was said to be done.
    """
    try:
        state = state_of(at)
        found = verdict.judge(state, acknowledged=acknowledged)
        if found is not None:
            getattr(tally, found[0]).append(f"{where}: {found[1]}")
        if past_rows(at, verdict.moments) != verdict.old:
            tally.lost.append(f"{where}: older versions have other rows")
        current = at.current
        table = current.newest()
        # Nobody goes on with a table that was dropped.
        if table is not None and current.kind == at.kind:
            tally.wrong += [f"{where}: then {sentence}" for sentence in format_of(at).go_on(current, table, files)]
    except Exception as error:  # noqa: BLE001 - whatever fails is a finding
        tally.lost.append(f"{where}: {type(error).__name__}: {error}")
        return None
    return state


def local_files(root: Path) -> Files:
    """Return what reads the files below a local directory."""
    return {path.relative_to(root).as_posix(): path.read_bytes for path in root.rglob("*") if path.is_file()}
