"""Which snapshots of Iceberg tables expire, by their ages, names and numbers."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from deltaberg.errors import (
    InvalidArgumentError,
    VersionNotFoundError,
)
from deltaberg.iceberg.maintain.cleaning.snapshot_retention import ExpiryRequest, expired_of
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.metadata_json import metadata_of_json
from tests.write.small_iceberg import new_table

pytestmark = pytest.mark.one_backend

_END = "9999-12-31"
_DAY = 86_400_000
#: The time of expiry in the grid of ages, and its snapshots: by number the parent, and the age in days.
_NOW = 1_000 * _DAY
_TREE: dict[int, tuple[int | None, int]] = {
    1: (None, 50),
    2: (1, 40),
    3: (2, 30),
    4: (3, 4),
    5: (4, 1),
    # A branch that was made from 2, and one from that.
    6: (2, 35),
    7: (6, 20),
    8: (6, 3),
    # Staged ones, which no branch leads to.
    9: (3, 25),
    10: (4, 2),
}


def _tree(base: TableMetadata, refs: dict[str, dict[str, Any]], properties: dict[str, str]) -> TableMetadata:
    snapshots = [
        {
            "snapshot-id": number,
            "timestamp-ms": _NOW - age * _DAY,
            "sequence-number": number,
            "manifest-list": f"{base.location}/metadata/{number}.avro",
            "summary": {"operation": "append"},
            "schema-id": 0,
            **({} if parent is None else {"parent-snapshot-id": parent}),
        }
        for number, (parent, age) in _TREE.items()
    ]
    main = {"snapshot-id": 5, "type": "branch", **refs.pop("main", {})}
    return metadata_of_json(
        {
            **base.raw,
            "snapshots": snapshots,
            "current-snapshot-id": 5,
            "refs": {"main": main, **refs},
            "properties": properties,
            "last-sequence-number": 10,
        }
    )


def _asked(**more: Any) -> ExpiryRequest:
    given = {"older_than": None, "retain_last": None, "snapshot_ids": None, "clean_expired_metadata": False}
    return ExpiryRequest(**{**given, "dry_run": True, "progress": None, "zone": dt.timezone.utc, **more})


def _branch(number: int, **kept: int) -> dict[str, Any]:
    return {"snapshot-id": number, "type": "branch", **{name.replace("_", "-"): age for name, age in kept.items()}}


_TAG = {"snapshot-id": 3, "type": "tag"}
_AT = dt.datetime.fromtimestamp((_NOW - 10 * _DAY) / 1000, dt.timezone.utc)
#: References, properties, arguments; and the snapshots and references that stay.
_GRID: list[tuple[dict[str, Any], dict[str, str], dict[str, Any], set[int], set[str]]] = [
    # Five days are the default. No branch leads to 8 and 10, which are young.
    ({}, {}, {}, {5, 4, 8, 10}, {"main"}),
    ({}, {}, {"retain_last": 3}, {5, 4, 3, 8, 10}, {"main"}),
    ({}, {"history.expire.min-snapshots-to-keep": "4"}, {}, {5, 4, 3, 2, 8, 10}, {"main"}),
    ({}, {"history.expire.max-snapshot-age-ms": str(32 * _DAY)}, {}, {5, 4, 3, 7, 8, 9, 10}, {"main"}),
    ({}, {}, {"older_than": _AT}, {5, 4, 8, 10}, {"main"}),
    # Nothing is younger than the end of time: the newest of each branch stays, and staged ones go.
    ({}, {}, {"older_than": _END}, {5}, {"main"}),
    ({"main": {"min-snapshots-to-keep": 2}}, {}, {"older_than": _END}, {5, 4}, {"main"}),
    # What a branch says goes before what is asked for.
    ({"main": {"max-snapshot-age-ms": 45 * _DAY}}, {}, {"older_than": _END}, {5, 4, 3, 2}, {"main"}),
    ({"main": {"min-snapshots-to-keep": 1}}, {}, {"older_than": _END, "retain_last": 5}, {5}, {"main"}),
    # A tag keeps its snapshot alone, and until it is too old itself.
    ({"t": _TAG}, {}, {"older_than": _END}, {5, 3}, {"main", "t"}),
    ({"t": {**_TAG, "max-ref-age-ms": 31 * _DAY}}, {}, {"older_than": _END}, {5, 3}, {"main", "t"}),
    ({"t": {**_TAG, "max-ref-age-ms": 29 * _DAY}}, {}, {"older_than": _END}, {5}, {"main"}),
    ({"t": _TAG}, {"history.expire.max-ref-age-ms": str(29 * _DAY)}, {"older_than": _END}, {5}, {"main"}),
    # `main` has no age of its own.
    ({"main": {"max-ref-age-ms": 1}}, {"history.expire.max-ref-age-ms": "1"}, {"older_than": _END}, {5}, {"main"}),
    # Branches of branches, each with what it keeps.
    ({"b": _branch(7)}, {}, {"older_than": _END}, {5, 7}, {"main", "b"}),
    ({"b": _branch(7, min_snapshots_to_keep=3)}, {}, {"older_than": _END}, {5, 7, 6, 2}, {"main", "b"}),
    (
        {"b": _branch(8), "c": _branch(7, max_snapshot_age_ms=36 * _DAY)},
        {},
        {},
        {5, 4, 8, 7, 6, 10},
        {"main", "b", "c"},
    ),
    ({"b": _branch(7, max_ref_age_ms=19 * _DAY)}, {}, {}, {5, 4, 10, 8}, {"main"}),
    # The snapshot of a reference is gone.
    ({"gone": {"snapshot-id": 77, "type": "tag"}}, {}, {}, {5, 4, 8, 10}, {"main"}),
    # Numbers alone leave all others; with an age beside them, these go as well.
    ({}, {}, {"snapshot_ids": [2, 9]}, {1, 3, 4, 5, 6, 7, 8, 10}, {"main"}),
    ({}, {}, {"snapshot_ids": [4], "older_than": _AT}, {5, 8, 10}, {"main"}),
]


@pytest.mark.req("ICE-MNT-01", "BEY-27")
@pytest.mark.parametrize("case", range(len(_GRID)))
def test_what_expires(tmp_path: Path, case: int) -> None:
    refs, properties, asked, stays, named = _GRID[case]
    metadata = _tree(new_table(tmp_path, "2").metadata, {name: dict(ref) for name, ref in refs.items()}, properties)
    found = expired_of(metadata, _asked(**asked), _NOW)
    assert set(_TREE) - set(found.snapshot_ids) == stays
    assert metadata.all_refs.keys() - set(found.refs) == named
    ages = [_TREE[number][1] for number in found.snapshot_ids]
    assert ages == sorted(ages, reverse=True)


def test_a_snapshot_with_a_name_cannot_be_chosen(tmp_path: Path) -> None:
    metadata = _tree(new_table(tmp_path, "2").metadata, {"t": dict(_TAG), "u": dict(_TAG)}, {})
    with pytest.raises(InvalidArgumentError, match="the snapshot 3 cannot expire: t, u name it") as caught:
        expired_of(metadata, _asked(snapshot_ids=[3]), _NOW)
    assert "drop the branch or the tag first" in str(caught.value)
    with pytest.raises(InvalidArgumentError, match="main names it"):
        expired_of(metadata, _asked(snapshot_ids=5), _NOW)
    with pytest.raises(VersionNotFoundError, match="there is no snapshot 99"):
        expired_of(metadata, _asked(snapshot_ids=[99]), _NOW)
