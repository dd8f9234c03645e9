"""What changes of Iceberg tables carry along: properties of columns, name mappings, times, and values of partitions."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

from deltaberg import create_table, open_table
from deltaberg.errors import ConcurrentAppendError, InvalidArgumentError
from deltaberg.iceberg import place as iceberg_place
from tests.support.rows import ids_of

pytestmark = pytest.mark.one_backend

_ID = {"id": pa.int64()}


def _create(root: Path, columns: dict[str, pa.DataType], **options: Any) -> Any:
    return create_table(root, columns, format="iceberg", **options)


def _open(root: Path, **options: Any) -> Any:
    return open_table(root, "iceberg", **options)


def _peer(table: Any) -> StaticTable:
    return StaticTable.from_metadata(table.metadata_location)


# Properties


def test_properties_of_columns_follow_their_names(tmp_path: Path) -> None:
    metrics, blooms = "write.metadata.metrics.column.", "write.parquet.bloom-filter-enabled.column."
    columns = {"ssn": pa.string(), "st": pa.struct([("x", pa.string()), ("y", pa.string())]), "z": pa.string()}
    properties = {f"{metrics}ssn": "none", f"{metrics}st.x": "none", f"{blooms}z": "true", f"{metrics}other": "full"}
    table = _create(tmp_path / "t", columns, properties=properties)
    table.alter().rename("ssn", "social").rename("st", "s").drop("z").commit()
    found = {name: value for name, value in table.properties.items() if name.startswith((metrics, blooms))}
    assert found == {f"{metrics}social": "none", f"{metrics}s.x": "none", f"{metrics}other": "full"}
    table.append(pa.table({"social": ["123"], "s": [{"x": "a", "y": "b"}]}))
    (file,) = _peer(table).inspect.files().to_pylist()
    bounds = dict(file["upper_bounds"])
    names = ("social", "s.x", "s.y")
    assert [_peer(table).schema().find_field(name).field_id in bounds for name in names] == [False, False, True]
    # A column that swaps its name with another one keeps its own.
    swapped = table.alter().rename("social", "tmp").rename("s", "social").rename("tmp", "s")
    swapped.commit()
    assert {name for name in table.properties if name.startswith(metrics)} == {
        f"{metrics}s",
        f"{metrics}social.x",
        f"{metrics}other",
    }


def test_numbers_of_properties_have_32_bits(tmp_path: Path) -> None:
    most = str((1 << 31) - 1)
    names = ("commit.retry.num-retries", "commit.retry.max-wait-ms", "write.metadata.previous-versions-max")
    table = _create(tmp_path / "t", _ID, properties=dict.fromkeys(names, most))
    for number in range(3):
        table.append(pa.table({"id": [number]}))
    assert len(_peer(table).metadata.metadata_log) == 3
    for wrong in ("many", str(1 << 31), "-1", "99999999999"):
        with pytest.raises(InvalidArgumentError, match=r"commit\.retry\.num-retries must be a whole number"):
            table.alter().set({names[0]: wrong}).commit()
    assert _open(tmp_path / "t").properties[names[0]] == most


def test_a_wrong_number_of_others_can_be_removed(tmp_path: Path) -> None:
    table = _create(tmp_path / "t", _ID)
    name = "commit.retry.num-retries"
    place = Path(table.metadata_location.removeprefix("file://"))
    raw = json.loads(place.read_text("utf-8"))
    raw["properties"][name] = "many"
    (place.parent / "v2.metadata.json").write_text(json.dumps(raw), "utf-8")
    (place.parent / "version-hint.text").write_text("2", "utf-8")
    table = _open(tmp_path / "t")
    assert table.properties[name] == "many"
    with pytest.raises(InvalidArgumentError, match="must be a whole number"):
        table.append(pa.table({"id": [1]}))
    table.alter().unset(name).commit()
    table.append(pa.table({"id": [1]}))
    assert ids_of(_open(tmp_path / "t")) == [1]


# Tables that are replaced


def test_rows_that_come_while_a_table_is_replaced_are_replaced_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever isolation the old table asks for deletes."""
    properties = {"write.delete.isolation-level": "snapshot"}
    table = _create(tmp_path / "t", _ID, properties=properties)
    table.append(pa.table({"id": [1]}))
    taken, calls = iceberg_place._replacing, iter([True, False])

    def meanwhile(*arguments: Any) -> Any:
        if next(calls):
            _open(tmp_path / "t").append(pa.table({"id": [2]}))
        return taken(*arguments)

    monkeypatch.setattr(iceberg_place, "_replacing", meanwhile)
    made = _create(tmp_path / "t", {"other": pa.string()}, if_exists="replace")
    assert list(calls) == []
    assert made.scan().to_arrow().num_rows == 0
    assert made.schema.names == ["other"]


def test_branches_of_a_table_that_is_replaced_read_files_by_their_names(tmp_path: Path) -> None:
    file = tmp_path / "data.parquet"
    pq.write_table(pa.table({"b": [1], "a": [2]}), file)
    columns = {"a": pa.int64(), "b": pa.int64()}
    table = _create(tmp_path / "t", columns, properties={"owner": "ada"})
    table.add_files([str(file)])
    table.alter().create_branch("audit").commit()
    _create(tmp_path / "t", {**columns, "c": pa.int64()}, if_exists="replace")
    rows = _open(tmp_path / "t", ref="audit").scan().to_arrow().to_pylist()
    assert rows == [{"a": 2, "b": 1, "c": None}]
    table = _open(tmp_path / "t")
    assert table.properties.keys() == {"schema.name-mapping.default"}
    table.add_files([str(file)])
    assert table.scan().to_arrow().to_pylist() == [{"a": 2, "b": 1, "c": None}]
    assert _peer(table).scan().to_arrow().to_pylist() == [{"a": 2, "b": 1, "c": None}]


# Times


def test_the_time_of_a_snapshot_finds_it(tmp_path: Path) -> None:
    table = _create(tmp_path / "t", _ID)
    for number in range(3):
        table.append(pa.table({"id": [number]}))
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
    peer = _peer(table)
    for count, snapshot in enumerate(peer.snapshots(), 1):
        found = _open(tmp_path / "t", timestamp=epoch + dt.timedelta(milliseconds=snapshot.timestamp_ms))
        assert found.scan().count() == count
        theirs = peer.snapshot_as_of_timestamp(snapshot.timestamp_ms)
        assert theirs is not None
        assert theirs.snapshot_id == snapshot.snapshot_id
    log = [(entry.snapshot_id, entry.timestamp_ms) for entry in peer.metadata.snapshot_log]
    assert log == [(snapshot.snapshot_id, snapshot.timestamp_ms) for snapshot in peer.snapshots()]
    assert peer.metadata.last_updated_ms == log[-1][1]


# Partitions


def test_every_nan_is_one_partition(tmp_path: Path) -> None:
    table = _create(tmp_path / "t", {"p": pa.float64(), "x": pa.int64()}, partition_by="p")
    table.append(pa.table({"p": [float("nan"), 0.0, -0.0], "x": [1, 2, 3]}))
    other = np.array([0xFFF8000000000001], "u8").view("f8")
    late = _open(tmp_path / "t")
    table.overwrite(pa.table({"p": other, "x": [4]}), dynamic=True)
    assert sorted(_open(tmp_path / "t").scan().to_arrow()["x"].to_pylist()) == [2, 3, 4]
    transaction = late.transaction()
    transaction.overwrite(pa.table({"p": [float("nan")], "x": [5]}), dynamic=True)
    _open(tmp_path / "t").append(pa.table({"p": other, "x": [6]}))
    with pytest.raises(ConcurrentAppendError, match="added data files that may hold rows to be replaced"):
        transaction.commit()


@pytest.mark.parametrize("unit", ["year", "month", "day", "hour"])
@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_files_of_a_spec_whose_column_was_dropped_are_changed(tmp_path: Path, unit: str, version: str) -> None:
    properties = {"format-version": version, "write.summary.partition-limit": "10"}
    columns = {"id": pa.int64(), "at": pa.timestamp("us")}
    table = _create(tmp_path / "t", columns, partition_by=f"{unit}(at)", properties=properties)
    moment = dt.datetime(2026, 1, 1, 5)
    table.append(pa.table({"id": [1, 2, 3, 4], "at": [moment] * 4}))
    table.alter().partition_by().drop("at").commit()
    strategies = ["copy-on-write"] if version == "1" else ["merge-on-read", "copy-on-write"]
    for number, strategy in enumerate(strategies, 1):
        table.delete(f"id = {number}", strategy=strategy)
    table.update({"id": "id + 10"}, "id = 4", strategy=strategies[0])
    table.compact()
    left = [3, 14] if version != "1" else [2, 3, 14]
    assert sorted(ids_of(_open(tmp_path / "t"))) == left
    if version != "3":
        assert sorted(_peer(table).scan().to_arrow()["id"].to_pylist()) == left
