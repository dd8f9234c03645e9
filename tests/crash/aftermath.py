"""What is looked at after an operation was killed, disturbed or refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from deltaberg import DeltaTable
from deltaberg.errors import TableNotFoundError
from tests.crash.states import State, Verdict, old_rows, state_of
from tests.support.serial_log import check_history
from tests.support.tally import Tally

__all__ = ["look_after"]


def look_after(
    tally: Tally,
    verdict: Verdict,
    where: str,
    location: str,
    commits: Callable[[], Mapping[int, bytes]],
    *,
    acknowledged: bool,
    options: Mapping[str, str] | None = None,
) -> State | None:
    """Read what is left, and let another writer go on; return what a reader saw, if it could read.

    Parameters
    ----------
    where
        What happened to the operation, for the findings.
    commits
        Reads the log entries.
    acknowledged
        Whether the operation was said to be done.
    """
    try:
        state = state_of(location, options)
        found = verdict.judge(state, acknowledged=acknowledged)
        if found is not None:
            getattr(tally, found[0]).append(f"{where}: {found[1]}")
        kept = range(verdict.operation.keeps_from, verdict.before.version + 1)
        if old_rows(location, kept, options) != verdict.old:
            tally.lost.append(f"{where}: older versions have other rows")
        tally.wrong += [f"{where}: then {sentence}" for sentence in _go_on(location, commits, options)]
    except Exception as error:  # noqa: BLE001 - whatever fails is a finding
        tally.lost.append(f"{where}: {type(error).__name__}: {error}")
        return None
    return state


def _go_on(location: str, commits: Callable[[], Mapping[int, bytes]], options: Mapping[str, str] | None) -> list[str]:
    """Let another writer commit on top of what is there."""
    try:
        table = DeltaTable(location, storage_options=dict(options or {}))
    except TableNotFoundError:
        return []
    version = table.version
    with table.transaction() as transaction:
        transaction.set_transaction("later", 1)
    if DeltaTable(location, storage_options=dict(options or {})).version != version + 1:
        return ["the commit of the next writer is not there"]
    found = commits()
    # A clean-up takes the oldest ones.
    return check_history(found).faults if 0 in found else []
