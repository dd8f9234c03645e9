"""Deleting rows: by deletion vectors and by writing files anew."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, col, create_table
from deltaberg.errors import (
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConstraintViolationError,
    CorruptDataFileError,
    ExpressionError,
    InvalidArgumentError,
)
from tests.support.canon import digest
from tests.support.delta_builder import DeltaBuilder
from tests.support.log_entries import named_actions
from tests.support.rows import ID, ids, ids_of
from tests.support.typed_rows import every_type

_VECTORS = {"delta.enableDeletionVectors": "true"}

#: Both ways in which rows leave a file: what the table says, and what the call says.
both_strategies = pytest.mark.parametrize(
    ("properties", "strategy"),
    [({}, None), (_VECTORS, None), (_VECTORS, "copy-on-write"), (_VECTORS, "merge-on-read")],
    ids=["rewritten", "vectors", "rewritten-by-wish", "vectors-by-wish"],
)


def _table(root: Path, properties: dict[str, str], *files: list[int]) -> DeltaTable:
    table = create_table(root, ID, properties=properties)
    for rows in files:
        table.append(ids(*rows))
    return table


@both_strategies
def test_rows_of_a_filter(tmp_path: Path, properties: dict[str, str], strategy: Any) -> None:
    table = _table(tmp_path / "t", properties, [1, 2, 3], [4, 5, 6], [7, 8, 9])
    result = table.delete("id = 2 OR id > 5", strategy=strategy)
    by_vectors = bool(properties) and strategy != "copy-on-write"
    assert (result.version, result.committed, result.operation) == (4, True, "DELETE")
    assert ids_of(table) == ids_of(DeltaTable(table.location)) == [1, 3, 4, 5]
    assert ids_of(DeltaTable(table.location, version=3)) == list(range(1, 10))
    metrics = result.metrics
    assert metrics["numDeletedRows"] == 5
    assert metrics["numCopiedRows"] == (0 if by_vectors else 4)
    assert metrics["numRemovedFiles"] == (1 if by_vectors else 3)
    assert metrics["numDeletionVectorsAdded"] == (2 if by_vectors else 0)
    assert (result.added_files, result.removed_files) == ((0, 1) if by_vectors else (1, 3))
    info = table.history()[0].info
    assert info["operationParameters"] == {"predicate": '["(id = 2 OR id > 5)"]'}
    assert info["isBlindAppend"] is False
    vectors = [add.get("deletionVector") for add in named_actions(tmp_path / "t", 4, "add")]
    assert all(vectors) if by_vectors else not any(vectors)
    table.delete("id IN (1, 4)", strategy=strategy)
    assert ids_of(DeltaTable(table.location)) == [3, 5]
    table.delete(col("id") == 3, strategy=strategy)
    table.delete(None, strategy=strategy)
    assert ids_of(DeltaTable(table.location)) == []
    assert len(table.live_files) == 0


@pytest.mark.req("DL-DV-02")
def test_the_property_decides(tmp_path: Path, builder: DeltaBuilder) -> None:
    """The feature alone allows no deletion vectors."""
    builder.create(
        ID,
        builder.add(ids(1, 2, 3), stats="full"),
        protocol=builder.features("deletionVectors"),
    )
    table = DeltaTable(builder.root)
    with pytest.raises(InvalidArgumentError, match="the table has no deletion vectors"):
        table.delete("id = 2", strategy="merge-on-read")
    table.delete("id = 2")
    assert ids_of(table) == [1, 3]
    (add,) = named_actions(builder.root, 1, "add")
    assert "deletionVector" not in add
    allowed = _table(tmp_path / "t", _VECTORS, [1, 2, 3])
    before = sorted((tmp_path / "t").rglob("*.parquet"))
    allowed.delete("id = 2")
    (add,) = named_actions(tmp_path / "t", 2, "add")
    assert add["deletionVector"]["cardinality"] == 1
    assert sorted((tmp_path / "t").rglob("*.parquet")) == before
    wrong: Any = "copy"
    with pytest.raises(InvalidArgumentError, match="strategy"):
        allowed.delete("id = 1", strategy=wrong)


@pytest.mark.req("DL-DV-26")
def test_a_new_vector_contains_the_old_one(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", _VECTORS, list(range(10)))
    table.delete("id IN (0, 9)")
    (first,) = named_actions(tmp_path / "t", 2, "add")
    (gone,) = named_actions(tmp_path / "t", 2, "remove")
    assert "deletionVector" not in gone
    assert first["deletionVector"]["cardinality"] == 2
    table.delete("id = 3")
    (second,) = named_actions(tmp_path / "t", 3, "add")
    (gone,) = named_actions(tmp_path / "t", 3, "remove")
    assert gone["deletionVector"] == first["deletionVector"]
    assert gone["path"] == second["path"] == first["path"]
    assert second["deletionVector"]["cardinality"] == 3
    assert first["dataChange"] is second["dataChange"] is gone["dataChange"] is True
    assert json.loads(second["stats"])["numRecords"] == 10
    assert ids_of(DeltaTable(tmp_path / "t")) == [1, 2, 4, 5, 6, 7, 8]
    assert table.scan().count() == 7


@pytest.mark.req("DL-DV-27")
def test_statistics_stay_but_for_their_tightness(builder: DeltaBuilder) -> None:
    """Members that are not understood, and the spelling of numbers, survive."""
    stats = '{"numRecords":3,"minValues":{"id":0},"maxValues":{"id":2},"new":1.50,"tightBounds":true}'
    builder.create(
        ID,
        builder.add(ids(0, 1, 2), stats=stats, tags={"k": "v"}, fresh={"a": 1.10}, dataChange=False),
        protocol=builder.features("deletionVectors"),
        configuration=_VECTORS,
    )
    DeltaTable(builder.root).delete("id = 0")
    (add,) = named_actions(builder.root, 1, "add")
    assert add["stats"] == stats.replace("true", "false")
    assert (add["tags"], add["fresh"], add["dataChange"]) == ({"k": "v"}, {"a": 1.1}, True)
    assert DeltaTable(builder.root).scan().min("id") == 1


@pytest.mark.parametrize("stats", ["none", "{}", "no json", '{"numRecords":2}', '{"numRecords":1000}'])
def test_counts_that_are_missing_or_wrong(builder: DeltaBuilder, stats: str) -> None:
    """A file is removed only if its end says that all of its rows were found."""
    builder.create(
        ID,
        builder.add(ids(1, 2, 3), stats=stats),
        protocol=builder.features("deletionVectors"),
        configuration=_VECTORS,
    )
    table = DeltaTable(builder.root)
    table.delete("id IN (1, 2)")
    assert ids_of(DeltaTable(builder.root)) == [3]
    (add,) = named_actions(builder.root, 1, "add")
    if stats != '{"numRecords":1000}':
        assert json.loads(add["stats"])["numRecords"] == 3
    table.delete("id = 3")
    assert ids_of(DeltaTable(builder.root)) == []


def test_large_vectors_share_a_file(tmp_path: Path, seed: int) -> None:
    generator = random.Random(seed)
    files = [[base * 10_000 + number for number in range(5_000)] for base in range(3)]
    table = _table(tmp_path / "t", _VECTORS, *files)
    gone = {generator.choice(rows) for rows in files for _ in range(900)}
    table.delete(col("id").is_in(sorted(gone)))
    vectors = [add["deletionVector"] for add in named_actions(tmp_path / "t", 4, "add")]
    assert {vector["storageType"] for vector in vectors} == {"u"}
    assert len({vector["pathOrInlineDv"] for vector in vectors}) == 1
    offsets = sorted((vector["offset"], vector["sizeInBytes"]) for vector in vectors)
    (file,) = (tmp_path / "t").glob("deletion_vector_*.bin")
    assert offsets[0][0] == 1
    assert [start for start, _ in offsets[1:]] == [start + size + 8 for start, size in offsets[:-1]]
    assert file.stat().st_size == offsets[-1][0] + offsets[-1][1] + 8
    assert ids_of(DeltaTable(tmp_path / "t")) == sorted({row for rows in files for row in rows} - gone)


def test_whole_files_are_not_read(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", _VECTORS, [1, 2, 3], [4, 5, 6])
    for path in (tmp_path / "t").glob("*.parquet"):
        path.write_bytes(b"no parquet")
    with pytest.raises(CorruptDataFileError, match="the data file cannot be decoded"):
        table.delete("id = 2")
    assert table.delete("id <= 3").metrics["numDeletedRows"] == 3
    assert table.delete(None).metrics["numDeletedRows"] == 3
    assert len(table.live_files) == 0


@both_strategies
def test_nothing_to_delete(tmp_path: Path, properties: dict[str, str], strategy: Any) -> None:
    table = _table(tmp_path / "t", properties, [1, 2])
    result = table.delete("id = 99", strategy=strategy)
    assert (result.committed, result.version, table.version) == (False, 1, 1)
    result = table.delete("id IS NULL", txn=("app", 1), strategy=strategy)
    assert (result.committed, table.transactions["app"].version) == (True, 1)
    assert table.delete("id = 1", txn=("app", 1), strategy=strategy).committed is False
    assert ids_of(table) == [1, 2]


def test_what_is_refused(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", {"delta.appendOnly": "true"}, [1, 2])
    before = sorted((tmp_path / "t").rglob("*"))
    with pytest.raises(ConstraintViolationError, match="only grows"):
        table.delete("id = 1")
    with pytest.raises(ExpressionError, match="the filter 'id = = 1' is not a SQL expression"):
        table.delete("id = = 1")
    assert sorted((tmp_path / "t").rglob("*")) == before


@both_strategies
def test_conflicts(tmp_path: Path, properties: dict[str, str], strategy: Any) -> None:
    table = _table(tmp_path / "t", properties, [1, 2, 3], [10, 11, 12])
    other, third = DeltaTable(tmp_path / "t"), DeltaTable(tmp_path / "t")
    table.delete("id = 1", strategy=strategy)
    left = sorted((tmp_path / "t").rglob("*.parquet"))
    # The file is there once more, with fewer rows.
    with pytest.raises(
        ConcurrentAppendError, match=r"version 3 .* added a file that had to be read: the filter id = 2"
    ):
        other.delete("id = 2", strategy=strategy)
    # Nothing that was written for it is left behind.
    assert sorted((tmp_path / "t").rglob("*.parquet")) == left
    # Other files, other rows.
    assert other.delete("id = 11", strategy=strategy).retries == 0
    third.refresh()
    table.refresh().append(ids(13, 50))
    with pytest.raises(
        ConcurrentAppendError, match=r"version 5 .* added a file that had to be read: the filter id > 10"
    ):
        third.delete("id > 10", strategy=strategy)
    table.refresh().delete("id >= 10", strategy=strategy)
    other.refresh().append(ids(60, 61))
    third.refresh()
    other.delete(None)
    with pytest.raises(ConcurrentDeleteDeleteError, match=r"version 8 .* removed a file that this change removes, too"):
        third.delete("id = 60", strategy=strategy)
    assert ids_of(DeltaTable(tmp_path / "t")) == []


@both_strategies
def test_rows_of_every_type(tmp_path: Path, properties: dict[str, str], strategy: Any) -> None:
    """Rows that stay are the same to the last bit, whatever their type."""
    rows = every_type()
    numbered = rows.append_column("n", pa.array(range(len(rows)), pa.int64()))
    table = create_table(tmp_path / "t", numbered.schema, properties=properties)
    table.append(numbered)
    before = table.scan().to_arrow()
    table.delete("n = 1", strategy=strategy)
    after = DeltaTable(tmp_path / "t").scan().to_arrow()
    assert digest(after) == digest(pa.concat_tables([before.slice(0, 1), before.slice(2)]))


@both_strategies
@pytest.mark.parametrize("mapping", ["none", "name"])
def test_many_deletes_by_a_model(
    tmp_path: Path, seed: int, properties: dict[str, str], strategy: Any, mapping: str
) -> None:
    """Random deletes from a partitioned table, compared with a dictionary after each."""
    generator = random.Random(seed)
    own = {**properties, "delta.columnMapping.mode": mapping}
    schema = pa.schema([("id", pa.int64()), ("p", pa.string()), ("x", pa.float64())])
    table = create_table(tmp_path / "t", schema, partition_by="p", properties=own)
    model: dict[int, tuple[str | None, float | None]] = {}
    for base in range(0, 400, 100):
        rows = {
            base + number: (generator.choice(["a", "b", None]), generator.choice([None, 0.5, float("inf"), 7.25]))
            for number in range(100)
        }
        model |= rows
        table.append(
            pa.table(
                {"id": list(rows), "p": [p for p, _ in rows.values()], "x": [x for _, x in rows.values()]},
                schema=schema,
            )
        )
    for _ in range(12):
        low = generator.randrange(400)
        filters: list[tuple[str, Any]] = [
            (f"id >= {low} AND id < {low + 20}", lambda key, _, low=low: low <= key < low + 20),
            (f"p = 'a' AND id < {low}", lambda key, row, low=low: row[0] == "a" and key < low),
            (f"x > 7 AND id > {low}", lambda key, row, low=low: row[1] is not None and row[1] > 7 and key > low),
            (f"p IS NULL AND x IS NULL AND id > {low}", lambda key, row, low=low: row == (None, None) and key > low),
        ]
        text, matches = generator.choice(filters)
        table.delete(text, strategy=strategy)
        model = {key: row for key, row in model.items() if not matches(key, row)}
        found = DeltaTable(tmp_path / "t").scan().to_arrow().to_pylist()
        assert {row["id"]: (row["p"], row["x"]) for row in found} == model
        assert len(found) == len(model)
