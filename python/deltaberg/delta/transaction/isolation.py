"""How much concurrent commits may see of one another (``delta.isolationLevel``)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import shown_value
from deltaberg.table.arguments import checked_text

__all__ = ["IsolationLevel", "isolation_level"]

_PROPERTY = "delta.isolationLevel"


class IsolationLevel(Enum):
    """How strictly a commit is checked against the commits since the version that it was planned on."""

    #: The result is as if all commits had run one after the other, in the order of the history.
    SERIALIZABLE = "Serializable"
    #: Commits that change files are serializable. Appends that read nothing may come in another order.
    WRITE_SERIALIZABLE = "WriteSerializable"
    #: Added files do not matter. It is for operations that change no data, such as compaction.
    SNAPSHOT = "SnapshotIsolation"


def isolation_level(
    configuration: Mapping[str, str],
    requested: str | None = None,
    *,
    changes_data: bool = True,
    changes_metadata: bool = False,
) -> IsolationLevel:
    """Return the isolation level of a commit.

    Parameters
    ----------
    configuration
        The table properties: `Serializable` is the level where they name none.
    requested
        The level that the caller asks for, by its name.
    changes_data
        Whether the commit changes rows. One that only moves rows to other files gets snapshot isolation.
    changes_metadata
        Whether it changes the metadata. What it says, such as a new constraint, must hold for all rows, so that
        snapshot isolation is not enough, even where the table asks for no more.

    Raises
    ------
    InvalidArgumentError
        There is no such level.

    Examples
    --------
    >>> isolation_level({"delta.isolationLevel": "WriteSerializable"}).value
    'WriteSerializable'
    """
    if requested is not None:
        checked_text("isolation", requested, "leave it out for what the table says")
    named = requested or configuration.get(_PROPERTY) or IsolationLevel.SERIALIZABLE.value
    level = next((one for one in IsolationLevel if one.value.lower() == named.strip().lower()), None)
    if level is None:
        levels = ", ".join(one.value for one in IsolationLevel)
        raise InvalidArgumentError(f"there is no isolation level {shown_value(named)}", hint=f"known are {levels}")
    if changes_metadata and not requested and level is IsolationLevel.SNAPSHOT:
        return IsolationLevel.WRITE_SERIALIZABLE
    return level if changes_data or requested else IsolationLevel.SNAPSHOT
