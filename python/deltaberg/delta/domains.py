"""The metadata domains that the Delta protocol gives a meaning to: clustering and row tracking."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from deltaberg.errors import CorruptLogError

__all__ = ["clustering_columns", "row_id_high_water_mark"]

_CLUSTERING = "delta.clustering"
_ROW_TRACKING = "delta.rowTracking"


def clustering_columns(domains: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Give the columns by which a clustered table is clustered, each as a path of physical names.

    The document shows plain names; real tables hold a list of names for each column.

    Raises
    ------
    CorruptLogError
        Where the domain is not what the protocol says.
    """
    found = _read(domains, _CLUSTERING)
    if found is None:
        return []
    columns = found.get("clusteringColumns")
    if not isinstance(columns, list):
        raise _wrong(_CLUSTERING, "clusteringColumns is no list")
    paths = [[column] if isinstance(column, str) else column for column in columns]
    for path in paths:
        if not isinstance(path, list) or not path or not all(isinstance(name, str) for name in path):
            raise _wrong(_CLUSTERING, f"{path!r} is no column")
    return [tuple(path) for path in paths]


def row_id_high_water_mark(domains: Mapping[str, str]) -> int | None:
    """Give the highest row id that was assigned; None where none was recorded.

    Raises
    ------
    CorruptLogError
        Where the domain is not what the protocol says.
    """
    found = _read(domains, _ROW_TRACKING)
    if found is None:
        return None
    # The document's first edition says highWaterMark; tables say rowIdHighWaterMark.
    mark = found.get("rowIdHighWaterMark", found.get("highWaterMark"))
    if type(mark) is not int:
        raise _wrong(_ROW_TRACKING, "rowIdHighWaterMark is no number")
    return mark


def _read(domains: Mapping[str, str], name: str) -> dict[str, Any] | None:
    text = domains.get(name)
    if text is None:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _wrong(name, f"it is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise _wrong(name, "it is no JSON object")
    return found


def _wrong(name: str, why: str) -> CorruptLogError:
    return CorruptLogError(f"the domain {name} is not what the protocol says: {why}")
