"""Properties of single columns, whose names end with the name of the column."""

from __future__ import annotations

from collections.abc import Mapping

from deltaberg.iceberg.metadata.versions import full_names
from deltaberg.iceberg.updates.updates import RemoveProperties, SetProperties, Update
from deltaberg.schema.types import Struct

__all__ = ["COLUMN_METRICS", "FILTERED_COLUMNS", "FILTER_POSITIVES", "changed_column_properties"]

#: What metrics are kept of a column, whether it has a Bloom filter, and how often that may be wrong.
COLUMN_METRICS = "write.metadata.metrics.column."
FILTERED_COLUMNS = "write.parquet.bloom-filter-enabled.column."
FILTER_POSITIVES = "write.parquet.bloom-filter-fpp.column."
_PREFIXES = (COLUMN_METRICS, FILTERED_COLUMNS, FILTER_POSITIVES, "write.parquet.stats-enabled.column.")


def changed_column_properties(properties: Mapping[str, str], before: Struct, after: Struct) -> list[Update]:
    """Return what keeps the properties of columns with these columns, as the Java library does.

    Those of a renamed column get its new name, and those of a dropped one go.

    Parameters
    ----------
    before, after
        The columns of the table before and after a change.

    Examples
    --------
    >>> from deltaberg.schema.types import Field, Primitive
    >>> old, new = (Struct((Field(name, Primitive("long"), id=1),)) for name in ("a", "b"))
    >>> for update in changed_column_properties({"write.metadata.metrics.column.a": "none"}, old, new):
    ...     print(update.to_json())
    {'action': 'remove-properties', 'removals': ['write.metadata.metrics.column.a']}
    {'action': 'set-properties', 'updates': {'write.metadata.metrics.column.b': 'none'}}
    """
    named = [(name, prefix) for name in properties for prefix in _PREFIXES if name.startswith(prefix)]
    if not named:
        return []
    ids = {name: number for number, name in full_names(before)}
    names = dict(full_names(after))
    gone: list[str] = []
    moved: dict[str, str] = {}
    for name, prefix in named:
        number = ids.get(name[len(prefix) :])
        if number is None:
            continue
        now = names.get(number)
        if now != name[len(prefix) :]:
            gone.append(name)
            if now is not None:
                moved[f"{prefix}{now}"] = properties[name]
    updates: list[Update] = [RemoveProperties(tuple(gone))] if gone else []
    return [*updates, SetProperties(moved)] if moved else updates
