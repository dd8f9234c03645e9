"""Row tracking, the reader's half (DL-RT)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from deltaberg import open_table
from deltaberg.errors import ColumnNotFoundError, CorruptLogError
from tests.support.delta_builder import DeltaBuilder
from tests.support.delta_checkpoints import Action
from tests.support.roads import Road, by_every_road
from tests.support.rows import ID, ids

_NAMES = {
    "delta.enableRowTracking": "true",
    "delta.rowTracking.materializedRowIdColumnName": "_row-id-col-1",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-commit-version-col-1",
}
_COLUMNS = ["id", "_metadata.row_id", "_metadata.row_commit_version"]


def _tracking(builder: DeltaBuilder, *more: str) -> Action:
    if more:
        return builder.features(*more, writer_only=["rowTracking", "domainMetadata"])
    return builder.protocol(1, 7, None, ["rowTracking", "domainMetadata"])


def _rows(found: list[dict[str, Any]]) -> list[tuple[int, int | None, int | None]]:
    return sorted((row["id"], row["_metadata"]["row_id"], row["_metadata"]["row_commit_version"]) for row in found)


@by_every_road
@pytest.mark.req("DL-RT-01", half="reader")
def test_row_ids_are_there_where_tracking_is_enabled(builder: DeltaBuilder) -> None:
    add = builder.add(ids(1, 2), baseRowId=0, defaultRowCommitVersion=0)
    builder.create(ID, add, protocol=_tracking(builder))
    table = open_table(builder.root, "delta")
    assert table.live_files["baseRowId"].to_pylist() == [0]
    for column in ("_metadata.row_id", "_metadata.row_commit_version"):
        with pytest.raises(ColumnNotFoundError, match="not enabled"):
            table.scan(columns=["id", column]).to_arrow()
    builder.commit(builder.metadata(ID, configuration=_NAMES))
    found = open_table(builder.root, "delta").scan(columns=_COLUMNS).to_arrow().to_pylist()
    assert _rows(found) == [(1, 0, 0), (2, 1, 0)]


@pytest.mark.req("DL-RT-01", half="reader")
def test_without_the_feature_the_property_enables_nothing(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(1), baseRowId=0), configuration=_NAMES)
    with pytest.raises(ColumnNotFoundError, match="not enabled"):
        open_table(builder.root).scan(columns=["_metadata.row_id"]).to_arrow()


@pytest.mark.req("DL-RT-03", half="reader")
@pytest.mark.parametrize("split_size", [0, 1])
def test_a_fresh_id_is_base_plus_position(builder: DeltaBuilder, road: Road, split_size: int) -> None:
    add = builder.add(
        ids(10, 11, 12, 13, 14, 15),
        baseRowId=4071,
        defaultRowCommitVersion=41,
        vector=builder.vector([2, 3]),
        stats="full",
        writer={"row_group_size": 2},
    )
    builder.create(ID, add, configuration=_NAMES, protocol=_tracking(builder, "deletionVectors"))
    scan = open_table(builder.root).scan(columns=_COLUMNS, split_size=split_size)
    found = _rows(road.rows(scan))
    road.assert_native()
    assert found == [(10, 4071, 41), (11, 4072, 41), (14, 4075, 41), (15, 4076, 41)]
    # The row group in between is skipped.
    filtered = open_table(builder.root).scan("id < 11 OR id > 13", columns=_COLUMNS, split_size=split_size)
    assert _rows(road.rows(filtered)) == [(10, 4071, 41), (14, 4075, 41), (15, 4076, 41)]


@pytest.mark.req("DL-RT-04", "DL-RT-07")
def test_materialized_values_win(builder: DeltaBuilder, road: Road) -> None:
    rows = pa.table(
        {
            "id": pa.array([1, 2, 3], pa.int64()),
            "_row-id-col-1": pa.array([7, None, 9], pa.int64()),
            "_row-commit-version-col-1": pa.array([None, 12, None], pa.int64()),
        }
    )
    add = builder.add(rows, baseRowId=100, defaultRowCommitVersion=41)
    builder.create(ID, add, configuration=_NAMES, protocol=_tracking(builder))
    found = road.rows(open_table(builder.root).scan(columns=_COLUMNS))
    road.assert_native()
    assert _rows(found) == [(1, 7, 41), (2, 101, 12), (3, 9, 41)]


@by_every_road
@pytest.mark.req("DL-RT-05", half="reader")
def test_materialized_columns_are_hidden(builder: DeltaBuilder) -> None:
    stored = pa.table({"id": pa.array([1], pa.int64()), "_row-id-col-1": pa.array([7], pa.int64())})
    adds = [builder.add(stored, baseRowId=100), builder.add(ids(2), baseRowId=200)]
    builder.create(ID, *adds, configuration=_NAMES, protocol=_tracking(builder))
    table = open_table(builder.root)
    assert table.schema.names == ["id"]
    assert sorted(table.scan().to_arrow().to_pylist(), key=repr) == [{"id": 1}, {"id": 2}]
    with pytest.raises(ColumnNotFoundError, match="_row-id-col-1"):
        table.scan(columns=["_row-id-col-1"])
    found = table.scan(columns=["id", "_metadata.row_id"]).to_arrow().to_pylist()
    assert sorted((row["id"], row["_metadata"]["row_id"]) for row in found) == [(1, 7), (2, 200)]


@by_every_road
@pytest.mark.req("DL-RT-06", half="reader")
def test_the_commit_version_of_a_file_is_that_of_its_rows(builder: DeltaBuilder) -> None:
    builder.create(ID, configuration=_NAMES, protocol=_tracking(builder))
    builder.commit(builder.add(ids(1, 2, 3), baseRowId=0, defaultRowCommitVersion=41))
    found = open_table(builder.root).scan(columns=_COLUMNS).to_arrow().to_pylist()
    assert [row["_metadata"]["row_commit_version"] for row in found] == [41] * 3


@by_every_road
@pytest.mark.req("DL-RT-08")
def test_changes_have_no_row_ids(builder: DeltaBuilder) -> None:
    configuration = {**_NAMES, "delta.enableChangeDataFeed": "true"}
    protocol = builder.protocol(1, 7, None, ["rowTracking", "domainMetadata", "changeDataFeed"])
    add = builder.add(ids(1), baseRowId=0, defaultRowCommitVersion=0)
    builder.create(ID, add, configuration=configuration, protocol=protocol)
    change = builder.add(pa.table({"id": pa.array([1], pa.int64()), "_change_type": ["delete"]}), stats="none")["add"]
    cdc = {name: change[name] for name in ("path", "partitionValues", "size")}
    builder.commit({"cdc": {**cdc, "dataChange": False}})
    table = open_table(builder.root)
    assert table.changes(1, columns=["id"]).to_arrow().to_pylist() == [{"id": 1}]
    for version in (0, 1):
        for column in ("_metadata.row_id", "_metadata.row_commit_version", "_row_id"):
            with pytest.raises(ColumnNotFoundError, match=r"rows have no ids|no column '_row_"):
                table.changes(version, version, columns=["id", column]).to_arrow()


@pytest.mark.req("DL-RT-11", half="reader")
@pytest.mark.parametrize(
    "configuration",
    [
        '{"rowIdHighWaterMark":115}',
        '{"highWaterMark":115}',
        '{"domainName":"delta.rowTracking","rowIdHighWaterMark":115}',
    ],
)
def test_the_high_water_mark(builder: DeltaBuilder, configuration: str) -> None:
    domain = {"domain": "delta.rowTracking", "configuration": configuration, "removed": False}
    builder.create(ID, {"domainMetadata": domain}, configuration=_NAMES, protocol=_tracking(builder))
    table = open_table(builder.root, "delta")
    assert table.row_id_high_water_mark == 115
    assert table.domain_metadata["delta.rowTracking"] == configuration


@pytest.mark.req("DL-RT-11", half="reader")
def test_a_high_water_mark_that_is_none_is_refused(builder: DeltaBuilder) -> None:
    builder.create(ID, configuration=_NAMES, protocol=_tracking(builder))
    assert open_table(builder.root, "delta").row_id_high_water_mark is None
    for text in ("{}", "[]", "nonsense", '{"rowIdHighWaterMark":"115"}', '{"rowIdHighWaterMark":true}'):
        builder.commit({"domainMetadata": {"domain": "delta.rowTracking", "configuration": text, "removed": False}})
        with pytest.raises(CorruptLogError, match=r"delta\.rowTracking"):
            _ = open_table(builder.root, "delta").row_id_high_water_mark
