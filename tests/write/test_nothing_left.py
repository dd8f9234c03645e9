"""What is refused, or fails before its commit is sent, leaves the files of the store as they were."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import open_table, write_table
from deltaberg.delta.transaction import log_change
from deltaberg.delta.transaction import transaction as delta_transaction
from deltaberg.errors import DeltabergError, InvalidArgumentError, UnsupportedFeatureError
from deltaberg.iceberg.location.directory_commit import DirectoryAttempt, DirectoryCommitter
from deltaberg.iceberg.transaction import production, table_commit
from deltaberg.table.commit.commit import ClockedPolicy
from tests.crash.targets import Target

pytestmark = pytest.mark.one_backend

_OLD = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "p": ["a", "b", "c"]})
_NEW = pa.table({"id": pa.array([1, 9], pa.int64()), "p": ["a", "b"]})

#: Each of the verbs; further arguments are those of its commit or its files.
_VERBS: dict[str, Callable[..., Any]] = {
    "append": lambda on, **more: on.append(_NEW, **more),
    "append and widen": lambda on, **more: on.append(
        _NEW.append_column("x", _NEW["id"]), **{"schema_mode": "merge", **more}
    ),
    "overwrite": lambda on, **more: on.overwrite(_NEW, **more),
    "overwrite some": lambda on, **more: on.overwrite(_NEW[:1], where="p = 'a'", **more),
    "delete": lambda on, **more: on.delete("id = 1 OR id = 2", **more),
    "update": lambda on, **more: on.update({"id": "id + 10"}, "id > 1", **more),
    "upsert": lambda on, **more: on.upsert(_NEW, ["id"], **more),
    "merge": lambda on, **more: on.merge(_NEW, "target.id = source.id", **more).when_not_matched_insert_all().execute(),
    "compact": lambda on, **more: on.compact(**more),
}


def _fail(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError


_FILES: dict[str, list[Any]] = {
    "schema_mode": ["bogus", 5],
    "timezone": ["Mars/Olympus", 5],
    "compression": ["bogus", 5],
    "target_file_size": [0, -1, "x", 1 << 70],
    "writer_properties": [object(), 5],
    "bogus": [1],
}
_ARGUMENTS: dict[str, dict[str, list[Any]]] = {
    "delta": {
        "txn": [("a",), ("a", "x"), ("a", 1 << 70), (1, 2), ("a", None), 5],
        "user_metadata": [5, "\ud800"],
        "commit_properties": [object()],
        "post_commithook_properties": [object()],
        **_FILES,
    },
    "iceberg": {
        "branch": ["nope", 5, ""],
        "properties": [{"a": 5}, {1: "a"}, 5, {"wap.branch": ""}, {"wap.branch": "x", "wap.id": "y"}, {"a": "\ud800"}],
        "txn": [("a",), ("a", "x"), ("a", 1 << 70), (1, 2), ("a", None), 5],
        "user_metadata": ["a"],
        **_FILES,
    },
}
#: Properties that another engine may have left in a table, with which some verb cannot do its work.
_PROPERTIES = {
    "delta": {
        "delta.isolationLevel": "bogus",
        "delta.dataSkippingStatsColumns": "nope.`",
        "delta.dataSkippingNumIndexedCols": "x",
        "delta.parquet.compression.codec": "bogus",
        "delta.enableInCommitTimestamps": "true",
    },
    "iceberg": {
        "write.metadata.path": "/elsewhere",
        "write.data.path": "s3://other/place",
        "write.metadata.previous-versions-max": "x",
        "commit.retry.num-retries": "x",
        "commit.retry.total-timeout-ms": "-1",
        "commit.manifest.target-size-bytes": "x",
        "commit.manifest.min-count-to-merge": "0",
        "write.avro.compression-codec": "bogus",
        "write.avro.compression-level": "x",
        "write.summary.partition-limit": "x",
        "write.delete.granularity": "bogus",
        "write.format.default": "bogus",
        "write.delete.format.default": "bogus",
        "write.target-file-size-bytes": "x",
        "write.parquet.compression-codec": "bogus",
        "write.location-provider.impl": "a.b",
        "encryption.key-id": "k",
    },
}


class _Table:
    """A table in a directory, and what is there."""

    def __init__(self, root: Path, table_format: Any) -> None:
        self.root, self.format = root, table_format
        for mode in ("error", "append"):
            write_table(root, _OLD, mode=mode, format=table_format, partition_by=["p"])

    @property
    def there(self) -> set[Path]:
        return {path for path in self.root.rglob("*") if path.is_file()}

    def set(self, properties: dict[str, str]) -> None:
        """Give the table only these properties, as an engine does that checks none."""
        if self.format == "iceberg":
            newest = max(self.root.glob("metadata/v*.json"), key=lambda path: int(path.name[1:].partition(".")[0]))
            newest.write_text(json.dumps({**json.loads(newest.read_text()), "properties": properties}))
            return
        log = sorted(self.root.glob("_delta_log/*.json"))
        lines = map(json.loads, log[0].read_text().splitlines())
        (action,) = (line for line in lines if "metaData" in line)
        action["metaData"]["configuration"] = properties
        (self.root / "_delta_log" / f"{len(log):020d}.json").write_text(json.dumps(action))


@pytest.fixture(params=["delta", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> _Table:
    """A table of each format."""
    return _Table(tmp_path / "t", request.param)


#: What messages say of arguments that they do not name, and of those that a verb does not have.
_NAMED = {
    "branch": "branch",
    "compression": "is not a codec",
    "properties": r"propert(y|ies)|wap\.branch",
    "timezone": "is not a time zone",
    "txn": "txn|the version of an application|the application",
}


def test_arguments_that_are_refused(table: _Table) -> None:
    before = table.there
    for verb, do in _VERBS.items():
        for name, values in _ARGUMENTS[table.format].items():
            for value in values:
                said = rf"{_NAMED.get(name, name)}|has no argument {name}\b"
                with pytest.raises((InvalidArgumentError, UnsupportedFeatureError), match=said):
                    do(open_table(table.root), **{name: value})
                assert table.there == before, (verb, name, value)


def test_properties_under_which_a_verb_is_refused(table: _Table) -> None:
    for name, value in _PROPERTIES[table.format].items():
        refused = 0
        for verb, do in _VERBS.items():
            table.set({name: value})
            before = table.there
            try:
                do(open_table(table.root))
            except DeltabergError:
                refused += 1
                assert table.there == before, (verb, name)
        assert refused, name


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_properties_of_a_table_that_is_not_created(tmp_path: Path, table_format: Any) -> None:
    more = {"format-version": "99", "write.metadata.compression-codec": "bogus"}
    others = {"delta.targetFileSize": "x", "delta.columnMapping.mode": "x", "delta.bogus": "1"}
    refused = 0
    for name, value in {**_PROPERTIES[table_format], **(more if table_format == "iceberg" else others)}.items():
        root = tmp_path / name
        try:
            write_table(root, _OLD, format=table_format, partition_by=["p"], configuration={name: value})
        except DeltabergError:
            refused += 1
            assert not [path for path in root.rglob("*") if path.is_file()], name
    assert refused >= 6


def test_properties_are_looked_at_before_rows_are_written(tmp_path: Path) -> None:
    """No row is asked for where the commit would be refused for a property."""

    def rows() -> Iterator[pa.RecordBatch]:
        if len(_OLD):
            pytest.fail("rows were asked for")
        yield from ()

    for name in ("write.metadata.path", "write.avro.compression-codec", "commit.retry.num-retries"):
        table = _Table(tmp_path / name, "iceberg")
        table.set({name: "/x"})
        with pytest.raises(InvalidArgumentError, match=name.replace(".", "[.]") if "codec" not in name else "codec"):
            open_table(table.root).append(pa.RecordBatchReader.from_batches(_OLD.schema, rows()))
    catalog = Target(str(tmp_path / "warehouse"), kind="sqlite")
    Path(catalog.location).mkdir()
    catalog.prepare()
    with pytest.raises(InvalidArgumentError, match="codec"):
        catalog.write(
            pa.RecordBatchReader.from_batches(_OLD.schema, rows()),
            configuration={"write.metadata.compression-codec": "bogus"},
        )


#: Where a commit fails in a way that nobody has foreseen, before anything is sent.
_BEFORE: dict[str, list[tuple[Any, str]]] = {
    "delta": [
        (log_change, "build_entry"),
        (log_change, "check_growing"),
        (log_change, "version_made"),
        (delta_transaction, "isolation_level"),
    ],
    "iceberg": [
        (production, "encode_manifest"),
        (production, "encode_manifest_list"),
        (production, "snapshot_summary"),
        (table_commit, "check_requirements"),
        (DirectoryCommitter, "attempt"),
    ],
}


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, MemoryError])
def test_commits_that_fail_before_they_are_sent(
    table: _Table, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    before = table.there
    for owner, name in _BEFORE[table.format]:
        for verb in ("append", "delete", "update"):
            opened = open_table(table.root)
            with monkeypatch.context() as patched:
                patched.setattr(owner, name, fail)
                with pytest.raises(error):
                    _VERBS[verb](opened)
            assert table.there == before, (name, verb)
    policy = ClockedPolicy(now=fail)
    with pytest.raises(error), open_table(table.root).transaction(policy=policy) as transaction:
        transaction.append(_NEW)
    assert table.there == before


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
@pytest.mark.parametrize("lands", [True, False])
def test_nothing_is_deleted_once_a_commit_was_sent(
    table: _Table, monkeypatch: pytest.MonkeyPatch, error: type[BaseException], lands: bool
) -> None:
    owner, name = (log_change, "put_entry") if table.format == "delta" else (DirectoryAttempt, "send")
    whole = getattr(owner, name)

    def fail(*arguments: Any, **named: Any) -> Any:
        if lands:
            whole(*arguments, **named)
        raise error

    before = table.there
    opened = open_table(table.root)
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, fail)
        with pytest.raises(error):
            opened.append(_NEW)
    assert {path.suffix for path in table.there - before} >= {".parquet"}
    assert before <= table.there
    assert open_table(table.root).scan().count() == (8 if lands else 6)


def test_files_that_a_later_operation_drops(table: _Table) -> None:
    write_table(table.root / "empty", _OLD[:0], format=table.format)
    before = table.there
    transaction = open_table(table.root / "empty").transaction()
    transaction.append(_OLD)
    transaction.delete(None)
    transaction.commit()
    assert not {path for path in table.there - before if path.suffix == ".parquet"}
