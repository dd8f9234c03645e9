"""What delta-spark verifies of tables that we write: checksums, checkpoints, statistics, details and upgrades."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table
from tests.interop.judged import few, same
from tests.support.delta_builder import DeltaBuilder
from tests.support.judge import Judge, JudgeError
from tests.support.rows import ID, ids, ids_of
from tests.support.typed_rows import every_type
from tests.support.written_checkpoints import forget_before

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.one_backend, pytest.mark.timeout(600)]

#: Has delta-spark compare the checksum of the newest version with what it counts itself.
_VALIDATE = """
log = spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)
snapshot = log.unsafeVolatileSnapshot()
nothing = getattr(getattr(spark._jvm, "scala.collection.immutable.Map$"), "MODULE$").empty()
[snapshot.version(), snapshot.checksumOpt().isDefined(), snapshot.validateChecksum(nothing)]
"""


def _checksum(path: Path, version: int) -> Path:
    return path / "_delta_log" / f"{version:020d}.crc"


@pytest.mark.parametrize(
    "damage", [None, "numFiles", "tableSizeBytes", "numMetadata"], ids=["whole", "files", "bytes", "metadata"]
)
def test_our_checksums_are_compared(tmp_path: Path, judge: Judge, damage: str | None) -> None:
    path = tmp_path / "t"
    judge.sql(f"CREATE TABLE delta.`{path}` (id BIGINT, p STRING) USING delta PARTITIONED BY (p)")
    judge.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'a'), (2, 'b')")
    table = DeltaTable(path)
    table.append(pa.table({"id": [3, 4], "p": ["a", None]}))
    table.overwrite(pa.table({"id": [5], "p": ["a"]}), where="p = 'a'")
    table.alter().set({"owner": "ada"}).commit()
    ours = _checksum(path, table.version)
    assert ours.exists()
    if damage is not None:
        members = json.loads(ours.read_text("utf-8"))
        ours.write_text(json.dumps({**members, damage: members[damage] + 1}), "utf-8")
    # Under another path delta-spark has nothing in its caches.
    moved = path.rename(tmp_path / "moved")
    if damage is None:
        assert judge.run(_VALIDATE, path=str(moved)) == [table.version, True, True]
        judge.sql(f"INSERT INTO delta.`{moved}` VALUES (6, 'c')")
        assert ids_of(DeltaTable(moved)) == [2, 4, 5, 6]
        assert judge.run(_VALIDATE, path=str(moved)) == [table.version + 1, True, True]
    else:
        with pytest.raises(JudgeError, match=r"(?i)checksum|state of your Delta table|does not match"):
            judge.run(_VALIDATE, path=str(moved))


@pytest.mark.parametrize(
    ("policy", "mode"),
    few(
        {f"{policy}-{mode}": [policy, mode] for policy in ("classic", "v2") for mode in ("none", "name", "id")},
        "v2-name",
    ),
)
def test_a_checkpoint_is_all_that_is_left(tmp_path: Path, judge: Judge, policy: str, mode: str) -> None:
    path = tmp_path / "t"
    rows = every_type()
    properties = {
        "delta.columnMapping.mode": mode,
        "delta.checkpointPolicy": policy,
        "delta.checkpointInterval": "4",
        "delta.checkpoint.writeStatsAsStruct": "true",
    }
    table = create_table(path, rows.schema, properties=properties, partition_by="day")
    for number in range(len(rows)):
        table.append(rows.slice(number, 1))
    assert table.version == 4
    forget_before(path / "_delta_log", 4)
    assert sorted(entry.name for entry in (path / "_delta_log").glob("*.json") if "checkpoint" not in entry.name) == [
        f"{4:020d}.json"
    ]
    same(judge.sql(f"SELECT * FROM delta.`{path}`").select(rows.schema.names).cast(rows.schema), rows)
    code = "frame = spark.read.format('delta').load(path).where(condition)\n[frame.count(), len(frame.inputFiles())]"
    for condition, count in {
        "id = 3": [1, 1],
        "id > 2": [2, 2],
        "day IS NULL": [1, 1],
        "integer = 2147483647": [1, 1],
    }.items():
        assert judge.run(code, path=str(path), condition=condition) == count, condition
    judge.sql(f"DELETE FROM delta.`{path}` WHERE id = 1")
    table = DeltaTable(path)
    table.append(rows.slice(0, 1))
    same(table.scan().to_arrow(), judge.sql(f"SELECT * FROM delta.`{path}`"))


def test_exactly_the_files_that_can_match_are_scanned(tmp_path: Path, judge: Judge) -> None:
    path = tmp_path / "t"
    columns = pa.schema(
        [
            ("id", pa.int64()),
            ("name", pa.string()),
            ("x", pa.float64()),
            ("at", pa.timestamp("us", "UTC")),
            ("price", pa.decimal128(12, 2)),
            ("s", pa.struct([("y", pa.int32())])),
        ]
    )
    table = create_table(path, columns)
    for number in range(10):
        values = [number * 10 + step for step in range(10)]
        table.append(
            pa.table(
                {
                    "id": values,
                    "name": [f"name-{value:03}" for value in values],
                    "x": [value / 4 for value in values],
                    "at": pa.array([value * 1_000_000 for value in values], pa.timestamp("us", "UTC")),
                    "price": pa.array(values, pa.int64()).cast(pa.decimal128(21, 2)).cast(pa.decimal128(12, 2)),
                    "s": [{"y": value} for value in values],
                }
            )
        )
    code = "frame = spark.read.format('delta').load(path).where(condition)\n[frame.count(), len(frame.inputFiles())]"
    expected = {
        "id = 35": [1, 1],
        "id BETWEEN 19 AND 20": [2, 2],
        "id > 89": [10, 1],
        "id >= 89": [11, 2],
        "id < 0": [0, 0],
        "id IS NULL": [0, 0],
        "name = 'name-050'": [1, 1],
        "name LIKE 'name-00%'": [10, 1],
        "x >= 24.75": [1, 1],
        "price = 12.00": [1, 1],
        "price > 98.50": [1, 1],
        "s.y = 77": [1, 1],
        "id = 5 OR s.y = 95": [2, 2],
        # Upper bounds hold for the whole millisecond, and delta-spark allows for one more.
        "at = TIMESTAMP '1970-01-01 00:00:15Z'": [1, 1],
    }
    found = {condition: judge.run(code, path=str(path), condition=condition) for condition in expected}
    assert found == expected


def test_details(tmp_path: Path, judge: Judge) -> None:
    path = tmp_path / "t"
    columns = pa.schema([("id", pa.int64()), ("p", pa.string())])
    properties = {"delta.enableDeletionVectors": "true", "owner": "ada"}
    table = create_table(path, columns, partition_by="p", properties=properties, name="orders", description="all")
    table.append(pa.table({"id": [1, 2], "p": ["a", "b"]}))
    table.append(pa.table({"id": [3], "p": ["a"]}))
    table.overwrite(pa.table({"id": [4], "p": ["b"]}), where="p = 'b'")
    (details,) = judge.sql(f"DESCRIBE DETAIL delta.`{path}`").to_pylist()
    assert (details["format"], details["id"], details["name"], details["description"]) == (
        "delta",
        table.metadata.id,
        "orders",
        "all",
    )
    assert (details["partitionColumns"], details["numFiles"]) == (["p"], 3)
    assert details["sizeInBytes"] == sum(table.live_files["size"].to_pylist())
    assert dict(details["properties"]) == table.properties
    assert (details["minReaderVersion"], details["minWriterVersion"]) == (3, 7)
    assert set(details["tableFeatures"]) == set(table.features)
    clustered = create_table(tmp_path / "u", columns, cluster_by=["p", "id"])
    clustered.append(pa.table({"id": [1], "p": ["a"]}))
    (details,) = judge.sql(f"DESCRIBE DETAIL delta.`{tmp_path / 'u'}`").to_pylist()
    assert details["clusteringColumns"] == ["p", "id"]


_LEGACY = [(1, 1), (1, 2), (1, 3), (1, 4), (2, 5), (2, 6)]


@pytest.mark.parametrize("versions", few({str(versions): versions for versions in _LEGACY}, "(1, 1)", "(2, 5)"))
def test_legacy_tables_that_we_upgrade(builder: DeltaBuilder, judge: Judge, versions: tuple[int, int]) -> None:
    """delta-spark finds the features that the versions implied, and both go on."""
    builder.create(ID, builder.add(ids(1), stats="full"), protocol=builder.protocol(*versions))
    path = builder.root
    table = DeltaTable(path)
    table.append(ids(2))
    before = set(table.features)
    # A step that versions without lists can express, if there is one, and then one that needs lists.
    if versions[1] < 5:
        table.alter().set({"delta.columnMapping.mode": "name"}).commit()
        assert table.protocol.writer_features is None
        before = set(table.features)
    table.alter().set({"delta.enableDeletionVectors": True}).commit()
    table.append(ids(3))
    (found,) = judge.sql(f"DESCRIBE DETAIL delta.`{path}`").to_pylist()
    assert (found["minReaderVersion"], found["minWriterVersion"]) == (3, 7)
    assert set(found["tableFeatures"]) == before | {"deletionVectors"}
    judge.sql(f"INSERT INTO delta.`{path}` VALUES (4)")
    judge.sql(f"DELETE FROM delta.`{path}` WHERE id = 2")
    table.refresh().append(ids(5))
    same(table.scan().to_arrow(), judge.sql(f"SELECT * FROM delta.`{path}`"))
    assert ids_of(table) == [1, 3, 4, 5]


def test_variants(tmp_path: Path, judge: Judge) -> None:
    path = tmp_path / "t"
    judge.sql(f"CREATE TABLE delta.`{path}` (id BIGINT, v VARIANT) USING delta")
    judge.sql(f"""INSERT INTO delta.`{path}` SELECT 1, parse_json('{{"a": [1, "x"]}}')""")
    table = DeltaTable(path)
    ours: Any = table.scan().to_arrow()
    table.append(pa.table({"id": [2, 3], "v": [ours["v"][0].as_py(), None]}))
    shown = judge.sql(f"SELECT id, to_json(v) AS v FROM delta.`{path}` ORDER BY id").to_pylist()
    assert [row["v"] for row in shown] == ['{"a":[1,"x"]}', '{"a":[1,"x"]}', None]
    judge.sql(f"INSERT INTO delta.`{path}` SELECT 4, parse_json('7')")
    assert ids_of(table.refresh()) == [1, 2, 3, 4]


@pytest.mark.parametrize("version", few({"V1": "V1", "V2": "V2"}, "V2"))
def test_compatibility_with_iceberg(tmp_path: Path, judge: Judge, version: str) -> None:
    path, other = tmp_path / "t", tmp_path / "u"
    properties = {f"delta.enableIcebergCompat{version}": "true", "delta.columnMapping.mode": "name"}
    kind = pa.int64() if version == "V1" else pa.list_(pa.int64())
    columns = pa.schema([("p", pa.string()), ("id", pa.int64()), ("x", kind)])
    values: list[Any] = [5, None] if version == "V1" else [[5, 6], None]
    rows = pa.table([["a", None], [1, 2], values], schema=columns)
    table = create_table(path, columns, partition_by="p", properties=properties)
    table.append(rows)
    shown = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    sql = "BIGINT" if version == "V1" else "ARRAY<BIGINT>"
    judge.sql(
        f"CREATE TABLE delta.`{other}` (p STRING, id BIGINT, x {sql}) USING delta PARTITIONED BY (p) "
        f"TBLPROPERTIES ({shown})"
    )
    theirs = DeltaTable(other)
    theirs.append(rows)
    value = "7" if version == "V1" else "array(7, 8)"
    for place, opened in ((path, table), (other, theirs)):
        judge.sql(f"INSERT INTO delta.`{place}` VALUES ('b', 3, {value})")
        judge.sql(f"DELETE FROM delta.`{place}` WHERE id = 2")
        judge.sql(f"ALTER TABLE delta.`{place}` ADD COLUMNS (late STRING)")
        opened.refresh().append(pa.table({"id": [4], "late": ["z"]}))
        same(opened.scan().to_arrow(), judge.sql(f"SELECT * FROM delta.`{place}`"))
        assert ids_of(opened) == [1, 3, 4]
