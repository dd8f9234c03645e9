"""The writers of the Data Sources as Spark calls them, without Spark: pickled, in tasks, and once at the end."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import create_table, open_table
from deltaberg.errors import (
    CommitConflictError,
    CorruptLogError,
    CorruptMetadataError,
    DeltabergError,
    EvaluationError,
    InvalidArgumentError,
    MetadataChangedError,
    StorageError,
    TableNotFoundError,
    VersionNotFoundError,
)
from deltaberg.storage.local import LocalStorage
from deltaberg.table.maintain import auto_compact
from deltaberg.table.maintain import compact as table_compact
from tests.spark.doors import VERSION, needs_data_sources

pytestmark = [needs_data_sources, pytest.mark.one_backend]

_COLUMNS = "id long, p string"


@pytest.fixture(params=["delta", "iceberg"])
def table_format(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


def _writer(table_format: str, root: Path, *, overwrite: bool = False, **options: str) -> Any:
    """Return a writer, in the state in which tasks receive it."""
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    from deltaberg.spark.source.datasource import DeltaDataSource, IcebergDataSource

    source = {"delta": DeltaDataSource, "iceberg": IcebergDataSource}[table_format]({"path": str(root), **options})
    schema = StructType([StructField("id", LongType()), StructField("p", StringType())])
    return pickle.loads(pickle.dumps(source.writer(schema, overwrite)))


def _batches(*parts: list[int]) -> Iterator[pa.RecordBatch]:
    for part in parts:
        yield pa.record_batch({"id": pa.array(part, pa.int64()), "p": pa.array([f"p{n % 2}" for n in part])})


def _failing() -> Iterator[pa.RecordBatch]:
    yield from _batches([7])
    raise EvaluationError("the rows of a task end in an error")


def _ids(root: Path) -> list[int]:
    found: list[int] = sorted(open_table(root).scan().to_arrow()["id"].to_pylist())
    return found


def _files(root: Path) -> list[Path]:
    return sorted(root.rglob("*.parquet"))


def test_the_files_of_all_tasks_are_one_commit(tmp_path: Path, table_format: str) -> None:
    """Of tasks with several batches, with none, and with no rows in them."""
    root = tmp_path / "t"
    writer = _writer(table_format, root, partitionBy="p") if table_format == "delta" else _writer(table_format, root)
    tasks: list[list[list[int]]] = [[[1, 2], [3]], [], [[]], [[4]]]
    messages = [writer.write(_batches(*parts)) for parts in tasks]
    writer.commit(pickle.loads(pickle.dumps(messages)))
    assert _ids(root) == [1, 2, 3, 4]
    table = open_table(root)
    assert len(table.history()) == 1
    assert table.scan().count() == 4
    again = _writer(table_format, root)
    again.commit([again.write(_batches([5]))])
    over = _writer(table_format, root, overwrite=True)
    over.commit([over.write(_batches([6])), over.write(_batches())])
    assert _ids(root) == [6]
    nothing = _writer(table_format, root, overwrite=True)
    nothing.commit([])
    assert _ids(root) == []


def test_a_task_that_fails_leaves_nothing(tmp_path: Path, table_format: str) -> None:
    root = tmp_path / "t"
    first = _writer(table_format, root)
    first.commit([first.write(_batches([1]))])
    kept = _files(root)
    writer = _writer(table_format, root)
    done = writer.write(_batches([2]))
    # Its own error is in its reply, and raised where Spark shows it whole.
    failed = writer.write(_failing())
    with pytest.raises(EvaluationError, match="end in an error"):
        writer.commit([done, failed])
    assert (_ids(root), _files(root)) == ([1], kept)
    # Spark aborts with None for a task that never replied.
    done = writer.write(_batches([3]))
    assert len(_files(root)) == len(kept) + 1
    writer.abort([done, None])
    assert (_ids(root), _files(root)) == ([1], kept)


def test_files_of_a_commit_whose_outcome_is_unknown_stay(tmp_path: Path, table_format: str) -> None:
    root = tmp_path / "t"
    writer = _writer(table_format, root)
    messages = [writer.write(_batches([1])), writer.write(_batches([2]))]
    writer.commit(messages)
    writer.abort(messages)
    assert _ids(root) == [1, 2]


def _sink(table_format: str, root: Path, *, overwrite: bool = False, commits: bool = False, **options: str) -> Any:
    """Return the sink of a stream, in the state in which tasks receive it, or as what commits has it."""
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    from deltaberg.spark.source.datasource import DeltaDataSource, IcebergDataSource

    source = {"delta": DeltaDataSource, "iceberg": IcebergDataSource}[table_format]({"path": str(root), **options})
    schema = StructType([StructField("id", LongType()), StructField("p", StringType())])
    if commits:
        # Spark sends the source to the process that commits, which makes a sink of its own.
        return pickle.loads(pickle.dumps(source)).streamWriter(schema, overwrite)
    return pickle.loads(pickle.dumps(source.streamWriter(schema, overwrite)))


needs_arrow_sinks = pytest.mark.skipif(VERSION < (4, 1), reason="sinks of PySpark 4.0 get rows")


@needs_arrow_sinks
@pytest.mark.req("DL-STR-07", half="writer")
def test_a_batch_that_is_sent_again_is_written_once(tmp_path: Path, table_format: str) -> None:
    """By another process, which plans on the table that has the batch, so that its files are nobody's and go."""
    root = tmp_path / "t"
    for number, ids in ((0, [1]), (0, [1]), (1, [2]), (0, [1]), (1, [2])):
        tasks, committing = (_sink(table_format, root, txnAppId="query") for _ in range(2))
        replies = pickle.loads(pickle.dumps([tasks.write(_batches(ids)), tasks.write(_batches())]))
        committing.commit(replies, number)
    assert (_ids(root), len(_files(root))) == ([1, 2], 2)
    # Planned before the other commit, they may be those of the table, as far as this process knows.
    tasks, other = (_sink(table_format, root, txnAppId="query") for _ in range(2))
    replies = [tasks.write(_batches([3]))]
    other.commit(replies, 2)
    tasks.commit(replies, 2)
    assert (_ids(root), len(_files(root))) == ([1, 2, 3], 3)
    # Spark aborts a batch whose commit failed with the replies of all tasks, though it may have landed.
    again = _sink(table_format, root, txnAppId="query")
    replies = [again.write(_batches([4]))]
    again.commit(replies, 3)
    _sink(table_format, root, txnAppId="query").abort(replies, 3)
    assert _ids(root) == [1, 2, 3, 4]
    # Files that are in the table are not taken for those of a batch that was sent again.
    _sink(table_format, root, txnAppId="query").commit(replies, 3)
    assert _ids(root) == [1, 2, 3, 4]


@needs_arrow_sinks
def test_files_of_a_batch_stay_where_its_record_may_expire(tmp_path: Path) -> None:
    """Sent again after that, the plan would add files that are gone."""
    root = tmp_path / "t"
    properties = {"delta.setTransactionRetentionDuration": "interval 1 days"}
    create_table(root, {"id": pa.int64(), "p": pa.string()}, properties=properties)
    for _ in range(2):
        sink = _sink("delta", root, txnAppId="query")
        sink.commit([sink.write(_batches([1]))], 0)
    assert (_ids(root), len(_files(root))) == ([1], 2)


@needs_arrow_sinks
@pytest.mark.parametrize("lost", [0, 1])
def test_of_a_batch_with_a_failed_task_nothing_stays(tmp_path: Path, table_format: str, lost: int) -> None:
    """Whichever task it is, and though the table cannot be planned on any more."""
    root = tmp_path / "t"
    first = _writer(table_format, root)
    first.commit([first.write(_batches([1]))])
    before = _files(root)
    failed = _sink(table_format, root)
    done = failed.write(_batches([4]))
    if lost == 0:
        # Of all tasks, the first one alone sends the plan.
        done.planned = None
    _damage(root)
    messages = [done, done]
    messages[lost] = None
    assert len(_files(root)) == len(before) + 1
    _sink(table_format, root, commits=True).abort(messages, 3)
    assert _files(root) == before


@needs_arrow_sinks
def test_a_table_that_gets_a_column_between_tasks_and_commit_gets_the_rows(tmp_path: Path, table_format: str) -> None:
    """The commit is of the plan of the tasks, which travels with their replies."""
    root = tmp_path / "t"
    first = _sink(table_format, root)
    first.commit([first.write(_batches([1]))], 0)
    tasks = _sink(table_format, root)
    replies = [tasks.write(_batches([2]))]
    open_table(root).append(pa.table({"id": [9], "more": ["x"]}), schema_mode="merge")
    committing = _sink(table_format, root)
    if table_format == "delta":
        with pytest.raises(MetadataChangedError, match="version 1 was committed meanwhile"):
            committing.commit(replies, 1)
        assert _ids(root) == [1, 9]
    else:
        committing.commit(replies, 1)
        assert _ids(root) == [1, 2, 9]


@needs_arrow_sinks
@pytest.mark.req("ICE-STR-04", half="writer")
def test_a_batch_outlives_the_metadata_file_that_it_was_planned_on(tmp_path: Path) -> None:
    """Others delete it after their commits, where the table wants that. Files for other columns fit no newer one."""
    root = tmp_path / "t"
    clean = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
    table: Any = create_table(root, {"id": pa.int64(), "p": pa.string()}, format="iceberg", properties=clean)
    replies = []
    for number, overwrite in ((1, False), (2, True), (3, False)):
        sink = _sink("iceberg", root, txnAppId="query", overwrite=overwrite)
        replies.append([sink.write(_batches([number]))])
    for number in range(7, 10):
        table.append(pa.table({"id": [number], "p": ["x"]}))
    for _ in range(2):
        # Sent again, its files are those of the table.
        _sink("iceberg", root, txnAppId="query", commits=True).commit(replies[0], 0)
        assert _ids(root) == [1, 7, 8, 9]
    for name, late in zip(("one", "two"), replies[1:], strict=True):
        with pytest.raises(CommitConflictError, match="the metadata file that the write was planned on is gone"):
            _sink("iceberg", root, txnAppId="query", commits=True).commit(late, 1)
        open_table(root).alter().add(name, pa.string()).commit()
    assert _ids(root) == [1, 7, 8, 9]


@needs_arrow_sinks
def test_a_table_that_is_made_anew_between_tasks_and_commit_gets_no_rows(tmp_path: Path, table_format: str) -> None:
    """The batch was planned on a state of the same name, and its columns have other ids or places."""
    root = tmp_path / "t"
    create: Any = create_table
    for order in (("id", "p"), ("p", "id")):
        columns = {"id": pa.int64(), "p": pa.string()}
        table = create(root, {name: columns[name] for name in order}, format=table_format)
        if order[0] == "id":
            replies = [_sink(table_format, root).write(_batches([1]))]
            shutil.rmtree(root / ("_delta_log" if table_format == "delta" else "metadata"))
    with pytest.raises(CommitConflictError, match="another table has taken the place"):
        _sink(table_format, root, commits=True).commit(replies, 0)
    found = open_table(root)
    assert (found.schema.names, len(found.history())) == (["p", "id"], len(table.history()))


@needs_arrow_sinks
def test_the_metadata_of_a_plan_that_is_the_newest_is_read_once_by_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "t"
    create_table(root, {"id": pa.int64(), "p": pa.string()}, format="iceberg")
    replies = [_sink("iceberg", root).write(_batches([1]))]
    committing = _sink("iceberg", root, commits=True)
    read: list[str] = []
    original = LocalStorage.get

    def counted(store: LocalStorage, path: str, *arguments: Any) -> bytes:
        read.append(path)
        return original(store, path, *arguments)

    monkeypatch.setattr(LocalStorage, "get", counted)
    committing.commit(replies, 0)
    assert [Path(path).name for path in read if path.endswith(".metadata.json")] == ["v1.metadata.json"]


@needs_arrow_sinks
@pytest.mark.parametrize("is_new", [True, False])
def test_a_commit_that_is_sent_twice_adds_its_rows_once(tmp_path: Path, table_format: str, is_new: bool) -> None:
    """Without the progress of an application, too: sinks of no known query, and writes of a single batch."""
    root = tmp_path / "t"
    if not is_new:
        first = _writer(table_format, root)
        first.commit([first.write(_batches([0]))])
    for make, batch in ((_sink, (0,)), (_writer, ())):
        writer: Any = make(table_format, root)
        replies = [writer.write(_batches([1]))]
        for _ in range(2):
            # Each try is one of a writer of its own, as after a reply that was lost.
            pickle.loads(pickle.dumps(writer)).commit(pickle.loads(pickle.dumps(replies)), *batch)
        other = _writer(table_format, root)
        other.commit([other.write(_batches([2]))])
        pickle.loads(pickle.dumps(writer)).commit(replies, *batch)
    assert _ids(root) == [*([] if is_new else [0]), 1, 1, 2, 2]
    assert len(_files(root)) == len(_ids(root))


def _lose_log(root: Path) -> None:
    for folder in ("_delta_log", "metadata"):
        if (root / folder).exists():
            (root / folder).rename(root / f"lost {folder}")


def _damage(root: Path) -> None:
    found = [*root.glob("_delta_log/*.json"), *root.glob("metadata/*.metadata.json")]
    for path in found:
        path.write_text("{")


def _drop_branch(root: Path) -> None:
    table: Any = open_table(root)
    table.alter().drop_branch("b").commit()


@needs_arrow_sinks
@pytest.mark.parametrize(
    ("form", "hurt", "error", "message"),
    [
        ("iceberg", _drop_branch, VersionNotFoundError, "there is no branch or tag 'b'"),
        ("delta", _lose_log, TableNotFoundError, "_delta_log is missing"),
        ("delta", _damage, CorruptLogError, "a key in quotes was expected"),
        ("iceberg", _lose_log, CommitConflictError, "the metadata file that the write was planned on is gone"),
        ("iceberg", _damage, CorruptMetadataError, "the table metadata is not JSON"),
    ],
)
def test_files_of_a_batch_that_cannot_be_committed_stay(
    tmp_path: Path, form: str, hurt: Any, error: type[DeltabergError], message: str
) -> None:
    """Another process may have committed them, unless the table tells that it has not."""
    root = tmp_path / "t"
    first = _writer(form, root)
    first.commit([first.write(_batches([1]))])
    options: dict[str, Any] = {}
    if hurt is _drop_branch:
        table: Any = open_table(root)
        table.alter().create_branch("b").commit()
        options["branch"] = "b"
    tasks, tried = (_sink(form, root, **options) for _ in range(2))
    landed = [tried.write(_batches([3]))]
    tried.commit(landed, 0)
    committed = _files(root)
    replies = [tasks.write(_batches([2]))]
    kept = committed if hurt is _drop_branch else _files(root)
    hurt(root)
    committing = _sink(form, root, commits=True, **options)
    for messages in (replies, landed):
        with pytest.raises(error, match=message):
            committing.commit(messages, 1)
    committing.abort(replies, 1)
    assert _files(root) == kept


@needs_arrow_sinks
@pytest.mark.req("DL-STR-08", half="writer")
def test_a_stream_in_complete_mode_replaces_the_rows(tmp_path: Path, table_format: str) -> None:
    """Each batch is one commit, one without tasks too, which knows its query by the checkpoint."""
    root, checkpoint = tmp_path / "t", tmp_path / "checkpoint"
    checkpoint.mkdir()
    (checkpoint / "metadata").write_text('{"id":"query"}')
    options: dict[str, Any] = {"checkpointlocation": str(checkpoint), "queryname": "rows"}
    for number, parts in enumerate(([[1, 2], [3]], [[4]], [])):
        sink = _sink(table_format, root, overwrite=True, **options)
        sink.commit([sink.write(_batches(part)) for part in parts], number)
        assert _ids(root) == [value for part in parts for value in part]
        assert len(open_table(root).history()) == number + 1
    assert not open_table(root).append(pa.table({"id": [7]}), txn=("query", 2)).committed


@needs_arrow_sinks
def test_small_files_are_put_together_every_few_batches(
    tmp_path: Path, table_format: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the commit, whose rows are there whatever comes of it: a time that is over is a warning."""
    monkeypatch.setattr(auto_compact, "MIN_FILES", 2)
    monkeypatch.setattr(auto_compact, "_GROUP", 1)
    asks = {"delta": "delta.autoOptimize.autoCompact", "iceberg": "deltaberg.auto-compact.enabled"}[table_format]
    create_table(tmp_path, {"id": pa.int64(), "p": pa.string()}, format=table_format, properties={asks: "true"})
    counts = []
    for number in range(7):
        sink = _sink(table_format, tmp_path, autoCompactBatches="3", autoCompactSeconds="5")
        sink.commit([sink.write(_batches([number]))], number)
        counts.append(len(open_table(tmp_path).scan().files()))
    assert (counts, _ids(tmp_path)) == ([1, 2, 1, 2, 3, 1, 2], list(range(7)))
    sink = _sink(table_format, tmp_path, autoCompactBatches="1")
    monkeypatch.setattr(table_compact, "compact_table", _failing_compaction)
    with pytest.warns(UserWarning, match="small files were not put together: no space"):
        sink.commit([sink.write(_batches([7]))], 7)
    assert _ids(tmp_path) == list(range(8))
    wrong: list[dict[str, Any]] = [{"autoCompactBatches": "0"}, {"autoCompactSeconds": "soon"}]
    for options in wrong:
        with pytest.raises(InvalidArgumentError, match=f"the option {next(iter(options))} must be a positive number"):
            _sink(table_format, tmp_path, **options)
    with pytest.raises(InvalidArgumentError) as raised:
        _sink(table_format, tmp_path, optimizeWrite="true")
    assert "coalesce or repartition" in str(raised.value.hint)


def _failing_compaction(*_: object) -> None:
    raise StorageError("no space")


def test_streams_number_their_batches_themselves(tmp_path: Path, table_format: str) -> None:
    with pytest.raises(InvalidArgumentError, match="txnVersion is for single writes"):
        _sink(table_format, tmp_path, txnVersion="1")
