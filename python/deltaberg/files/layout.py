"""How the data files of a table hold its columns, as far as it is the same for all of them."""

from __future__ import annotations

from dataclasses import dataclass

from deltaberg.schema import Field, NameMapping
from deltaberg.storage import PathResolver

__all__ = ["FileLayout"]


@dataclass(frozen=True)
class FileLayout:
    """What a format says of its data files. It pickles, and travels once for a scan.

    Parameters
    ----------
    by_id
        Whether columns are found by field id; else by physical name.
    name_mapping
        The ids of columns in files that have none.
    computed
        The names of columns that are made for each row and never read as they are.
    stored
        Constants that a file stores itself where its task has no value of them.
    row_id, row_version
        The hidden columns of materialized row ids, and of the versions in which rows were last changed.
    all_rows_have_ids
        Whether a file without row ids is damaged.
    keys
        The columns of equality deletes, top-level fields with what is needed of them.
    resolver
        Where recorded paths lead: the ones inside of position delete files.
    """

    by_id: bool = False
    name_mapping: NameMapping | None = None
    computed: frozenset[str] = frozenset()
    stored: frozenset[str] = frozenset()
    row_id: Field | None = None
    row_version: Field | None = None
    all_rows_have_ids: bool = False
    keys: tuple[Field, ...] = ()
    resolver: PathResolver | None = None
