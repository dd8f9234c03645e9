"""Clones of Iceberg tables, which share no files."""

from __future__ import annotations

from typing import NoReturn

from deltaberg.errors import UnsupportedFeatureError
from deltaberg.hints import Hint
from deltaberg.table.maintain.cloning.cloned import CloneRequest

__all__ = ["clone_table"]


def clone_table(location: str, asked: CloneRequest) -> NoReturn:
    """Refuse a clone.

    Raises
    ------
    UnsupportedFeatureError
        Always: a shallow clone would share files with its source, and files are not copied yet.
    """
    rows = "write the rows to a new table by ⟪write_table(target, table.scan())⟫"
    if asked.shallow:
        raise UnsupportedFeatureError(
            "two Iceberg tables would own the same files, and the clean-up of one would delete those of the other",
            hint=rows,
            table=location,
            feature=Hint("⟪shallow⟫"),
        )
    raise UnsupportedFeatureError("Iceberg tables are not cloned yet", hint=rows, table=location, feature="clone")
