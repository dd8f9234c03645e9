"""The native road: how files are named, told apart, joined and chosen, and that no row is lost."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from deltaberg import open_table
from deltaberg.errors import InvalidArgumentError
from deltaberg.schema.types import Field, Primitive
from deltaberg.spark import session as sessions
from deltaberg.spark.hashes import xxhash64
from deltaberg.spark.native import file_keys, opening, plan, verdicts
from deltaberg.spark.session import SessionFacts
from tests.spark.doors import needs_native
from tests.spark.native_road import ids, same, setting, shown_plan, why_not
from tests.support.delta_builder import DeltaBuilder
from tests.support.roads import collect, native_plan, rows_of

pytestmark = [pytest.mark.spark, needs_native]

_ID = pa.schema([("id", pa.int64())])


def test_hashes(spark: Any) -> None:
    from pyspark.sql import functions as sf

    texts = ["", "a", "abcd", "abcdefgh", "x" * 31, "y" * 32, "z" * 33, "ü ä€" * 9, "p" * 100, *map(str, range(50))]
    frame = spark.createDataFrame([(text,) for text in texts], "t string").select("t", sf.xxhash64("t").alias("h"))
    assert all(row["h"] == xxhash64(row["t"]) for row in frame.collect())


_NAMES = ["a b.parquet", "ü ä.parquet", "x=1+2&3.parquet", "a#b.parquet", "a?b.parquet", "[a]{b}*.parquet"]
_NAMES += ["100%.parquet", "~!@$^(),;'.parquet", "d e/same.parquet", "p=1/same.parquet", "p=a%20b/same.parquet"]


def test_names_that_are_patterns(builder: DeltaBuilder, spark: Any) -> None:
    """A file that another file's name matches is read once. Connect expands such names, so that they go by Arrow."""
    names = ["a*b.parquet", "aXb.parquet", "a?b.parquet", "{x}.parquet", "x.parquet", "[1].parquet", "1.parquet"]
    builder.create(_ID, *[builder.add(pa.table({"id": [n]}), path=name) for n, name in enumerate(names)])
    scan = open_table(builder.root).scan()
    assert ids(collect(scan.to_spark(spark))) == list(range(7))
    remote = {"Spark Connect would take its name for a pattern": 4} if SessionFacts.of(spark).is_remote else {}
    assert native_plan(scan, spark, forced=True).reasons == remote


@pytest.mark.parametrize("vectors", [True, False])
def test_names_that_need_care(builder: DeltaBuilder, spark: Any, vectors: bool) -> None:
    """Names that are encoded, that have characters which Spark would expand, or that several files share."""
    adds = [
        builder.add(
            pa.table({"id": range(10 * number, 10 * number + 10)}),
            path=name,
            vector=builder.vector([number % 10], "i") if vectors else None,
        )
        for number, name in enumerate(_NAMES)
    ]
    builder.create(_ID, *adds, protocol=builder.features("deletionVectors"))
    found = ids(same(open_table(builder.root).scan(), spark))
    gone = {10 * number + number % 10 for number in range(len(_NAMES))} if vectors else set()
    assert found == [number for number in range(10 * len(_NAMES)) if number not in gone]


@pytest.mark.parametrize("name", ["_x.parquet", ".x.parquet", "x._COPYING_", "a:b.parquet", "a\u2028b.parquet"])
def test_names_that_spark_passes_over(builder: DeltaBuilder, spark: Any, name: str) -> None:
    builder.create(_ID, builder.add(pa.table({"id": [1, 2]}), path=name))
    assert why_not(open_table(builder.root).scan(), spark) == "Spark does not open a file of its name"


def test_hashes_that_collide(builder: DeltaBuilder, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    adds = [builder.add(pa.table({"id": [number]}), vector=builder.vector([5], "i")) for number in range(3)]
    builder.create(_ID, *adds, protocol=builder.features("deletionVectors"))
    scan = open_table(builder.root).scan()
    monkeypatch.setattr(file_keys, "xxhash64", lambda text: 7 if "/" not in text else xxhash64(text))
    assert (file_keys.file_keys(["/t/a", "/t/b"], "file") or [""])[0] == "file_path"
    assert ids(same(scan, spark)) == [0, 1, 2]
    monkeypatch.setattr(file_keys, "xxhash64", lambda _: 7)
    assert why_not(scan, spark) == "its path has the same hash as another path"


def _partitioned(builder: DeltaBuilder) -> None:
    schema = pa.schema([("id", pa.int64()), ("p", pa.string())])
    adds = [
        builder.add(
            pa.table({"id": range(100 * number, 100 * number + 100)}),
            partition={"p": None if number == 2 else f"v {number}"},
            vector=builder.vector(range(0, 100, 3), "u") if number else None,
        )
        for number in range(4)
    ]
    builder.create(schema, *adds, partition_by=["p"], protocol=builder.features("deletionVectors"))


@pytest.mark.parametrize("filters", [(None, None), ("p = 'v 1'", None), (None, "p = 'v 1'"), (None, "p IS NULL")])
def test_a_file_that_the_plan_does_not_know_fails(
    builder: DeltaBuilder, spark: Any, monkeypatch: pytest.MonkeyPatch, filters: tuple[str | None, str | None]
) -> None:
    """It fails whatever is asked of its rows; an inner join would drop them silently."""
    _partitioned(builder)

    def wrong(locations: list[str], _: str) -> Any:
        return "file_name", [[number] for number in range(len(locations))]

    monkeypatch.setattr(plan, "file_keys", wrong)
    frame = open_table(builder.root).scan(filters[0]).to_spark(spark, road="native")
    chosen = frame if filters[1] is None else frame.filter(filters[1])
    for query in (chosen, chosen.select("id"), chosen.groupBy().count(), chosen.limit(3)):
        with pytest.raises(Exception, match="a row of a file that the plan does not know"):
            query.collect()


def test_damaged_and_missing_files_fail(builder: DeltaBuilder, spark: Any) -> None:
    """They fail even where the session is set to ignore them."""
    adds = [builder.add(pa.table({"id": range(1000)}), path=f"{name}.parquet") for name in "ab"]
    builder.create(_ID, *adds)
    scan = open_table(builder.root).scan()
    with setting(spark, "spark.sql.files.ignoreCorruptFiles", "true"):
        with setting(spark, "spark.sql.files.ignoreMissingFiles", "true"):
            damaged, gone = scan.to_spark(spark, road="native"), scan.to_spark(spark, road="native")
        whole = (builder.root / "a.parquet").read_bytes()
        (builder.root / "a.parquet").write_bytes(b"PAR1" + b"\0" * (len(whole) - 8) + b"PAR1")
        with pytest.raises(Exception, match=r"a\.parquet"):
            damaged.collect()
    (builder.root / "a.parquet").unlink()
    with setting(spark, "spark.sql.files.ignoreMissingFiles", "true"), pytest.raises(Exception, match=r"a\.parquet"):
        gone.collect()


def test_vectors_at_the_edges_of_words(builder: DeltaBuilder, spark: Any) -> None:
    """This holds under ANSI rules, too, by which an index beyond the end of an array fails."""
    rows = pa.table({"id": range(200)})
    gone = [[0], [63, 64], [127, 128, 199], list(range(200))]
    builder.create(
        _ID,
        *(builder.add(rows, vector=builder.vector(one, "i"), writer={"row_group_size": 50}) for one in gone),
        builder.add(rows),
        protocol=builder.features("deletionVectors"),
    )
    scan = open_table(builder.root).scan()
    left = sorted(number for one in [*gone, []] for number in range(200) if number not in one)
    for ansi in ("true", "false"):
        with setting(spark, "spark.sql.ansi.enabled", ansi):
            assert ids(same(scan, spark)) == left


def test_what_spark_is_asked_for(builder: DeltaBuilder, spark: Any) -> None:
    """Columns, filters and limits of later operations reach Spark's scan, even through the join."""
    schema = pa.schema(
        [("id", pa.int64()), ("a", pa.string()), ("s", pa.struct([("x", pa.int32()), ("y", pa.int32())]))]
    )
    rows = pa.table({"id": range(50), "a": ["t"] * 50, "s": [{"x": n, "y": 1} for n in range(50)]}, schema=schema)
    builder.create(
        schema, builder.add(rows, vector=builder.vector([4], "i")), protocol=builder.features("deletionVectors")
    )
    frame = open_table(builder.root).scan("id >= 2").to_spark(spark, road="native")
    if type(frame).__module__.startswith("pyspark.sql.connect"):
        pytest.skip("the plan is shown in another way")
    plan = shown_plan(frame.filter("id < 9 AND s.x > 3").select("s.x"))
    assert "GreaterThanOrEqual(id,2)" in plan
    assert "LessThan(id,9)" in plan
    assert "GreaterThan(s.x,3)" in plan
    assert "ReadSchema: struct<id:bigint,s:struct<x:int>" in plan
    assert "LeftOuter, BuildRight" in plan
    assert [row["x"] for row in frame.filter("id < 9 AND s.x > 3").select("s.x").collect()] == [5, 6, 7, 8]
    plain = open_table(builder.root).scan(columns=["a"], limit=3).to_spark(spark)
    assert plain.count() == 3


def test_many_small_files_go_by_arrow(builder: DeltaBuilder, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    builder.create(_ID, *(builder.add(pa.table({"id": [number]})) for number in range(5)))
    scan = open_table(builder.root).scan()
    assert scan.explanation(spark).road == "native, 5 files"
    monkeypatch.setattr(verdicts, "FEW_FILES", 4)
    assert "arrow, 5 files: the files are many and small" in scan.explain(spark)
    assert native_plan(scan, spark).frame is None
    assert ids(collect(scan.to_spark(spark, road="native"))) == ids(collect(scan.to_spark(spark))) == list(range(5))
    monkeypatch.setattr(verdicts, "_WORTH_A_STATUS", 0)
    monkeypatch.setattr(verdicts, "_MOST_LOOKS", 5 * 21)
    assert scan.explanation(spark).road == "native, 5 files"
    monkeypatch.setattr(verdicts, "_MOST_LOOKS", 5 * 21 - 1)
    assert "arrow, 5 files: the files are too many for the driver to read the footer of each" in scan.explain(spark)


def test_one_file_says_whether_a_store_opens(
    builder: DeltaBuilder, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All footers would otherwise be read in vain, each time."""
    builder.create(_ID, *(builder.add(pa.table({"id": [number]})) for number in range(5)))
    scan = open_table(builder.root).scan()
    monkeypatch.setattr(opening, "FEW_FILES", 4)
    monkeypatch.setattr(sessions, "_known_stores", {})
    original, tried = opening._read, []

    def refuse(_: Any, paths: list[str], __: Any) -> Any:
        tried.append(len(paths))
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(opening, "_read", refuse)
        patch.setattr(plan, "judge_footers", lambda places, *_: [pytest.fail(place) for place in places])
        for _ in range(2):
            assert native_plan(scan, spark, forced=True).reasons == {"Spark cannot open it": 5}
    assert tried == [1, 1]

    def count(session: Any, paths: list[str], fields: Any) -> Any:
        tried.append(len(paths))
        return original(session, paths, fields)

    monkeypatch.setattr(opening, "_read", count)
    for _ in range(2):
        assert ids(collect(scan.to_spark(spark, road="native"))) == list(range(5))
    assert tried == [1, 1, 1, 5, 5]


def test_large_vectors_go_by_arrow(builder: DeltaBuilder, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _partitioned(builder)
    monkeypatch.setattr(verdicts, "_MOST_WORDS", 12)
    scan = open_table(builder.root).scan()
    found = native_plan(scan, spark)
    assert found.files.to_pylist() == [True, False, False, False]
    assert found.reasons == {"its deleted rows are too many to broadcast": 3}
    assert rows_of(collect(scan.to_spark(spark))) == rows_of(scan.to_arrow())
    assert collect(open_table(builder.root).scan(limit=150).to_spark(spark)).num_rows == 150


def test_paths_tell_files_of_one_name_apart() -> None:
    """Spark spells a path with the scheme by which it opened the file."""
    locations = ["s3://bucket/t/p=1/a b.parquet", "s3://bucket/t/p=2/a b.parquet"]
    for scheme in ("s3", "s3a"):
        paths = [f"{scheme}://bucket/t/p={number}/a%20b.parquet" for number in (1, 2)]
        assert file_keys.file_keys(locations, scheme) == ("file_path", [[xxhash64(path)] for path in paths])
    local = file_keys.file_keys(["/t/1/x", "/t/2/x"], "file")
    assert local is not None
    assert {xxhash64("file:/t/2/x"), xxhash64("file:///t/2/x")} == set(local[1][1])


def test_where_spark_has_no_file_system(builder: DeltaBuilder, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call tries a scheme until the session says that it has no file system for it; the next call tries again."""
    tried: list[str] = []
    original = opening._read

    def count(session: Any, paths: list[str], fields: Any) -> Any:
        tried.append(paths[0])
        return original(session, paths, fields)

    monkeypatch.setattr(opening, "_read", count)
    facts = SessionFacts.of(spark)
    monkeypatch.setattr(sessions, "_known_stores", {})
    fields = (Field("id", Primitive("long")),)
    places = {
        "s3": "s3://bucket/x.parquet",
        "gs": "gs://bucket/x.parquet",
        "abfss": "abfss://c@a.dfs.core.windows.net/x",
    }
    for scheme, place in places.items():
        assert opening.open_files(facts, scheme, [place], fields) is None
        assert facts.stores.spellings(scheme) == ()
        before = list(tried)
        assert opening.open_files(facts, scheme, [place], fields) is None
        assert tried == before, scheme
        assert opening.open_files(SessionFacts.of(spark), scheme, [place], fields) is None
        assert len(tried) > len(before), scheme
    assert tried[:2] == ["s3://bucket/x.parquet", "s3a://bucket/x.parquet"]
    builder.create(_ID, builder.add(pa.table({"id": [1]})))
    monkeypatch.setattr(opening, "_read", lambda *_: 1 / 0)
    assert why_not(open_table(builder.root).scan(), spark) == "Spark cannot open it"


def test_batches_of_any_size(builder: DeltaBuilder, spark: Any) -> None:
    """PySpark cannot make a frame of an Arrow table where the size of batches has no limit."""
    add = builder.add(pa.table({"id": [1, 2]}), vector=builder.vector([0], "i"))
    builder.create(_ID, add, protocol=builder.features("deletionVectors"))
    for size in ("0", "-1"):
        with setting(spark, "spark.sql.execution.arrow.maxRecordsPerBatch", size):
            assert "with these settings" in why_not(open_table(builder.root).scan(), spark)


def test_roads_that_do_not_exist(builder: DeltaBuilder, spark: Any) -> None:
    builder.create(_ID)
    with pytest.raises(InvalidArgumentError, match="road must be 'auto', 'native' or 'arrow', not 'fast'"):
        open_table(builder.root).scan().to_spark(spark, road="fast")  # type: ignore[arg-type]
    assert collect(open_table(builder.root).scan().to_spark(spark, road="native")).num_rows == 0
    assert open_table(builder.root).scan().explain(spark).endswith("no file is read")
