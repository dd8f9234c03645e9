"""The layout of a table's columns in its data files, as far as that is the same for all of them."""

from __future__ import annotations

from dataclasses import dataclass

from deltaberg.schema.name_mapping import NameMapping
from deltaberg.schema.types import Field
from deltaberg.storage.location import PathResolver

__all__ = ["FileLayout"]


@dataclass(frozen=True)
class FileLayout:
    """The layout of columns in data files. It pickles, and is sent once for each scan.

    Parameters
    ----------
    by_id
        Whether columns are found by field id rather than by physical name.
    name_mapping
        Field ids by name, for files without ids.
    computed
        The names of the columns that are computed for each row instead of being read.
    position
        The name of the computed column that holds physical positions, in a scan with row addresses.
    stored
        The names of constants that a file stores itself where its task has no value for them.
    row_id, row_version
        The columns in which files materialize row ids, and the versions in which rows were last changed.
    all_rows_have_ids
        Whether every row must have an id, so that a file without row ids is damaged.
    keys
        The columns that equality deletes compare, as top-level fields narrowed to what is compared.
    resolver
        Resolves the paths that position delete files record.
    """

    by_id: bool = False
    name_mapping: NameMapping | None = None
    computed: frozenset[str] = frozenset()
    position: str | None = None
    stored: frozenset[str] = frozenset()
    row_id: Field | None = None
    row_version: Field | None = None
    all_rows_have_ids: bool = False
    keys: tuple[Field, ...] = ()
    resolver: PathResolver | None = None
