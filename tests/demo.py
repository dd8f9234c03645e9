"""What the library is for, on tables made here: ``make demo``.

Builders write two Delta tables byte by byte, one partitioned with deletion vectors, one with column mapping and a
renamed column, and an Iceberg table with hidden partitions, a renamed column and both kinds of deletes. deltaberg reads
them on Spark, with no jar. Then deltaberg creates a table itself, appends to it and overwrites a part of it; Spark and
deltalake read it. Rows of a table of each format are deleted and updated, and a pipeline on Spark writes what a Python
function makes of them. A stream takes rows from a Delta table into an Iceberg table, which is put in order. The rows
are checked against what the generators wrote, not against another reading of ours.
"""

from __future__ import annotations

import datetime as dt
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc

import deltaberg
import deltaberg.spark
from deltaberg import kernels
from deltaberg.choices import Format
from tests.support.delta_builder import DeltaBuilder
from tests.support.delta_schemas import field
from tests.support.iceberg_builder import IcebergBuilder
from tests.support.spark_session import start_session

_REGIONS = ["north", "south", "east & west", None]
_ROWS = 50_000
_EVENTS = 20_000
#: What has tables of each format hide the rows that are deleted.
_PROPERTIES: dict[Format, dict[str, Any]] = {
    "delta": {"delta.enableDeletionVectors": True, "delta.enableChangeDataFeed": True},
    "iceberg": {
        "format-version": 3,
        "write.delete.mode": "merge-on-read",
        "write.update.mode": "merge-on-read",
    },
}

Row = dict[str, Any]


def build_orders(folder: Path) -> list[Row]:
    """Write a partitioned table with deletion vectors of each kind; return the rows that are left."""
    table = DeltaBuilder(folder)
    columns = pa.schema(
        [("id", pa.int64()), ("day", pa.date32()), ("price", pa.decimal128(12, 2)), ("region", pa.string())]
    )
    adds, left = [], []
    for number, region in enumerate(_REGIONS):
        ids = range(number * _ROWS, (number + 1) * _ROWS)
        rows: list[Row] = [
            {
                "id": one,
                "day": dt.date(2026, 1, 1) + dt.timedelta(days=one % 365),
                "price": Decimal(one % 10_007).scaleb(-2),
            }
            for one in ids
        ]
        deleted = {position for position in range(_ROWS) if position % 97 == number}
        vector = table.vector(deleted, "uip"[number]) if number < 3 else None
        directory = "region=__HIVE_DEFAULT_PARTITION__" if region is None else f"region={region}"
        adds.append(
            table.add(
                pa.Table.from_pylist(rows, columns.remove(3)),
                path=f"{directory}/part-{number}.parquet",
                partition={"region": region},
                stats="full",
                vector=vector,
                writer={"row_group_size": 10_000},
            )
        )
        left += [{**row, "region": region} for at, row in enumerate(rows) if vector is None or at not in deleted]
    features = table.features("deletionVectors")
    table.create(columns, *adds[:2], partition_by=["region"], protocol=features)
    table.commit(*adds[2:])
    table.checkpoint(pointer=True)
    return left


def build_customers(folder: Path) -> list[Row]:
    """Write a table whose files hold physical names, and whose column was renamed; return its rows."""
    table = DeltaBuilder(folder)

    def columns(name: str) -> list[Row]:
        return [
            field("id", "long", delta__columnMapping__id=1, delta__columnMapping__physicalName="col-1a"),
            field(name, "string", delta__columnMapping__id=2, delta__columnMapping__physicalName="col-2b"),
        ]

    mode = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"}
    names = ["Ada", "Grace", "Edsger", "Barbara"]
    rows = pa.table({"col-1a": list(range(len(names))), "col-2b": names})
    table.create(columns("name"), table.add(rows), configuration=mode, protocol=table.protocol(2, 5))
    table.commit(table.metadata(columns("customer name"), configuration=mode))
    return [{"id": number, "customer name": name} for number, name in enumerate(names)]


def build_events(folder: Path) -> list[Row]:
    """Write an Iceberg table by days, with position and equality deletes and a column renamed; return its rows."""
    days = [{"source-id": 2, "name": "at_day", "transform": "day"}]
    table = IcebergBuilder(folder, {"id": "long", "at": "timestamptz", "kind": "string"}, specs=[days])
    start = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
    files, written = [], []
    for day in range(3):
        rows: list[Row] = [
            {"id": day * _EVENTS + n, "at": start + dt.timedelta(days=day, seconds=n), "kind": f"kind-{n % 5}"}
            for n in range(_EVENTS)
        ]
        files.append(table.data(rows, partition={"at_day": (start + dt.timedelta(days=day)).date()}))
        written += rows
    table.commit(*files)
    table.commit(table.position_deletes([(files[1], place) for place in range(0, _EVENTS, 10)]), operation="delete")
    partition = files[2].partition
    table.commit(table.equality_deletes([3], [{"kind": "kind-3"}], partition=partition), operation="delete")
    table.schemas.append(
        [{**child, "name": {"kind": "category"}.get(child["name"], child["name"])} for child in table.fields]
    )
    table.write()
    left = [row for row in written if row["id"] // _EVENTS != 1 or row["id"] % 10]
    left = [row for row in left if row["id"] // _EVENTS != 2 or row["kind"] != "kind-3"]
    return [{"id": row["id"], "at": row["at"], "category": row["kind"]} for row in left]


def revenue(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add up prices by region: a function of a user, which sees batches with the deleted rows gone."""
    for batch in batches:
        grouped = pa.table(batch).group_by("region").aggregate([("price", "sum"), ("price", "count")])
        sums = pc.cast(grouped["price_sum"], pa.decimal128(18, 2))
        yield from pa.table(
            {"region": grouped["region"], "revenue": sums, "orders": grouped["price_count"]}
        ).to_batches()


def check(what: str, actual: list[Row], expected: list[Row]) -> None:
    """Compare rows as bags of values, and say how it went."""

    def bag(rows: list[Row]) -> Counter[tuple[tuple[str, Any], ...]]:
        # Equal instants are equal values, whichever object stands for UTC.
        return Counter(tuple(sorted(row.items())) for row in rows)

    missing, surplus = bag(expected) - bag(actual), bag(actual) - bag(expected)
    if missing or surplus:
        print(f"WRONG  {what}: {missing.total()} rows missing, {surplus.total()} rows too many")
        sys.exit(1)
    print(f"ok     {what}: {len(actual):,} rows are the ones that were written")


def main() -> None:
    """Build, read, check."""
    backend = kernels.report()
    print(f"deltaberg {deltaberg.__version__}, {backend.backend} kernels ({backend.reason})\n")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        orders, customers = build_orders(folder / "orders & more"), build_customers(folder / "customers")
        events = build_events(folder / "events")
        spark = start_session()
        try:
            _read_orders(spark, str(folder / "orders & more"), orders)
            _read_customers(spark, str(folder / "customers"), customers)
            _read_events(spark, str(folder / "events"), events)
            _write_and_read(spark, str(folder / "sensors"))
            for table_format in _PROPERTIES:
                _change_rows(spark, folder, table_format)
            _stream_across(spark, folder)
        finally:
            spark.stop()


def _read_orders(spark: Any, location: str, written: list[Row]) -> None:
    table = deltaberg.open_table(location)
    check("all orders, on this machine", table.scan().to_arrow().to_pylist(), written)

    scan = table.scan(filter="region = 'south' AND day >= DATE '2026-12-01' AND id < 70000")
    expected = [
        row for row in written if row["region"] == "south" and row["day"] >= dt.date(2026, 12, 1) and row["id"] < 70_000
    ]
    frame = scan.to_spark(spark)
    print()
    frame.show(3)
    check("filtered orders, on Spark", frame.toArrow().to_pylist(), expected)
    print(f"\n{scan.explain()}\n")

    totals = table.scan(columns=["region", "price"]).map_in_arrow(
        spark, revenue, "region string, revenue decimal(18,2), orders bigint"
    )
    summed = totals.groupBy("region").agg({"revenue": "sum", "orders": "sum"})
    filtered = [
        {"region": row[0], "revenue": row["sum(revenue)"], "orders": row["sum(orders)"]} for row in summed.collect()
    ]
    prices: dict[str | None, list[Decimal]] = {}
    for row in written:
        prices.setdefault(row["region"], []).append(row["price"])
    summed.show()
    check(
        "revenue by region, by a Python function inside the reading tasks",
        filtered,
        [{"region": region, "revenue": sum(one), "orders": len(one)} for region, one in prices.items()],
    )


def _read_customers(spark: Any, location: str, written: list[Row]) -> None:
    deltaberg.spark.register(spark)
    frame = spark.read.format("delta").load(location)
    print()
    frame.show()
    check("customers with a renamed column, by spark.read.format('delta')", frame.toArrow().to_pylist(), written)
    first = spark.read.format("delta").option("versionAsOf", 0).load(location)
    old = [{"id": row["id"], "name": row["customer name"]} for row in written]
    check("the same as of version 0, before the renaming", first.toArrow().to_pylist(), old)


def _read_events(spark: Any, location: str, written: list[Row]) -> None:
    table = deltaberg.open_table(location, "iceberg")
    print(f"\nan Iceberg table of version {table.format_version}: {[found.operation for found in table.snapshots]}")
    check("all events, on this machine", table.scan().to_arrow().to_pylist(), written)
    scan = table.scan(filter="at >= TIMESTAMP '2026-01-02 03:00:00' AND category = 'kind-3'")
    noon = dt.datetime(2026, 1, 2, 3, tzinfo=dt.timezone.utc)
    wanted = [row for row in written if row["at"] >= noon and row["category"] == "kind-3"]
    check("filtered events, on Spark", scan.to_spark(spark).toArrow().to_pylist(), wanted)
    print(f"\n{scan.explain()}\n")
    frame = spark.read.format("iceberg").option("snapshot-id", table.snapshots[0].snapshot_id).load(location)
    print(f"       before the deletes there were {frame.count():,} rows, by spark.read.format('iceberg')")


def _write_and_read(spark: Any, location: str) -> None:
    """Create, append, add a column and overwrite a partition on this machine; read here, on Spark and by deltalake."""
    columns = pa.schema([("id", pa.int64()), ("room", pa.string()), ("celsius", pa.float64())])
    rooms = ["north", "50% & more", None]
    rows: list[Row] = [
        {"id": number, "room": rooms[number % 3], "celsius": number / 8, "note": None} for number in range(30_000)
    ]
    table = deltaberg.create_table(location, columns, partition_by="room")
    table.append(pa.Table.from_pylist(rows[:20_000], columns))
    noted = columns.append(pa.field("note", pa.string()))
    more = [{**row, "note": f"#{row['id']}"} for row in rows[20_000:]]
    print(f"\n{table.append(pa.Table.from_pylist(more, noted), schema_mode='merge')}")
    corrected: list[Row] = [{"id": -1, "room": "north", "celsius": 20.5, "note": "corrected"}]
    table.overwrite(pa.Table.from_pylist(corrected, noted), where=[("room", "=", "north")])
    left = [row for row in [*rows[:20_000], *more] if row["room"] != "north"] + corrected
    check("a table that was created here, on this machine", table.scan().to_arrow().to_pylist(), left)
    check("the same on Spark", table.scan().to_spark(spark).toArrow().to_pylist(), left)
    theirs = pa.table(deltalake.DeltaTable(location).to_pyarrow_table())
    check("the same by deltalake", theirs.to_pylist(), left)


def _change_rows(spark: Any, folder: Path, table_format: Format) -> None:
    """Delete and update rows, read the changes, and run a pipeline on Spark: read, compute, write."""
    columns = pa.schema([("id", pa.int64()), ("region", pa.string()), ("price", pa.decimal128(12, 2))])
    rows: list[Row] = [
        {"id": number, "region": _REGIONS[number % 4], "price": Decimal(number).scaleb(-2)} for number in range(20_000)
    ]
    place, what = folder / f"{table_format} bookings", f"of a table of the format {table_format}"
    create: Any = deltaberg.create_table
    table = create(place, columns, format=table_format, properties=_PROPERTIES[table_format])
    first = table.append(pa.Table.from_pylist(rows, columns))
    print(f"\n{table.delete('id % 10 = 3')}")
    kept = [row for row in rows if row["id"] % 10 != 3]
    check(f"rows {what} that were not deleted", table.scan().to_arrow().to_pylist(), kept)
    before = table.snapshot_id if table_format == "iceberg" else table.version + 1
    table.update({"price": "price * 2"}, "region = 'south' AND id < 1000")
    changed = [row for row in kept if row["region"] == "south" and row["id"] < 1000]
    doubled = [{**row, "price": 2 * row["price"]} for row in changed]
    left = [row for row in kept if row not in changed] + doubled
    check("the same after an update, on Spark", table.scan().to_spark(spark).toArrow().to_pylist(), left)
    moment = {"snapshot_id": first.snapshot_id} if table_format == "iceberg" else {"version": first.version}
    older = deltaberg.open_table(place, table_format, **moment)
    check("as it was before the delete", older.scan().to_arrow().to_pylist(), rows)
    kind = "INSERT" if table_format == "iceberg" else "update_postimage"
    feed = table.changes(before, filter=f"_change_type = '{kind}'", columns=["id", "region", "price"])
    check("the changes of the update", feed.to_arrow().to_pylist(), doubled)

    scan = table.scan("region IS NOT NULL", ["region", "price"])
    summed = scan.map_in_arrow(spark, revenue, "region string, revenue decimal(18,2), orders bigint")
    result = deltaberg.write_table(folder / f"{table_format} revenue", summed, format=table_format)
    print(f"\nread, computed and written in one task, by the {result.road} road")
    written = deltaberg.open_table(folder / f"{table_format} revenue").scan().to_arrow().group_by("region")
    sums = written.aggregate([("revenue", "sum"), ("orders", "sum")]).to_pylist()
    prices: dict[str, list[Decimal]] = {}
    for row in left:
        if row["region"] is not None:
            prices.setdefault(row["region"], []).append(row["price"])
    wanted = [{"region": name, "revenue_sum": sum(one), "orders_sum": len(one)} for name, one in prices.items()]
    check("what the pipeline wrote", sums, wanted)


def in_fahrenheit(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Convert temperatures: a function of a user, which runs where a stream is read."""
    for batch in batches:
        warmth = pc.add(pc.multiply(batch["celsius"], 1.8), 32.0)
        yield pa.record_batch({"id": batch["id"], "fahrenheit": warmth})


def _stream_across(spark: Any, folder: Path) -> None:
    """Stream from a Delta table into an Iceberg table, and put the table in order."""
    source = deltaberg.create_table(folder / "readings", {"id": pa.int64(), "celsius": pa.float64()})
    place = folder / "converted"
    rows = [{"id": number, "celsius": float(number % 40)} for number in range(6_000)]
    for first in range(0, len(rows), 2_000):
        source.append(pa.Table.from_pylist(rows[first : first + 2_000]))
    frame = deltaberg.spark.read_stream(source, spark).map_in_arrow(in_fahrenheit, "id bigint, fahrenheit double")
    query = frame.writeStream.format("iceberg").option("checkpointLocation", str(folder / "checkpoint"))
    query.trigger(availableNow=True).start(str(place)).awaitTermination()
    table = deltaberg.open_table(place, "iceberg")
    expected = [{"id": row["id"], "fahrenheit": row["celsius"] * 1.8 + 32.0} for row in rows]
    print()
    check("a stream from Delta into Iceberg", table.scan().to_arrow().to_pylist(), expected)
    table.compact()
    now = dt.datetime.now(dt.timezone.utc)
    expired = table.expire_snapshots(older_than=now, retain_last=1)
    files = len(list(place.rglob("*.parquet")))
    check(f"the same, compacted into {files} file", table.scan().to_arrow().to_pylist(), expected)
    print(f"       cleaning up deleted {len(expired.files)} files")
    if files != 1 or len(table.snapshots) != 1:
        print(f"WRONG  there are {files} data files, and {len(table.snapshots)} snapshots")
        sys.exit(1)


if __name__ == "__main__":
    main()
