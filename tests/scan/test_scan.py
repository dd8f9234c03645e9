"""What a scan promises: forms of filters, results, order, limits, metrics, threads."""

from __future__ import annotations

import datetime as dt
import os
import pickle
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import ScanOptions, col, open_table, write_table
from deltaberg.errors import (
    ColumnNotFoundError,
    CorruptMetadataError,
    DataFileNotFoundError,
    ExpressionError,
    InvalidArgumentError,
    TableNotFoundError,
)
from deltaberg.table.read.scan import bound_scan
from tests.support.delta_builder import DeltaBuilder
from tests.support.recorder import Recorder
from tests.support.rows import ID, ids, ids_of
from tests.support.threads import settled_threads, threads_alive, wait_for_threads

_ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def table(builder: DeltaBuilder) -> Any:
    """Four files of 100 rows: 0 to 99 and so on, with names."""
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    adds = []
    for number in range(4):
        values = range(100 * number, 100 * number + 100)
        rows = pa.table({"id": pa.array(values, pa.int64()), "name": [f"n{one % 7}" for one in values]})
        adds.append(builder.add(rows, path=f"{number}.parquet", stats="full", writer={"row_group_size": 25}))
    builder.create(schema, *adds)
    return open_table(builder.root)


@pytest.mark.parametrize(
    "condition",
    [
        "id >= 150 AND id < 250 AND name = 'n3'",
        (col("id") >= 150) & (col("id") < 250) & (col("name") == "n3"),
        [("id", ">=", 150), ("id", "<", 250), ("name", "=", "n3")],
        [[("id", ">=", 150), ("id", "<", 250), ("name", "in", ["n3"])]],
    ],
)
def test_filters_take_three_forms(table: Any, condition: Any) -> None:
    scan = table.scan(condition)
    wanted = [one for one in range(150, 250) if one % 7 == 3]
    assert scan.to_arrow()["id"].to_pylist() == wanted
    assert scan.count() == len(wanted)
    assert scan.files().num_rows == 2


@pytest.mark.parametrize("condition", ["id >", "id = 1; DROP TABLE x", "sum(id) = 3", "nope = 1", "id = 'x'", 3, "id"])
def test_odd_filters_are_refused(table: Any, condition: Any) -> None:
    with pytest.raises((ExpressionError, InvalidArgumentError, LookupError)) as caught:
        table.scan(condition)
    assert type(caught.value).__module__ == "deltaberg.errors"


def test_results_of_every_kind_are_the_same(table: Any) -> None:
    import duckdb
    import polars as pl

    scan = table.scan("id >= 390", columns=["name", "id"])
    arrow = scan.to_arrow()
    assert arrow.column_names == ["name", "id"]
    assert pa.Table.from_batches(scan.to_batches()) == arrow
    assert scan.to_reader().read_all() == arrow
    assert scan.to_pandas()["id"].tolist() == list(range(390, 400))
    assert scan.to_polars()["id"].to_list() == list(range(390, 400))
    assert pl.DataFrame(scan)["name"].to_list() == arrow["name"].to_pylist()
    relation: Any = duckdb.sql("SELECT sum(id) FROM scan")
    assert relation.fetchall() == [(sum(range(390, 400)),)]
    assert pa.table(scan) == arrow


def test_engines_push_nothing_into_a_scan(table: Any) -> None:
    """As docs/scan.md says; if an engine begins to, the page is to be mended."""
    import duckdb
    import polars as pl

    scan, few = table.scan(), table.scan("id < 100", ["id"])
    relation: Any = duckdb.sql("SELECT sum(id) FROM scan WHERE id < 100")
    everything = relation.fetchall()
    assert (scan.metrics.rows, scan.metrics.files_planned) == (400, 4)
    lazily = table.scan()
    frame = pl.LazyFrame(lazily).filter(pl.col("id") < 100).select(pl.col("id").sum())
    # The rows are in memory before the query begins.
    assert (lazily.metrics.rows, lazily.metrics.files_planned) == (400, 4)
    relation = duckdb.sql("SELECT sum(id) FROM few")
    assert relation.fetchall() == everything == frame.collect().rows() == [(4950,)]
    assert (few.metrics.rows, few.metrics.files_planned) == (100, 1)
    assert few.metrics.bytes_read < scan.metrics.bytes_read / 4


def test_a_scan_is_a_stream_of_batches_and_shows_its_columns(table: Any) -> None:
    scan = table.scan(col("id") < 3, ["id"])
    assert pa.Table.from_batches(scan) == scan.to_arrow()
    assert scan._repr_html_() == (
        f"<p>scan of {table.location}, version {table.version}, where id &lt; 3</p>"
        "<table><tr><th>column</th><th>type</th></tr><tr><td>id</td><td>int64</td></tr></table>"
    )
    assert f"version {table.version}, limit 5</p>" in table.scan(limit=5)._repr_html_()
    assert f"version {table.version}</p>" in table.scan()._repr_html_()


def test_notebooks_show_what_a_table_is(tmp_path: Path) -> None:
    place = tmp_path / "<t>"
    rows = pa.table({"a&b": [1], "s": [{"x": ["y"]}]})
    columns = (
        "<table><tr><th>column</th><th>type</th></tr><tr><td>a&amp;b</td><td>long</td></tr>"
        "<tr><td>s</td><td>struct&lt;x: array&lt;string&gt;&gt;</td></tr></table>"
    )
    write_table(place / "d", rows, configuration={"delta.columnMapping.mode": "name"})
    delta, shown = open_table(place / "d", "delta"), f"{tmp_path}/&lt;t&gt;"
    assert delta._repr_html_() == f"<p>Delta table {shown}/d, version 0</p>{columns}"
    write_table(place / "i", rows, format="iceberg")
    iceberg = open_table(place / "i", "iceberg")
    assert iceberg._repr_html_() == f"<p>Iceberg table {shown}/i, snapshot {iceberg.snapshot_id}</p>{columns}"


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (col("id").between(1, 3), "id BETWEEN 1 AND 3"),
        (col("id").isin(1, 3), "id IN (1, 3)"),
        (col("id").isin([1, 3]), "id IN (1, 3)"),
        (col("id").isin(), "id IN (1, 3) AND id = 2"),
    ],
)
def test_the_words_of_pyspark(table: Any, condition: Any, text: str) -> None:
    assert ids_of(table, filter=condition) == ids_of(table, filter=text)


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("batch_size", [1, 10, 1000])
def test_the_order_is_that_of_the_files(table: Any, threads: int, batch_size: int) -> None:
    scan = table.scan(threads=threads, batch_size=batch_size, split_size=1)
    batches = list(scan.to_batches())
    names = [os.path.basename(path) for path in scan.files()["file_path"].to_pylist()]
    wanted = [one for name in names for one in range(100 * int(name[0]), 100 * int(name[0]) + 100)]
    assert [one for batch in batches for one in batch.column(0).to_pylist()] == wanted
    assert max(batch.num_rows for batch in batches) <= batch_size
    assert min(batch.num_rows for batch in batches) > 0


def test_a_limit_stops_early(table: Any, recorder: Recorder) -> None:
    scan = table.scan(limit=5, threads=1)
    assert scan.to_arrow().num_rows == 5
    assert len({name for name in recorder.read if name.endswith(".parquet")}) < 4
    assert table.scan(limit=0).to_arrow().num_rows == 0
    assert table.scan(limit=10_000).to_arrow().num_rows == 400
    assert table.scan("id > 390", limit=3).count() == 3
    for wrong in (-1, 1.5, "1", True):
        with pytest.raises(InvalidArgumentError, match="limit must be a 64-bit integer of at least 0, not"):
            table.scan(limit=wrong)


def test_counting_with_a_limit_stops_early(table: Any, recorder: Recorder) -> None:
    """Also where a filter remains, and where metadata counts some of the rows."""
    assert table.scan("name <> 'n3'", limit=3, threads=1).count() == 3
    assert [name for name in recorder.read if name.endswith(".parquet")] == ["0.parquet"]
    recorder.clear()
    assert table.scan("id < 150", limit=100).count() == 100
    assert table.scan("name <> 'n3'", limit=0).count() == 0
    assert recorder.read == []
    assert table.scan("id < 150", limit=120).count() == 120
    assert table.scan("id < 150", limit=1000).count() == 150


def test_extremes_of_no_file_are_none(table: Any) -> None:
    scan = table.scan("id > 1000")
    assert scan.files().num_rows == 0
    assert (scan.min("id"), scan.max("name")) == (None, None)
    assert (table.scan("id > 1000", limit=5).max("id"), table.scan(limit=0).min("id")) == (None, None)


@pytest.mark.parametrize("wanted", [{"filter": "nope = 1"}, {"filter": "id ="}, {"columns": ["nope"]}])
def test_errors_of_a_scan_name_the_table(table: Any, wanted: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="table: ") as caught:
        table.scan(**wanted)
    assert caught.value.context["table"] == table.location  # type: ignore[attr-defined]
    with pytest.raises(ColumnNotFoundError, match="table: "):
        table.scan().min("nope")


def test_as_many_readers_as_this_process_may_use(table: Any) -> None:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert [bound_scan(table.scan(threads=threads))._readers for threads in (0, 3)] == [usable, 3]
    assert sum(batch.num_rows for batch in table.scan().to_batches()) == 400


def test_scans_are_logged(table: Any, caplog: pytest.LogCaptureFixture) -> None:
    """What was planned and skipped, and what was read of it, but no value of the filter."""
    with caplog.at_level("INFO", "deltaberg.scan"):
        assert table.scan("id BETWEEN 110 AND 111 AND name <> 'secret'", columns=["id"]).to_arrow().num_rows == 2
    planned, read = [record.getMessage() for record in caplog.records if record.name == "deltaberg.scan"]
    assert f"{table.location}: planned 1 of 4 files, " in planned
    assert f"{table.location}: read 25 rows, gave 2 of them; skipped 3 of 4 row groups; " in read
    assert "secret" not in planned + read


def test_metrics_say_what_was_done(table: Any) -> None:
    assert table.scan().metrics is None
    scan = table.scan("id >= 130 AND id < 140")
    assert scan.to_arrow().num_rows == 10
    metrics = scan.metrics
    assert (metrics.files_total, metrics.files_planned, metrics.files_skipped) == (4, 1, 3)
    assert (metrics.row_groups, metrics.row_groups_skipped) == (4, 3)
    assert (metrics.rows_read, metrics.rows) == (25, 10)
    assert metrics.requests > 0
    size = table.scan().files()["file_size_in_bytes"].to_pylist()[0]
    assert 0 < metrics.bytes_read <= 2 * size


def test_counting_reads_no_file(table: Any, recorder: Recorder) -> None:
    assert table.scan().count() == 400
    assert table.scan("id >= 200").count() == 200
    assert not [name for name in recorder.read if name.endswith(".parquet")]
    assert table.scan("id >= 250").count() == 150
    assert {name for name in recorder.read if name.endswith(".parquet")} == {"2.parquet"}


def test_odd_options_are_refused(table: Any) -> None:
    for options in ({"batch_size": 0}, {"threads": -1}, {"memory": -5}, {"nonsense": 1}):
        with pytest.raises(InvalidArgumentError, match=next(iter(options))):
            table.scan(**options)
    assert table.scan(options=ScanOptions(batch_size=7)).options.batch_size == 7
    with pytest.raises(InvalidArgumentError, match="5 does not name columns"):
        table.scan(columns=5)


def test_closing_early_stops_the_readers(builder: DeltaBuilder) -> None:
    builder.create(ID, *(builder.add(ids(*range(1000))) for _ in range(40)))
    before = settled_threads()
    batches = open_table(builder.root).scan(batch_size=10, threads=4).to_batches()
    next(batches)
    assert threads_alive() > before
    batches.close()
    wait_for_threads(before)


def test_a_table_is_safe_to_share(builder: DeltaBuilder) -> None:
    builder.create(ID, *(builder.add(ids(number), stats="full") for number in range(20)))
    builder.checkpoint()
    table = open_table(builder.root)

    def work(number: int) -> list[int]:
        if number % 5 == 0:
            table.refresh()
        return [value for value in ids_of(table, filter=f"id >= {number % 20}") if value < 20]

    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(work, number) for number in range(60)]
        for number in range(20, 30):
            builder.commit(builder.add(ids(number), stats="full"))
        assert [future.result() for future in futures] == [list(range(number % 20, 20)) for number in range(60)]
    assert ids_of(table.refresh()) == list(range(30))


def test_a_vacuumed_file_is_an_error_of_its_own(table: Any, builder: DeltaBuilder) -> None:
    scan = table.scan()
    (builder.root / "2.parquet").unlink()
    with pytest.raises(DataFileNotFoundError, match=r"2\.parquet") as caught:
        scan.to_arrow()
    assert "vacuumed" in str(caught.value.hint)
    assert "open a newer version" in str(caught.value.hint)
    assert isinstance(caught.value, FileNotFoundError)
    assert table.scan("id < 100").to_arrow().num_rows == 100


def test_files_under_another_prefix_need_a_map(builder: DeltaBuilder, tmp_path: Path) -> None:
    moved = tmp_path / "now"
    other = DeltaBuilder(moved)
    other.add(ids(7), path="f.parquet")
    builder.create(ID, builder.add(path="x", log_path="/before/f.parquet", size=1))
    for location_map in (None, "auto"):
        with pytest.raises(DataFileNotFoundError) as caught:
            open_table(builder.root, location_map=location_map).scan().to_arrow()
        assert "location_map={" in str(caught.value.hint)
        assert '"auto" finds it out for Iceberg tables only' in str(caught.value.hint)
    assert ids_of(open_table(builder.root, location_map={"/before": str(moved)})) == [7]
    assert ids_of(open_table(builder.root, location_map={"file:///before/": moved.as_uri()})) == [7]


def test_places_that_are_no_table(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError, match="nothing"):
        open_table(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(TableNotFoundError, match="contains neither _delta_log nor metadata"):
        open_table(tmp_path / "empty")
    (tmp_path / "ice" / "metadata").mkdir(parents=True)
    (tmp_path / "ice" / "metadata" / "v1.metadata.json").write_text("{}")
    with pytest.raises(CorruptMetadataError, match="format-version"):
        open_table(tmp_path / "ice")
    with pytest.raises(InvalidArgumentError, match="hudi"):
        open_table(tmp_path, format="hudi")  # type: ignore[call-overload]


_NAMES = ["a b", "100%41", "ü", "a#b?c", "a+b=c&d", "q'uote\"s"]


@pytest.mark.parametrize("name", _NAMES)
def test_local_paths_of_any_name(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = DeltaBuilder(tmp_path / name)
    builder.create(ID, builder.add(ids(1), path=f"{name}/f.parquet"))
    for location in (builder.root, str(builder.root) + "/", builder.root.as_uri()):
        assert ids_of(open_table(location)) == [1]
    monkeypatch.chdir(tmp_path)
    assert ids_of(open_table(name)) == [1]


@pytest.mark.parametrize("format", ["delta", "iceberg"])
@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.parametrize("store", ["memory://", "memory://shop"])
def test_tables_in_memory_of_any_name(store: str, name: str, format: Any) -> None:
    location = f"{store}/{format}/{name}"
    write_table(location, pa.table({"id": [1], "part": ["x#%y"]}), format=format, partition_by=["part"])
    open_table(location).append(pa.table({"id": [2], "part": ["x#%y"]}))
    assert sorted(ids_of(open_table(location))) == [1, 2]


def test_the_home_directory_may_be_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    made = DeltaBuilder(tmp_path / "t~1")
    made.create(ID, made.add(ids(1)))
    assert open_table("~/t~1").location == str(tmp_path / "t~1")
    assert ids_of(open_table(f"file://{tmp_path}/t~1")) == [1]


def test_local_files_need_no_options(table: Any) -> None:
    options = {"AWS_REGION": "eu-west-1", "region": "x", "nonsense": "1"}
    assert open_table(table.location, storage_options=options).scan().count() == 400


def test_read_specs_and_errors_pickle(table: Any, builder: DeltaBuilder) -> None:
    scan = table.scan("id > 3")
    spec = bound_scan(scan).read_spec
    assert pickle.loads(pickle.dumps(spec)) == spec
    (builder.root / "1.parquet").unlink()
    with pytest.raises(DataFileNotFoundError) as caught:
        scan.to_arrow()
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.hint, copy.context) == (str(caught.value), caught.value.hint, caught.value.context)


_INTERRUPTED = """
import sys, deltaberg
batches = deltaberg.open_table(sys.argv[1]).scan(batch_size=1, threads=2).to_batches()
next(batches)
try:
    print("reading", flush=True)
    while True:
        for _ in batches: pass
        batches = deltaberg.open_table(sys.argv[1]).scan(batch_size=1, threads=2).to_batches()
except KeyboardInterrupt:
    batches.close()
    print("stopped", flush=True)
"""


@pytest.mark.one_backend
def test_an_interrupt_ends_a_scan(builder: DeltaBuilder) -> None:
    builder.create(ID, *(builder.add(ids(*range(2000))) for _ in range(10)))
    with subprocess.Popen(
        [sys.executable, "-c", _INTERRUPTED, str(builder.root)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "reading\n"
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == "stopped\n"
            assert process.wait(30) == 0
        finally:
            process.kill()


_INTERRUPTED_OFTEN = """
import faulthandler, random, signal, sys, deltaberg
scan = deltaberg.open_table(sys.argv[1]).scan(batch_size=1, threads=2)
list(scan.to_batches())
generator = random.Random(int(sys.argv[2]))
signal.signal(signal.SIGALRM, signal.default_int_handler)
for _ in range(200):
    faulthandler.dump_traceback_later(30, exit=True)
    batches = scan.to_batches()
    next(batches)
    try:
        signal.setitimer(signal.ITIMER_REAL, generator.uniform(0.0005, 0.02))
        while True:
            for _ in batches: pass
            batches = scan.to_batches()
    except KeyboardInterrupt:
        batches.close()
"""


@pytest.mark.one_backend
@pytest.mark.slow
def test_interrupts_leave_no_worker_waiting(builder: DeltaBuilder, seed: int) -> None:
    """Whatever the consumer does at that moment: taking a lock, waiting, or waking the workers."""
    print(f"seed {seed}")
    builder.create(ID, *(builder.add(ids(*range(3000))) for _ in range(4)))
    command = [sys.executable, "-c", _INTERRUPTED_OFTEN, str(builder.root), str(seed)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]


def test_literals_of_python(builder: DeltaBuilder) -> None:
    moment = dt.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=dt.timezone.utc)
    rows = pa.table({"t": pa.array([moment, None]), "d": pa.array([moment.date(), None])})
    builder.create(
        rows.schema,
        builder.add(rows.cast(pa.schema([("t", pa.timestamp("us", "UTC")), ("d", pa.date32())])), stats="full"),
    )
    table = open_table(builder.root)
    assert table.scan(col("t") == moment).count() == 1
    assert table.scan(col("t") == moment.astimezone(dt.timezone(dt.timedelta(hours=9)))).count() == 1
    assert table.scan(col("t") > moment).count() == 0
    assert table.scan(col("d") == moment.date()).count() == 1
    assert table.scan(col("d").is_null()).count() == 1
