"""Features that older versions need are dropped: by cutting off the history, or behind protected checkpoints."""

from __future__ import annotations

import datetime as dt
import os
import re
import shutil
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltaberg
from deltaberg import CheckpointLayout, DeltaTable
from deltaberg.delta.actions.log_action import read_actions
from deltaberg.delta.after_commit.checkpoints import write_checkpoint
from deltaberg.delta.maintain import feature_drop
from deltaberg.delta.maintain.cleaning import vacuum_candidates
from deltaberg.errors import (
    InvalidArgumentError,
    MetadataChangedError,
    SchemaError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tests.support.rows import ids, ids_of
from tests.support.vacuums import DAY, MANY, VECTORS, Clock, files, new_table

_DROPPED = "checkpointProtection"
_BEFORE = "delta.requireCheckpointProtectionBeforeVersion"


def _with_vectors(root: Path, **properties: str) -> DeltaTable:
    table = new_table(root, **VECTORS, **properties)
    table.append(MANY)
    table.delete("id % 2 = 1", strategy="merge-on-read")
    table.delete("id % 3 = 0", strategy="merge-on-read")
    return table


def _widened(root: Path) -> DeltaTable:
    table: DeltaTable = deltaberg.create_table(
        str(root), pa.schema([("id", pa.int32())]), properties={"delta.enableTypeWidening": "true"}
    )
    table.append(pa.table({"id": pa.array([1], pa.int32())}))
    table.alter().widen("id", pa.int64()).commit()
    table.append(ids(2))
    return table


def _with_v2_checkpoints(root: Path) -> DeltaTable:
    table = new_table(root, **{"delta.checkpointPolicy": "v2"})
    table.append(ids(1))
    table.checkpoint(CheckpointLayout(spec=2, naming="classic", files_per_sidecar=1))
    table.append(ids(2))
    return table


def _mapped(root: Path) -> DeltaTable:
    table = new_table(root, **{"delta.columnMapping.mode": "name"})
    table.append(ids(1))
    table.alter().add("x", pa.string()).commit()
    table.alter().drop("x").commit()
    return table


_KINDS: dict[str, Callable[[Path], DeltaTable]] = {
    "columnMapping": _mapped,
    "deletionVectors": _with_vectors,
    "typeWidening": _widened,
    "v2Checkpoint": _with_v2_checkpoints,
}
every_kind = pytest.mark.parametrize("name", _KINDS)


def _age_log(root: Path, hours: float) -> None:
    """Make the commits and checkpoints of a table some hours older."""
    for path in (root / "_delta_log").iterdir():
        then = path.stat().st_mtime - hours * 3600
        os.utime(path, (then, then))


def _log_files(root: Path) -> set[str]:
    return {path.name for path in (root / "_delta_log").iterdir()}


def _removes(table: DeltaTable) -> list[dict[str, Any]]:
    data = (Path(table.location) / "_delta_log" / f"{table.version:020}.json").read_bytes()
    return [dict(action.members) for action in read_actions(data, "remove")]


@pytest.mark.req("DL-OPS-10")
@pytest.mark.req("BEY-11", half="writer")
@every_kind
def test_checkpoints_stand_in_front_of_versions_that_need_it(tmp_path: Path, name: str) -> None:
    table = _KINDS[name](tmp_path)
    old = {version: ids_of(DeltaTable(tmp_path, version=version)) for version in range(table.version + 1)}
    planned = table.drop_feature(name, dry_run=True)
    assert (planned.dry_run, planned.commit, DeltaTable(tmp_path).version) == (True, None, max(old))
    result = table.drop_feature(name, user_metadata="downgrade")
    assert result.steps == planned.steps
    assert [one.version for one in result.commits] == [*range(max(old) + 1, table.version + 1)]
    assert result.copied_rows == {"typeWidening": 1, "v2Checkpoint": 0}.get(name, len(old[max(old)]))
    assert (name in table.features, _DROPPED in table.features) == (False, True)
    assert (table.protocol.min_reader_version, table.protocol.reader_features) == (1, None)
    assert table.properties[_BEFORE] == str(table.version)
    info = table.history(1)[0].info
    assert (info["operation"], info["userMetadata"]) == ("DROP FEATURE", "downgrade")
    assert info["operationParameters"] == {"featureName": name, "truncateHistory": "false"}
    log = tmp_path / "_delta_log"
    for version in range(table.version - 3, table.version + 1):
        assert pq.ParquetFile(log / f"{version:020}.checkpoint.parquet").metadata.num_rows > 0
        assert "sidecar" not in pq.read_schema(log / f"{version:020}.checkpoint.parquet").names
    # No history is lost, and readers that know only the first versions of the protocol read the newest one.
    assert {version: ids_of(DeltaTable(tmp_path, version=version)) for version in old} == old
    assert ids_of(DeltaTable(tmp_path, validate=True)) == old[max(old)]
    assert sorted(deltalake.DeltaTable(tmp_path).to_pyarrow_table()["id"].to_pylist()) == old[max(old)]
    assert table.cleanup_metadata().deleted_files == 0
    table.append(ids(-1))
    assert ids_of(DeltaTable(tmp_path)) == [-1, *old[max(old)]]


@pytest.mark.req("DL-OPS-09")
@every_kind
def test_the_history_is_cut_off_after_a_day(tmp_path: Path, name: str) -> None:
    table = _KINDS[name](tmp_path)
    rows, last, log = ids_of(table), table.version, _log_files(tmp_path)
    planned = table.drop_feature(name, truncate_history=True, dry_run=True)
    assert planned.steps[-1].startswith("refuse to cut off the history before ")
    assert _log_files(tmp_path) == log
    with pytest.raises(UnsupportedFeatureError, match=f"of the feature {name} any more, but its version") as refused:
        table.drop_feature(name, truncate_history=True)
    assert "drop the feature again then" in str(refused.value)
    assert name in DeltaTable(tmp_path).features
    # Nothing of it is in the newest version, and calling it again at once does nothing more.
    version = DeltaTable(tmp_path).version
    _age_log(tmp_path, 23)
    said = []
    for dry_run in (True, False):
        with pytest.raises(UnsupportedFeatureError, match="cannot be cut off behind it before") as refused:
            table.drop_feature(name, truncate_history=True, dry_run=dry_run)
        said.append(str(refused.value))
    assert said[0] == said[1]
    assert DeltaTable(tmp_path).version == version
    _age_log(tmp_path, 1.1)
    log, planned = _log_files(tmp_path), table.drop_feature(name, truncate_history=True, dry_run=True)
    assert (planned.steps[-1], _log_files(tmp_path)) == ("take the feature from the protocol", log)
    result = table.drop_feature(name, truncate_history=True)
    assert result.commit is not None
    assert result.commit.version == table.version == version + 1
    assert (name in table.features, _DROPPED in table.features) == (False, False)
    # Column mapping came with all that its version of writers knows.
    writers = 4 if name == "columnMapping" else 2
    assert (table.protocol.min_reader_version, table.protocol.min_writer_version) == (1, writers)
    for older in range(last + 1):
        with pytest.raises(VersionNotFoundError, match="is no longer available: its log entries were cleaned up"):
            DeltaTable(tmp_path, version=older)
    assert ids_of(DeltaTable(tmp_path, validate=True)) == rows
    theirs = deltalake.DeltaTable(tmp_path)
    assert (theirs.protocol().min_reader_version, sorted(theirs.to_pyarrow_table()["id"].to_pylist())) == (1, rows)


@pytest.mark.req("DL-OPS-09")
def test_no_history_goes_where_what_is_left_begins_with_a_trace(tmp_path: Path) -> None:
    """A checkpoint of a version that made no use of the feature has the property that a commit before it has set."""
    table = new_table(tmp_path, **VECTORS)
    table.append(ids(1))
    table.checkpoint()
    table.append(ids(2))
    with pytest.raises(UnsupportedFeatureError, match="but its version 0 does"):
        table.drop_feature("deletionVectors", truncate_history=True)
    log = _log_files(tmp_path)
    _age_log(tmp_path, 23)
    for dry_run in (True, False):
        with pytest.raises(UnsupportedFeatureError, match="cannot be cut off behind it before"):
            table.drop_feature("deletionVectors", truncate_history=True, dry_run=dry_run)
    assert _log_files(tmp_path) == log
    assert ids_of(DeltaTable(tmp_path, version=1)) == [1]
    _age_log(tmp_path, 1.1)
    table.drop_feature("deletionVectors", truncate_history=True)
    assert ("deletionVectors" in table.features, ids_of(table)) == (False, [1, 2])


def test_the_retention_is_a_property(tmp_path: Path) -> None:
    table = _with_vectors(tmp_path, **{"delta.dropFeatureTruncateHistory.retentionDuration": "interval 2 hours"})
    with pytest.raises(UnsupportedFeatureError, match="but its version 3 does"):
        table.drop_feature("deletionVectors", truncate_history=True)
    _age_log(tmp_path, 2.1)
    table.drop_feature("deletionVectors", truncate_history=True)
    assert "deletionVectors" not in table.features


def test_a_dry_run_is_refused_where_the_drop_would_be(tmp_path: Path) -> None:
    table = _mapped(tmp_path)
    table.alter().rename("id", "a key, of sorts").add_constraint("c", "true").commit()
    log = _log_files(tmp_path)
    for name, error, message in (
        ("columnMapping", SchemaError, "the name of a column contains ' '"),
        ("checkConstraints", InvalidArgumentError, "the table makes use of it: c"),
    ):
        for dry_run in (True, False):
            with pytest.raises(error, match=message):
                table.drop_feature(name, dry_run=dry_run)
    assert _log_files(tmp_path) == log


def test_a_feature_that_nothing_ever_used_goes_at_once(tmp_path: Path) -> None:
    table = new_table(tmp_path, **{"delta.feature.deletionVectors": "supported"})
    table.append(ids(1))
    table.drop_feature("deletionVectors", truncate_history=True)
    assert (table.protocol.min_reader_version, table.version) == (1, 2)
    assert ids_of(DeltaTable(tmp_path, version=1)) == [1]


@pytest.mark.req("DL-OPS-15")
@pytest.mark.parametrize("vacuums", ["deltalake", "ours"])
def test_a_vacuum_keeps_the_vectors_of_retained_versions(
    tmp_path: Path, vacuums: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _with_vectors(tmp_path / "t")
    old = {version: ids_of(DeltaTable(tmp_path / "t", version=version)) for version in range(4)}
    vectors = {path for path in files(tmp_path / "t") if path.endswith(".bin")}
    assert len(vectors) == 2
    table.drop_feature("deletionVectors")
    found = _removes(table)
    assert {one["path"] for one in found} == vectors
    assert not any(one["dataChange"] or "deletionVector" in one for one in found)
    # They are old leftovers to a client that does not see them named.
    for path in vectors:
        os.utime(tmp_path / "t" / path, (time.time() - 30 * DAY,) * 2)
    if vacuums == "deltalake":
        assert deltalake.DeltaTable(tmp_path / "t").vacuum(dry_run=False) == []
    else:
        assert table.vacuum(dry_run=False).deleted_files == 0
    assert {version: ids_of(DeltaTable(tmp_path / "t", version=version)) for version in old} == old
    # They go when nothing needs them any more.
    clock = Clock()
    clock.ahead = 8 * DAY
    monkeypatch.setattr(vacuum_candidates, "earlier_clock", clock)
    assert vectors < set(table.refresh().vacuum(dry_run=False).files["path"].to_pylist())
    assert ids_of(DeltaTable(tmp_path / "t")) == old[3]


def test_the_removes_count_no_files(tmp_path: Path) -> None:
    table = _with_vectors(tmp_path)
    result = table.drop_feature("deletionVectors")
    assert result.commit is not None
    assert (result.commit.removed_files, result.commit.added_files) == (0, 0)
    assert table.verify().is_clean
    assert DeltaTable(tmp_path, validate=True).verify(depth="footers").is_clean


@pytest.mark.req("DL-OPS-10")
def test_protection_goes_with_the_history(tmp_path: Path) -> None:
    table = _with_vectors(tmp_path)
    rows = ids_of(table)
    table.drop_feature("deletionVectors")
    barrier = table.version
    with pytest.raises(InvalidArgumentError, match="protects readers from older versions"):
        table.drop_feature(_DROPPED)
    with pytest.raises(UnsupportedFeatureError, match=f"but its version {barrier - 1} does"):
        table.drop_feature(_DROPPED, truncate_history=True)
    _age_log(tmp_path, 25)
    table.drop_feature(_DROPPED, truncate_history=True)
    assert (table.protocol.min_reader_version, table.protocol.min_writer_version) == (1, 2)
    assert _BEFORE not in table.properties
    with pytest.raises(VersionNotFoundError, match="version 8 is no longer available: its log entries were"):
        DeltaTable(tmp_path, version=barrier - 1)
    assert ids_of(DeltaTable(tmp_path, validate=True)) == rows


def test_types_that_were_widened_are_those_of_the_files(tmp_path: Path) -> None:
    inner = pa.struct([("n", pa.int16())])
    schema = pa.schema([("id", pa.int32()), ("s", inner), ("l", pa.list_(pa.int8())), ("x", pa.string())])
    table = deltaberg.create_table(str(tmp_path), schema, properties={"delta.enableTypeWidening": "true"})
    table.append(pa.table({"id": [1], "s": [{"n": 2}], "l": [[3]], "x": ["a"]}, schema))
    change = table.alter().widen("id", pa.int64()).widen("s.n", pa.int32()).widen("l.element", pa.int32())
    change.commit()
    rows = table.scan().to_arrow()
    table.append(rows)
    kept = set(table.live_files["path"].to_pylist()) - set(
        DeltaTable(tmp_path, version=1).live_files["path"].to_pylist()
    )
    table.drop_feature("typeWidening")
    assert table.scan().to_arrow().to_pylist() == rows.to_pylist() * 2
    live = set(table.live_files["path"].to_pylist())
    assert kept < live
    assert len(live) == 2
    assert all(pq.read_schema(tmp_path / path).field("id").type == pa.int64() for path in live)
    assert "typeChanges" not in (table.metadata.schema_string or "")
    assert DeltaTable(tmp_path, version=1).scan().to_arrow()["id"].to_pylist() == [1]


@pytest.mark.parametrize(
    ("old", "new", "value", "text"),
    [
        (pa.date32(), pa.timestamp("us"), dt.date(2024, 5, 1), "2024-05-01 00:00:00.000000"),
        (pa.int32(), pa.decimal128(12, 2), 3, "3.00"),
        (pa.decimal128(5, 2), pa.decimal128(10, 4), Decimal("1.50"), "1.5000"),
    ],
    ids=["date", "integer", "decimal"],
)
def test_partition_values_of_types_that_were_widened(
    tmp_path: Path, old: pa.DataType, new: pa.DataType, value: Any, text: str
) -> None:
    """Readers without type widening refuse a text of the older type."""
    schema = pa.schema([("id", pa.int64()), ("p", old)])
    table = deltaberg.create_table(
        str(tmp_path), schema, partition_by="p", properties={"delta.enableTypeWidening": "true"}
    )
    table.append(pa.table({"id": [1, 2], "p": [value, None]}, schema))
    table.alter().widen("p", new).commit()
    rows = table.scan().to_arrow()
    table.drop_feature("typeWidening")
    assert sorted(dict(one)["p"] or "" for one in table.live_files["partitionValues"].to_pylist()) == ["", text]
    assert table.to_arrow().sort_by("id").to_pylist() == rows.sort_by("id").to_pylist()
    assert deltalake.DeltaTable(tmp_path).to_pyarrow_table().sort_by("id").to_pylist() == rows.sort_by("id").to_pylist()


def test_writer_features_go_with_their_property(tmp_path: Path) -> None:
    table = new_table(
        tmp_path, **{"delta.enableChangeDataFeed": "true", "delta.feature.vacuumProtocolCheck": "supported"}
    )
    result = table.drop_feature("changeDataFeed")
    assert result.commit is not None
    assert (result.commit.version, "changeDataFeed" in table.features) == (1, False)
    table.drop_feature("vacuumProtocolCheck")
    assert (table.protocol.min_reader_version, table.protocol.min_writer_version) == (1, 2)
    with pytest.raises(InvalidArgumentError, match="without cutting off the history"):
        table.drop_feature("appendOnly", truncate_history=True)


@pytest.mark.parametrize("name", ["timestampNtz", "variantType"])
def test_features_of_types_stay(tmp_path: Path, name: str) -> None:
    table = new_table(tmp_path, **{f"delta.feature.{name}": "supported"})
    with pytest.raises(UnsupportedFeatureError, match="nothing takes it from the columns or files"):
        table.drop_feature(name)
    assert DeltaTable(tmp_path).version == 0


def test_others_that_write_meanwhile_are_no_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _with_vectors(tmp_path)
    rows = ids_of(table)
    others = iter([-1, -2])

    def beside(*arguments: Any, **named: Any) -> Any:
        found = write_checkpoint(*arguments, **named)
        number = next(others, None)
        if number is not None:
            DeltaTable(tmp_path).append(ids(number))
        return found

    monkeypatch.setattr(feature_drop, "write_checkpoint", beside)
    table.drop_feature("deletionVectors")
    assert "deletionVectors" not in DeltaTable(tmp_path).features
    assert ids_of(DeltaTable(tmp_path)) == [-2, -1, *rows]


def test_a_writer_that_goes_on_with_vectors_is_a_conflict(tmp_path: Path) -> None:
    table = _with_vectors(tmp_path)
    rows = ids_of(table)
    stale = DeltaTable(tmp_path)
    table.drop_feature("deletionVectors")
    with pytest.raises(MetadataChangedError, match="version 4 was committed meanwhile, and it changed the"):
        stale.delete("id = 2", strategy="merge-on-read")
    assert ids_of(DeltaTable(tmp_path)) == rows
    copy = tmp_path.parent / "copy"
    shutil.copytree(tmp_path, copy)
    restored = DeltaTable(copy)
    restored.restore(2)
    assert ids_of(restored) == ids_of(DeltaTable(tmp_path, version=2))
    assert "deletionVectors" in restored.features


def test_no_history_goes_in_vain(tmp_path: Path) -> None:
    """Where a young version needs the feature, older ones stay as well, though they could be cut off."""
    table = _with_vectors(tmp_path)
    table.checkpoint()
    for path in (tmp_path / "_delta_log").iterdir():
        os.utime(path, (time.time() - 10 * 86_400,) * 2)
    _age_entries(tmp_path / "_delta_log")
    table = DeltaTable(tmp_path)
    table.delete("id = 2", strategy="merge-on-read")
    expected = ids_of(DeltaTable(tmp_path, version=1))
    with pytest.raises(UnsupportedFeatureError, match="leave out truncate_history to drop it now and keep the history"):
        table.drop_feature("deletionVectors", truncate_history=True)
    assert ids_of(DeltaTable(tmp_path, version=1)) == expected


def _age_entries(log: Path) -> None:
    """Make the times that entries record ten days older, and those of the files."""
    old = int((time.time() - 10 * 86_400) * 1000)
    for path in log.glob("*.json"):
        text = re.sub(r'("timestamp":)\d+', rf"\g<1>{old}", path.read_text())
        path.write_text(text)
        os.utime(path, (old / 1000, old / 1000))
