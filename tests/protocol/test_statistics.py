"""Per-file statistics, the reader's half (DL-STAT)."""

from __future__ import annotations

import datetime as dt
import json
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import open_table
from deltaberg.errors import SpecViolationError
from tests.support.delta_builder import DeltaBuilder
from tests.support.delta_schemas import field
from tests.support.effort import tries
from tests.support.recorder import Recorder
from tests.support.roads import by_every_road
from tests.support.rows import ID, ids, ids_of


def _files(builder: DeltaBuilder, filter: str) -> list[str]:
    """Return the names of the files that a filter leaves to be read."""
    paths = open_table(builder.root).scan(filter).files()["file_path"].to_pylist()
    return sorted(str(path).rsplit("/", 1)[-1].removesuffix(".parquet") for path in paths)


def _one(builder: DeltaBuilder, rows: pa.Table, stats: Any, **add: Any) -> None:
    """Make a table of one file, called f."""
    made = builder.add(rows, path="f.parquet", stats=stats, **add)
    builder.create(rows.schema, made, protocol=builder.features("deletionVectors", "timestampNtz"))


@by_every_road
@pytest.mark.req("DL-STAT-01")
def test_files_without_statistics_are_read(builder: DeltaBuilder) -> None:
    builder.create(
        ID,
        builder.add(ids(1, 2), path="low.parquet", stats="full"),
        builder.add(ids(150), path="high.parquet", stats="full"),
        builder.add(ids(3, 200), path="none.parquet"),
        builder.add(ids(4, 300), path="count.parquet", stats="count"),
        builder.add(ids(5, 400), path="broken.parquet", stats="{nonsense"),
        builder.add(ids(6, 500), path="empty.parquet", stats=""),
    )
    assert _files(builder, "id > 100") == ["broken", "count", "empty", "high", "none"]
    assert ids_of(open_table(builder.root), filter="id > 100") == [150, 200, 300, 400, 500]


@by_every_road
@pytest.mark.req("DL-STAT-02", half="reader")
@pytest.mark.parametrize("vector", [None, [0, 9]])
def test_records_are_counted_with_deleted_ones(builder: DeltaBuilder, vector: list[int] | None) -> None:
    stats = {"numRecords": 10, "tightBounds": vector is None}
    _one(builder, ids(*range(10)), stats, vector=None if vector is None else builder.vector(vector))
    scan = open_table(builder.root).scan()
    assert scan.files()["record_count"].to_pylist() == [10]
    assert scan.count() == (10 if vector is None else 8)
    assert scan.to_arrow().num_rows == scan.count()


@by_every_road
@pytest.mark.req("DL-STAT-03", half="reader")
def test_a_vector_needs_the_number_of_records(builder: DeltaBuilder) -> None:
    _one(builder, ids(*range(10)), "none", vector=builder.vector([0]))
    with pytest.raises(SpecViolationError, match="numRecords"):
        open_table(builder.root, validate=True)
    assert open_table(builder.root).scan().count() == 9


@pytest.mark.req("DL-STAT-04")
def test_without_a_flag_bounds_are_exact(builder: DeltaBuilder, recorder: Recorder) -> None:
    _one(builder, ids(*range(1, 9)), {"numRecords": 8, "minValues": {"id": 1}, "maxValues": {"id": 8}})
    scan = open_table(builder.root).scan()
    assert (scan.min("id"), scan.max("id")) == (1, 8)
    assert "f.parquet" not in recorder.read


@by_every_road
@pytest.mark.req("DL-STAT-05")
@pytest.mark.parametrize("flag", [{"tightBounds": False}, {}])
def test_wide_bounds_hold_but_need_not_occur(builder: DeltaBuilder, recorder: Recorder, flag: dict[str, bool]) -> None:
    stats = {"numRecords": 10, "minValues": {"id": 0}, "maxValues": {"id": 9}, "nullCount": {"id": 0}, **flag}
    _one(builder, ids(*range(10)), stats, vector=builder.vector([0, 9]))
    table = open_table(builder.root)
    assert _files(builder, "id > 9") == []
    assert _files(builder, "id < 0") == []
    assert _files(builder, "id = 0") == ["f"]
    assert ids_of(table, filter="id = 0") == []
    recorder.clear()
    assert (table.scan().min("id"), table.scan().max("id")) == (1, 8)
    assert "f.parquet" in recorder.read


def test_extremes_come_from_rows_where_bounds_are_not_exact(builder: DeltaBuilder) -> None:
    instant = dt.datetime(2020, 1, 1, 0, 0, 0, 123456, tzinfo=dt.timezone.utc)
    rows = pa.table(
        {
            "text": ["a" * 40, "b"],
            "at": pa.array([instant, None], pa.timestamp("us", "UTC")),
            "number": pa.array([float("nan"), 1.5]),
            "price": pa.array([Decimal("1.10"), Decimal("2.20")], pa.decimal128(9, 2)),
            "nothing": pa.array([None, None], pa.int64()),
            "p": ["x", "y"],
        }
    )
    first = builder.add(rows.slice(0, 1).drop_columns("p"), partition={"p": "x"}, stats="full")
    second = builder.add(rows.slice(1).drop_columns("p"), partition={"p": "y"}, stats="full")
    builder.create(rows.schema, first, second, partition_by=["p"])
    scan = open_table(builder.root).scan()
    found = {name: (scan.min(name), scan.max(name)) for name in ("text", "at", "price", "nothing", "p")}
    assert found == {
        "text": ("a" * 40, "b"),
        "at": (instant, instant),
        "price": (Decimal("1.10"), Decimal("2.20")),
        "nothing": (None, None),
        "p": ("x", "y"),
    }
    assert scan.min("number") == 1.5
    assert str(scan.max("number")) == "nan"
    assert open_table(builder.root).scan("text = 'b'").max("p") == "y"


@by_every_road
@pytest.mark.req("DL-STAT-06", half="reader")
def test_statistics_are_nested_like_the_schema(builder: DeltaBuilder) -> None:
    rows = pa.table({"a": [{"b": {"c": 1}}, {"b": {"c": 9}}]})
    stats = {
        "numRecords": 2,
        "minValues": {"a": {"b": {"c": 1}}},
        "maxValues": {"a": {"b": {"c": 9}}},
        "nullCount": {"a": {"b": {"c": 0}}},
    }
    _one(builder, rows, stats)
    kept = [_files(builder, text) for text in ("a.b.c = 9", "a.b.c > 9", "a.b.c < 1", "a.b.c IS NULL")]
    assert kept == [["f"], [], [], []]


@by_every_road
@pytest.mark.req("DL-STAT-07", half="reader")
@pytest.mark.parametrize("nulls", [0, 3])
def test_a_file_without_nulls_is_skipped(builder: DeltaBuilder, nulls: int) -> None:
    rows = pa.table({"id": pa.array([None] * nulls + list(range(10 - nulls)), pa.int64())})
    _one(builder, rows, "full")
    assert json.loads(builder.commits[0][2]["add"]["stats"])["nullCount"] == {"id": nulls}
    assert _files(builder, "id IS NULL") == (["f"] if nulls else [])
    assert open_table(builder.root).scan("id IS NULL").count() == nulls


@by_every_road
@pytest.mark.req("DL-STAT-08")
@pytest.mark.parametrize(("null_count", "is_null", "is_not_null"), [(10, ["f"], []), (0, [], ["f"]), (3, ["f"], ["f"])])
def test_wide_null_counts(builder: DeltaBuilder, null_count: int, is_null: list[str], is_not_null: list[str]) -> None:
    values = [None] * null_count + list(range(10 - null_count))
    stats = {"numRecords": 10, "nullCount": {"id": null_count}, "tightBounds": False}
    vector = builder.vector(range(3)) if null_count == 3 else None
    _one(builder, pa.table({"id": pa.array(values, pa.int64())}), stats, vector=vector)
    assert (_files(builder, "id IS NULL"), _files(builder, "id IS NOT NULL")) == (is_null, is_not_null)
    table = open_table(builder.root)
    assert table.scan("id IS NULL").count() == (10 if null_count == 10 else 0)
    assert table.scan("id IS NOT NULL").count() == {10: 0, 0: 10, 3: 7}[null_count]


@by_every_road
@pytest.mark.req("DL-STAT-09")
@pytest.mark.parametrize("stray", [{}, {"minValues": {"id": 5}, "maxValues": {"id": 5}}])
def test_bounds_of_nothing_mean_nothing(builder: DeltaBuilder, stray: dict[str, Any]) -> None:
    rows = pa.table({"id": pa.array([None, None], pa.int64())})
    _one(builder, rows, {"numRecords": 2, "nullCount": {"id": 2}, **stray})
    assert _files(builder, "id = 5") == []
    scan = open_table(builder.root).scan("id = 5")
    assert (scan.count(), scan.to_arrow().num_rows) == (0, 0)
    assert open_table(builder.root).scan("id IS NULL").count() == 2


@by_every_road
@pytest.mark.req("DL-STAT-10", half="reader")
@pytest.mark.parametrize(
    ("value", "low", "high"),
    [
        ("a" * 40, "a" * 32, "a" * 32 + "\x7f"),
        ("é" * 40, "é" * 32, "é" * 32 + "\U0010ffff"),
        ("\x7f" * 40, "\x7f" * 32, "\x7f" * 32 + "\U0010ffff"),
    ],
)
def test_cut_texts_do_not_hide_rows(builder: DeltaBuilder, value: str, low: str, high: str) -> None:
    rows = pa.table({"text": [value]})
    _one(builder, rows, {"numRecords": 1, "minValues": {"text": low}, "maxValues": {"text": high}})
    table = open_table(builder.root)
    for condition in (f"text = '{value}'", f"text > '{low}'", f"text LIKE '{value[:35]}%'", f"text >= '{value}'"):
        assert table.scan(condition).count() == 1, condition
    assert table.scan(f"text = '{low}'").count() == 0
    assert (table.scan().min("text"), table.scan().max("text")) == (value, value)
    assert _files(builder, f"text < '{low}'") == []
    assert _files(builder, f"text > '{high}'") == []


@by_every_road
@pytest.mark.req("DL-STAT-11", half="reader")
@pytest.mark.parametrize("zone", ["UTC", None])
@pytest.mark.parametrize("checkpoint", [None, "json", "struct"])
def test_cut_timestamps_do_not_hide_rows(builder: DeltaBuilder, zone: str | None, checkpoint: str | None) -> None:
    value = dt.datetime(2020, 1, 1, 0, 0, 0, 123456)
    rows = pa.table({"at": pa.array([value], pa.timestamp("us")).cast(pa.timestamp("us", zone))})
    cut = "2020-01-01T00:00:00.123" + ("Z" if zone else "")
    _one(builder, rows, {"numRecords": 1, "minValues": {"at": cut}, "maxValues": {"at": cut}})
    if checkpoint == "struct":
        typed = {"at": rows["at"][0].as_py().replace(microsecond=123000)}
        stats = {"numRecords": 1, "minValues": typed, "maxValues": typed}
        builder.commits[0][2] = {"add": {**builder.commits[0][2]["add"], "stats": stats}}
    if checkpoint:
        builder.checkpoint(stats=checkpoint)
    kind = "TIMESTAMP" if zone else "TIMESTAMP_NTZ"
    table = open_table(builder.root)
    for condition in (
        f"at = {kind} '2020-01-01 00:00:00.123456'",
        f"at > {kind} '2020-01-01 00:00:00.123'",
        f"at >= {kind} '2020-01-01 00:00:00.123456'",
        f"at <= {kind} '2020-01-01 00:00:00.123456'",
    ):
        assert table.scan(condition).count() == 1, condition
    assert _files(builder, f"at > {kind} '2020-01-01 00:00:00.124'") == []
    assert table.scan(f"at < {kind} '2020-01-01 00:00:00.123456'").count() == 0


@pytest.mark.req("DL-STAT-12", half="reader")
@pytest.mark.parametrize("stats", ["json", "struct"])
def test_text_and_struct_say_the_same(builder: DeltaBuilder, recorder: Recorder, stats: str) -> None:
    day = dt.date(2017, 12, 10)
    rows = pa.table({"quantity": [1.5], "day": pa.array([day], pa.date32())})
    _one(builder, rows, "full")
    written = json.loads(builder.commits[0][2]["add"]["stats"])
    assert written["minValues"] == {"quantity": 1.5, "day": "2017-12-10"}
    if stats == "struct":
        typed = {name: {"quantity": 1.5, "day": day} for name in ("minValues", "maxValues")}
        body = {**builder.commits[0][2]["add"], "stats": {**written, **typed}}
        builder.commits[0][2] = {"add": body}
    builder.checkpoint(stats=stats)
    (builder.log / f"{0:020d}.json").unlink()
    kept = [
        _files(builder, text)
        for text in ("quantity = 1.5", "quantity < 1.5", "day = DATE '2017-12-10'", "day < DATE '2017-12-10'")
    ]
    assert kept == [["f"], [], ["f"], []]
    assert "f.parquet" not in recorder.read


@by_every_road
@pytest.mark.req("DL-STAT-13", half="reader")
def test_statistics_have_physical_names(builder: DeltaBuilder) -> None:
    physical = "col-04ee4877-ee53-4cb9-b1fb-1a4eb74b508c"
    columns = [
        field("quantity", "double", delta__columnMapping__id=1, delta__columnMapping__physicalName=physical),
        field(physical, "double", delta__columnMapping__id=2, delta__columnMapping__physicalName="quantity"),
    ]
    stats = {
        "numRecords": 1,
        "minValues": {physical: 1.0, "quantity": 7.0},
        "maxValues": {physical: 1.0, "quantity": 7.0},
    }
    rows = pa.table({physical: [1.0], "quantity": [7.0]})
    builder.create(
        columns,
        builder.add(rows, path="f.parquet", stats=stats),
        configuration={"delta.columnMapping.mode": "name"},
        protocol=builder.protocol(2, 5),
    )
    assert (_files(builder, "quantity = 1"), _files(builder, "quantity = 7")) == (["f"], [])


@by_every_road
@pytest.mark.req("DL-STAT-14")
def test_nan_is_above_every_bound(builder: DeltaBuilder) -> None:
    _one(
        builder,
        pa.table({"x": [1.0, float("nan")]}),
        {"numRecords": 2, "minValues": {"x": 1.0}, "maxValues": {"x": 1.0}, "nullCount": {"x": 0}},
    )
    assert _files(builder, "x > 5") == ["f"]
    assert open_table(builder.root).scan("x > 5").count() == 1
    assert open_table(builder.root).scan("x <= 1").count() == 1


_VALUES: dict[str, tuple[pa.DataType, Any]] = {
    "i": (pa.int64(), lambda rng: rng.choice([None, rng.randrange(-5, 6), 2**63 - 1, -(2**63)])),
    "d": (
        pa.float64(),
        lambda rng: rng.choice([None, float("nan"), 0.0, -0.0, rng.uniform(-5, 5), float("inf"), float("-inf")]),
    ),
    "n": (pa.decimal128(20, 3), lambda rng: rng.choice([None, Decimal(rng.randrange(-5000, 5000)).scaleb(-3)])),
    "s": (pa.string(), lambda rng: rng.choice([None, "", "a", "b" * 40, "é", "\U0010ffff", "b" * rng.randrange(50)])),
    "t": (pa.timestamp("us", "UTC"), lambda rng: rng.choice([None, rng.randrange(-5_000, 5_000)])),
    "y": (pa.date32(), lambda rng: rng.choice([None, rng.randrange(-5, 5), 60_000])),
    "b": (pa.bool_(), lambda rng: rng.choice([None, True, False])),
}
_LITERALS = {
    "i": ["0", "-3", "2", "9223372036854775807", "1.5"],
    "d": ["0.0", "1.5", "-2", "CAST('NaN' AS DOUBLE)"],
    "n": ["0", "1.250", "-3.1", "4.9999"],
    "s": ["''", "'a'", "'b'", f"'{'b' * 40}'", f"'{'b' * 33}'", "'é'"],
    "t": ["TIMESTAMP '1970-01-01 00:00:00'", "TIMESTAMP '1970-01-01 00:00:00.001001'"],
    "y": ["DATE '1970-01-01'", "DATE '1969-12-30'"],
    "b": ["true", "false"],
}


def _predicate(rng: random.Random, depth: int = 2) -> str:
    if depth and rng.random() < 0.5:
        left, right = _predicate(rng, depth - 1), _predicate(rng, depth - 1)
        return rng.choice([f"({left} AND {right})", f"({left} OR {right})", f"NOT ({left})"])
    name = rng.choice(list(_VALUES))
    literals = _LITERALS[name]
    kinds = [
        f"{name} {rng.choice(['=', '!=', '<', '<=', '>', '>=', '<=>'])} {rng.choice(literals)}",
        f"{name} IS {rng.choice(['', 'NOT '])}NULL",
        f"{name} {rng.choice(['', 'NOT '])}IN ({rng.choice(literals)}, {rng.choice(literals)}, NULL)",
        f"{name} BETWEEN {rng.choice(literals)} AND {rng.choice(literals)}",
    ]
    if name == "s":
        kinds.append(f"s {rng.choice(['', 'NOT '])}LIKE '{rng.choice(['b%', '%', 'a', '_', 'b_b%'])}'")
    return rng.choice(kinds)


def _bounds(column: pa.ChunkedArray, name: str) -> tuple[Any, Any] | None:
    """Return the bounds that a writer records: cut as Spark cuts them."""
    values = [value for value in column.drop_null().to_pylist() if value == value]  # noqa: PLR0124 - NaN
    if not values or name == "b":
        return None
    low, high = min(values), max(values)
    if name == "s":
        cut = high[:32] + ("\U0010ffff" if len(high) > 32 else "")
        return low[:32], cut
    if name in "ty":
        low, high = low.isoformat(), high.isoformat()
    if name == "t":
        moments = [value.astimezone(dt.timezone.utc) for value in (min(values), max(values))]
        low, high = (one.strftime("%Y-%m-%dT%H:%M:%S.") + f"{one.microsecond // 1000:03d}Z" for one in moments)
    if name == "d":
        low, high = (None if abs(one) == float("inf") else one for one in (low, high))
    if name == "n":
        low, high = float(low), float(high)
    return low, high


def _recorded(rows: pa.Table, wide: bool) -> dict[str, Any]:
    found = {name: _bounds(rows[name], name) for name in rows.column_names}
    return {
        "numRecords": len(rows),
        "minValues": {name: pair[0] for name, pair in found.items() if pair and pair[0] is not None},
        "maxValues": {name: pair[1] for name, pair in found.items() if pair and pair[1] is not None},
        "nullCount": {name: rows[name].null_count for name in rows.column_names},
        "tightBounds": not wide,
    }


@pytest.mark.slow
@pytest.mark.req("DL-STAT-14")
@pytest.mark.parametrize("run", [0, pytest.param(1, marks=pytest.mark.full), pytest.param(2, marks=pytest.mark.full)])
def test_skipping_never_drops_a_row(builder: DeltaBuilder, tmp_path: Any, seed: int, run: int) -> None:
    """Random rows, random deletes, random predicates: the same rows with statistics and without."""
    rng = random.Random(seed + run)
    plain = DeltaBuilder(tmp_path / "plain")
    schema = pa.schema([(name, kind) for name, (kind, _) in _VALUES.items()])
    features = builder.features("deletionVectors")
    for table in (builder, plain):
        table.create(schema, protocol=features)
    for number in range(12):
        rows = pa.table({name: pa.array([make(rng) for _ in range(6)], kind) for name, (kind, make) in _VALUES.items()})
        deleted = rng.sample(range(6), 2) if number % 3 == 0 else []
        vector = builder.vector(deleted, "i") if deleted else None
        builder.commit(builder.add(rows, stats=_recorded(rows, bool(deleted)), vector=vector))
        plain.commit(plain.add(rows, vector=vector))
    builder.checkpoint(6)
    with_stats, without = open_table(builder.root), open_table(plain.root)
    skipped = 0
    for _ in range(150):
        condition = _predicate(rng)
        scan, other = with_stats.scan(condition), without.scan(condition)
        found, wanted = (sorted(map(repr, one.to_arrow().to_pylist())) for one in (scan, other))
        assert found == wanted, condition
        assert scan.count() == len(wanted), condition
        skipped += 12 - scan.files().num_rows
    assert skipped > 100


@by_every_road
@pytest.mark.req("DL-STAT-15", half="reader")
@pytest.mark.parametrize("stats", [None, '{"numRecords":3}', "nonsense"])
def test_statistics_of_a_remove_are_for_information(builder: DeltaBuilder, stats: str | None) -> None:
    add = builder.add(ids(1))
    builder.create(ID, add, builder.add(ids(2)))
    removed: dict[str, Any] = {} if stats is None else {"stats": stats}
    builder.commit(builder.remove(add, **removed))
    assert ids_of(open_table(builder.root, "delta")) == [2]
    assert open_table(builder.root, "delta").tombstones.num_rows == 1


@by_every_road
@pytest.mark.req("DL-STAT-16")
@pytest.mark.parametrize("checkpoint", [None, "json", "struct"])
def test_unknown_keys_are_ignored(builder: DeltaBuilder, checkpoint: str | None) -> None:
    stats = {
        "numRecords": 1,
        "minValues": {"dropped_col": 5, "id": 1},
        "maxValues": {"dropped_col": 5, "id": 1},
        "nullCount": {"dropped_col": 0, "id": 0},
        "more": {"a": [1]},
    }
    _one(builder, ids(1), stats)
    if checkpoint:
        builder.checkpoint(stats=checkpoint)
    assert (_files(builder, "id = 1"), _files(builder, "id = 5")) == (["f"], [])


@pytest.mark.thorough
@pytest.mark.req("DL-STAT-14")
@pytest.mark.parametrize("scale", [0, 2, 13, 38])
@pytest.mark.parametrize("checkpoint", [False, True])
def test_decimals_that_went_through_a_double(
    builder: DeltaBuilder, rng: random.Random, scale: int, checkpoint: bool
) -> None:
    """Some writers record decimals as doubles, which keep 15 digits of the 38."""
    numbers = sorted({rng.randrange(10 ** rng.randrange(15, 39)) * rng.choice((-1, 1)) for _ in range(tries(40))})
    numbers += [10**19 + 1, -(10**19) - 1, 10**38 - 1, 1 - 10**38, 10**15, 999_999_999_999_999]
    kind = pa.decimal128(38, scale)
    values = [Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale)) for number in numbers]
    schema = pa.schema([("n", kind)])
    adds = []
    for value in values:
        stats = {"numRecords": 1, "minValues": {"n": float(value)}, "maxValues": {"n": float(value)}}
        adds.append(builder.add(pa.table({"n": pa.array([value], kind)}), stats={**stats, "nullCount": {"n": 0}}))
    builder.create(schema, *adds)
    if checkpoint:
        builder.checkpoint()
    table = open_table(builder.root)
    for value in values:
        for operator in ("=", ">=", "<="):
            found = table.scan([("n", operator, value)]).to_arrow()["n"].to_pylist()
            assert value in found, (operator, value)
    by_statistics = table.scan([("n", "=", values[-1])]).files().num_rows
    assert by_statistics < len(values) // 2


def test_timestamps_of_structs_in_a_checkpoint_and_of_texts_in_commits(builder: DeltaBuilder) -> None:
    """delta-spark writes both kinds of statistics, and commits follow its checkpoints."""
    schema = pa.schema([("at", pa.timestamp("us", "UTC"))])

    def add(name: str, year: int) -> Any:
        rows = pa.table({"at": [dt.datetime(year, 1, 1, tzinfo=dt.timezone.utc)]}, schema)
        bound = {"at": f"{year}-01-01T00:00:00.000Z"}
        stats = {"numRecords": 1, "minValues": bound, "maxValues": bound, "nullCount": {"at": 0}}
        return builder.add(rows, path=f"{name}.parquet", stats=stats)

    builder.create(schema, add("old", 2020), add("kept", 2021))
    (checkpoint,) = builder.checkpoint(stats="struct")
    actions = pq.read_table(checkpoint)
    place = actions.schema.get_field_index("add")
    typed = actions.column("add").cast(_with_instants(actions.schema.field("add").type))
    pq.write_table(actions.set_column(place, "add", typed), checkpoint)
    builder.commit(add("new", 2022))
    builder.commit(add("newer", 2023))
    assert _files(builder, "at >= '2021-01-01T00:00:00Z' AND at < '2023-01-01T00:00:00Z'") == ["kept", "new"]


def _with_instants(kind: pa.DataType) -> pa.DataType:
    """Make the bounds of the column at timestamps, which the builder writes as texts."""
    if pa.types.is_string(kind):
        return pa.timestamp("us", "UTC")
    names = ("stats_parsed", "minValues", "maxValues", "at")
    return pa.struct([child.with_type(_with_instants(child.type)) if child.name in names else child for child in kind])
