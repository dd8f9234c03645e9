"""Tables that delta-spark writes are read as it reads them itself: all columns, every version, the change feed.

Without ``--judges`` fewer tables are written, and only their newest versions are compared.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import open_table
from deltaberg.errors import SpecViolationError
from tests.interop.delta_tables_of_logs import TABLES as OF_LOGS
from tests.interop.delta_tables_of_rows import TABLES as OF_ROWS
from tests.interop.judged import Written, chosen_names, same
from tests.support.canon import canonical_lines
from tests.support.filter_cases import filter_cases
from tests.support.judge import Judge
from tests.support.roads import Road

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.one_backend, pytest.mark.timeout(600)]

TABLES = {**OF_ROWS, **OF_LOGS}
#: Tables of which Spark's own reader does not give exactly the rows, and why.
BY_ARROW = {
    **dict.fromkeys(
        ("types_vectors", "partition_types", "partition_types_local", "partition_hostile", "hostile_path", "feed"),
        "Spark does not open a file of its name",
    ),
    # Mapped columns are not in the names of folders.
    **{
        name: "Spark does not open a file of its name"
        for name in TABLES
        if name.startswith("checkpoint_") and name != "checkpoint_v2_mapped"
    },
    **dict.fromkeys(
        ("void", "mapping_name", "mapping_id", "mapping_upgraded", "old_protocol"),
        "the field .* was added after the file was written",
    ),
    **dict.fromkeys(("variants", "variants_shredded"), "the column v is of type variant"),
    "files": r"it is encoded by DELTA_BINARY_PACKED, DELTA_BYTE_ARRAY"
    r"|the column tstz is of type timestamp, but .* in the file",
    "widening": "the column .* is of type .*, but .* in the file",
}
_FED = [name for name, table in TABLES.items() if table.changes is not None]
_CODE = "from tests.interop.write_delta_tables import write\nwrite(spark, folder, name, every)"
_READ = "from tests.interop.write_delta_tables import read\nread(spark, place, zone)"


def _named(*names: str, **proven: str) -> list[Any]:
    """Return tables as parameters; those that are not in every run are marked, and those that prove a rule."""
    cases = []
    for name in names:
        marks = [] if TABLES[name].always else [pytest.mark.judges]
        marks += [pytest.mark.req(proven[name], half="reader")] if name in proven else []
        cases.append(pytest.param(name, marks=marks))
    return cases


def _compared(request: pytest.FixtureRequest, name: str) -> None:
    """Expect a failure where docs/interop.md says that Spark reads other rows."""
    if TABLES[name].differs:
        request.applymarker(pytest.mark.xfail(reason=TABLES[name].differs, raises=AssertionError, strict=True))


@pytest.fixture(scope="module")
def written(judge: Judge, request: pytest.FixtureRequest) -> Iterator[Written]:
    """The tables that the chosen tests name."""
    folder = judge.folder / "delta"
    folder.mkdir()
    every = request.config.getoption("--judges")
    made = Written(judge, folder, _CODE, chosen_names(request), every=every)
    yield made
    made.wait()


def _open(written: Written, name: str, **options: Any) -> Any:
    return open_table(written.told(name)["place"], timezone=TABLES[name].zone, **options)


def _columns(table: Any, expected: pa.Table) -> list[tuple[str, ...]] | None:
    """Name the columns where more than the table's own are wanted."""
    if "_metadata" not in expected.column_names:
        return None
    fields = [("_metadata", child.name) for child in expected.schema.field("_metadata").type]
    return [*((column,) for column in table.schema.names), *fields]


@pytest.mark.parametrize("name", _named(*TABLES))
def test_versions(written: Written, name: str, request: pytest.FixtureRequest) -> None:
    _compared(request, name)
    told = written.told(name)
    rows = 0
    for version, file in told["versions"].items():
        expected = written.rows(file)
        table = _open(written, name, version=int(version))
        same(table.scan(columns=_columns(table, expected)).to_arrow(), expected)
        assert table.scan().count() == expected.num_rows
        rows += expected.num_rows
    assert rows > 0
    assert _open(written, name).version == max(map(int, told["versions"]))
    if TABLES[name].violation:
        with pytest.raises(SpecViolationError, match=TABLES[name].violation):
            _open(written, name, validate=True)
    else:
        _open(written, name, validate=True)


@pytest.mark.parametrize("name", _named(*TABLES, features_dropped="BEY-11"))
def test_state_and_times(written: Written, name: str) -> None:
    """Protocol, properties, number of files and commit times are what Spark says."""
    told = written.told(name)
    table, detail = _open(written, name), told["detail"]
    assert (table.protocol.min_reader_version, table.protocol.min_writer_version) == (
        detail["minReaderVersion"],
        detail["minWriterVersion"],
    )
    assert sorted(table.features) == sorted(detail["tableFeatures"])
    assert table.features >= TABLES[name].features
    assert len(table.live_files) == detail["numFiles"]
    assert table.partition_columns == detail["partitionColumns"]
    assert {key: table.properties[key] for key in detail["properties"]} == detail["properties"]
    times = {str(commit.version): commit.timestamp.timestamp() for commit in table.history()}
    assert times == told["times"]
    for version, seconds in times.items():
        instant = dt.datetime.fromtimestamp(seconds, dt.timezone.utc)
        assert _open(written, name, timestamp=instant).version == int(version)


@pytest.mark.parametrize("name", _named(*_FED, feed_mapped="DL-CDF-11"))
def test_the_change_feed(written: Written, name: str) -> None:
    expected = written.rows(written.told(name)["changes"])
    assert expected.num_rows > 0
    same(_open(written, name).changes(TABLES[name].changes).to_arrow(), expected)


@pytest.mark.parametrize("name", _named(*(name for name in TABLES if "variant" not in name)))
def test_filters(written: Written, name: str, rng: random.Random) -> None:
    table = _open(written, name)
    whole = table.scan().to_arrow()
    for case in filter_cases(whole, rng, 10):
        found, kept = table.scan(case.filter), whole.filter(case.mask)
        assert canonical_lines(found.to_arrow()) == canonical_lines(kept), case
        assert found.count() == kept.num_rows, case


@pytest.mark.parametrize("name", _named(*TABLES))
def test_newest_version_on_spark(written: Written, name: str, spark: Any, request: pytest.FixtureRequest) -> None:
    _compared(request, name)
    told = written.told(name)
    expected = written.rows(told["versions"][max(told["versions"], key=int)])
    table = _open(written, name)
    road = Road("spark", spark)
    same(road.table(table.scan(columns=_columns(table, expected))), expected)
    road.assert_native(BY_ARROW.get(name))


@pytest.mark.parametrize("name", _named("zone", "zone_local", "partition_types", "partition_types_local"))
@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kathmandu"])
def test_sessions_in_other_zones(written: Written, judge: Judge, name: str, zone: str) -> None:
    """Timestamps in partitions are instants, or belong to the zone of the session where no zone was written."""
    place = written.told(name)["place"]
    expected = judge.run(_READ, place=place, zone=zone)
    same(open_table(place, timezone=zone).scan().to_arrow(), expected)


@pytest.mark.parametrize("name", _named(*(name for name in TABLES if name.startswith("checkpoint_"))))
def test_checkpoints_have_the_form_that_was_asked_for(written: Written, name: str) -> None:
    log = Path(written.told(name)["place"]) / "_delta_log"
    checkpoint = _open(written, name).base_checkpoint
    kind, parts, suffix = {
        "checkpoint_multipart": ("multipart", True, ".parquet"),
        "checkpoint_v2_json": ("uuid", False, ".json"),
        "checkpoint_v2_parquet": ("uuid", False, ".parquet"),
        "checkpoint_v2_mapped": ("uuid", False, ".json"),
    }.get(name, ("classic", False, ".parquet"))
    assert (checkpoint.version, checkpoint.kind, len(checkpoint.files) > 1) == (7, kind, parts)
    assert all(file.endswith(suffix) for file in checkpoint.files)
    assert (len(list((log / "_sidecars").glob("*.parquet"))) > 2) == ("_v2_json" in name or "_v2_parquet" in name)
    if name in ("checkpoint_classic", "checkpoint_structs", "checkpoint_bare"):
        children = pq.read_schema(log / checkpoint.files[0]).field("add").type.names
        found = ("stats" in children, "stats_parsed" in children)
        assert found == {"classic": (True, True), "structs": (False, True), "bare": (False, False)}[name[11:]]


@pytest.mark.parametrize("name", _named("compacted_log", "vectors_large", "clone", "partition_hostile"))
def test_tables_hold_what_they_are_for(written: Written, name: str) -> None:
    place = Path(written.told(name)["place"])
    table = _open(written, name)
    live = table.live_files
    vectors = [vector for vector in live["deletionVector"].to_pylist() if vector is not None]
    assert vectors
    # It never makes others.
    assert {vector["storageType"] for vector in vectors} <= {"u", "p"}
    if name == "compacted_log":
        assert len(list((place / "_delta_log").glob("*.compacted.json"))) == 2
    if name == "vectors_large":
        assert max(vector["cardinality"] for vector in vectors) > 10_000
        assert max(pq.ParquetFile(place / path).num_row_groups for path in live["path"].to_pylist()) > 1
    if name == "clone":
        assert {vector["storageType"] for vector in vectors} == {"u", "p"}
        assert any(path.startswith("file:") for path in live["path"].to_pylist())
    if name == "partition_hostile":
        assert len(set(table.scan(columns=["p"]).to_arrow()["p"].to_pylist())) > 20
