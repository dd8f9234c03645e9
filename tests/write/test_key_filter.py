"""Filters of the keys of a merge: every key fulfils them, and files in gaps between keys are left out."""

from __future__ import annotations

from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg import create_table
from deltaberg.table.merge.key_filter import filter_of_keys
from tests.support.effort import unhurried

pytestmark = pytest.mark.one_backend

_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1
_INTEGERS = st.integers(_LEAST, _GREATEST) | st.sampled_from([_LEAST, _GREATEST, -1, 0, 1]) | st.integers(0, 10**6)
_KINDS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): _INTEGERS,
    pa.int8(): st.integers(-128, 127),
    pa.date32(): st.dates(),
    pa.timestamp("us", "UTC"): st.datetimes(timezones=st.just(timezone.utc)),
    pa.string(): st.text(max_size=3),
    pa.decimal128(20, 2): st.decimals(-(10**6), 10**6, places=2),
}


def _count(folder: Path, keys: pa.ChunkedArray) -> int:
    """Return how many rows with these keys their filter finds."""
    rows = pa.table({"id": keys})
    table = create_table(folder, rows.schema)
    table.append(rows)
    found: int = table.scan(filter=filter_of_keys(("id",), keys.chunks)).count()
    return found


@given(data=st.data())
@unhurried(60)
def test_every_key_fulfils_the_filter(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    kind = data.draw(st.sampled_from(list(_KINDS)))
    drawn = data.draw(st.lists(st.lists(_KINDS[kind] | st.none(), max_size=20), min_size=1, max_size=4))
    with pytest.MonkeyPatch.context() as patched:
        # Few keys would be named one by one.
        patched.setattr("deltaberg.table.merge.key_filter._MOST_KEYS", data.draw(st.sampled_from([0, 5])))
        keys = pa.chunked_array([pa.array(values, kind) for values in drawn], kind)
        assert _count(tmp_path_factory.mktemp("table"), keys) == len(keys) - keys.null_count


def test_gaps_between_keys_are_left_out() -> None:
    """Updated rows next to each other and new ones at the end are two ranges, whatever batches they come in."""
    keys = [*range(5_000, 9_000), *range(1_000_000, 1_000_500)]
    shuffled = pa.array([keys[index * 7919 % len(keys)] for index in range(len(keys))], pa.int64())
    expected = "((id >= 5000 AND id <= 8999) OR (id >= 1000000 AND id <= 1000499))"
    for size in (10_000, 100):
        batches = [shuffled.slice(start, size) for start in range(0, len(shuffled), size)]
        assert str(filter_of_keys(("id",), batches)) == expected


def test_evenly_spread_keys_are_one_range() -> None:
    keys = pa.array(range(0, 1_000_000, 100), pa.int64())
    assert str(filter_of_keys(("id",), [keys])) == "(id >= 0 AND id <= 999900)"


def test_the_number_of_ranges_is_bounded() -> None:
    keys = pa.array([group * 10_000 + number for group in range(500) for number in range(10)], pa.int64())
    assert str(filter_of_keys(("id",), [keys])) == "(id >= 0 AND id <= 4990009)"


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([date(2020, 1, 1 + day % 28) for day in range(2000)], pa.date32()),
        ([datetime(2020, 1, 1, second=second % 60, tzinfo=timezone.utc) for second in range(2000)], pa.timestamp("us")),
    ],
)
def test_few_distinct_keys_are_named(values: list[Any], kind: pa.DataType) -> None:
    assert " IN (" in str(filter_of_keys(("id",), [pa.array(values, kind)]))


def test_no_keys_match_nothing() -> None:
    assert str(filter_of_keys(("id",), [pa.nulls(3, pa.int64())])) == "false"


def test_a_merge_reads_no_files_between_its_keys(tmp_path: Path) -> None:
    table = create_table(tmp_path, pa.schema({"id": pa.int64(), "v": pa.int64()}))
    for start in range(0, 100_000, 10_000):
        table.append(pa.table({"id": range(start, start + 10_000), "v": [0] * 10_000}))
    keys = [*range(20_000, 22_000), *range(200_000, 200_100)]
    for path in table.scan(filter="id < 20000 or id >= 30000").files()["file_path"].to_pylist():
        Path(path).unlink()
    merge = table.merge(pa.table({"id": keys, "v": [1] * len(keys)}), "target.id = source.id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert table.scan(filter="id between 20000 and 29999 and v = 1").count() == 2_000
    assert table.scan(filter="id >= 200000").count() == 100
