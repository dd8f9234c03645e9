"""The metadata domains that the Delta protocol defines: clustering and row tracking."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from deltaberg.errors import CorruptLogError

__all__ = [
    "CLUSTERING_DOMAIN",
    "ROW_TRACKING_DOMAIN",
    "clustering_columns",
    "clustering_text",
    "row_id_high_water_mark",
    "row_id_text",
]

CLUSTERING_DOMAIN = "delta.clustering"
ROW_TRACKING_DOMAIN = "delta.rowTracking"


def clustering_columns(domains: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Return the columns by which a clustered table is clustered, each as a path of physical names.

    The protocol's example has plain names; real tables have a list of names for each column.

    Raises
    ------
    CorruptLogError
        If the domain is not what the protocol says.
    """
    found = _read(domains, CLUSTERING_DOMAIN)
    if found is None:
        return []
    columns = found.get("clusteringColumns")
    if not isinstance(columns, list):
        raise _wrong(CLUSTERING_DOMAIN, "clusteringColumns is not a list")
    paths = [[column] if isinstance(column, str) else column for column in columns]
    for path in paths:
        if not isinstance(path, list) or not path or not all(isinstance(name, str) for name in path):
            raise _wrong(CLUSTERING_DOMAIN, f"{path!r} is not a column")
    return [tuple(path) for path in paths]


def clustering_text(paths: Sequence[Sequence[str]]) -> str:
    """Return what the domain says of a table that is clustered by columns, each a path of physical names.

    Examples
    --------
    >>> clustering_text([("region",), ("s", "x")])
    '{"clusteringColumns":[["region"],["s","x"]]}'
    """
    return json.dumps({"clusteringColumns": paths}, separators=(",", ":"), ensure_ascii=False)


def row_id_high_water_mark(domains: Mapping[str, str]) -> int | None:
    """Return the highest row id that was assigned; None if the domain does not exist.

    Raises
    ------
    CorruptLogError
        If the domain is not what the protocol says.
    """
    found = _read(domains, ROW_TRACKING_DOMAIN)
    if found is None:
        return None
    # An early edition of the protocol calls it highWaterMark; tables have rowIdHighWaterMark.
    mark = found.get("rowIdHighWaterMark", found.get("highWaterMark"))
    if type(mark) is not int:
        raise _wrong(ROW_TRACKING_DOMAIN, "rowIdHighWaterMark is not a number")
    return mark


def row_id_text(mark: int) -> str:
    """Return what the domain says of a table in which a row id is the highest that was assigned.

    Examples
    --------
    >>> row_id_text(7)
    '{"rowIdHighWaterMark":7}'
    """
    return json.dumps({"rowIdHighWaterMark": mark}, separators=(",", ":"))


def _read(domains: Mapping[str, str], name: str) -> dict[str, Any] | None:
    text = domains.get(name)
    if text is None:
        return None
    try:
        configuration = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _wrong(name, f"it is not JSON: {error}") from None
    if not isinstance(configuration, dict):
        raise _wrong(name, "it is not a JSON object")
    return configuration


def _wrong(name: str, why: str) -> CorruptLogError:
    return CorruptLogError(f"the domain {name} is not what the protocol says: {why}")
