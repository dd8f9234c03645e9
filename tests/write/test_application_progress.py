"""The progress of applications, which both formats record, so that what is sent again is written once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import create_table, open_table, write_table
from deltaberg.errors import ColumnNotFoundError, InvalidArgumentError
from deltaberg.table.commit import stream_batches

pytestmark = pytest.mark.one_backend

_ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "p": ["a", "b"]})
_QUERY, _EPOCH = "spark.sql.streaming.queryId", "spark.sql.streaming.epochId"


@pytest.fixture(params=["delta", "iceberg"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    create_table(tmp_path / "t", _ROWS.schema, format=request.param)
    return tmp_path / "t"


def _files(path: Path) -> set[str]:
    return {str(file) for file in path.rglob("*") if file.suffix in (".parquet", ".avro")}


_VERBS: dict[str, Callable[[Any, Any], Any]] = {
    "append": lambda table, txn: table.append(_ROWS, txn=txn),
    "overwrite": lambda table, txn: table.overwrite(_ROWS, txn=txn),
    "delete": lambda table, txn: table.delete("id = 1", txn=txn),
    "update": lambda table, txn: table.update({"id": "id + 1"}, txn=txn),
    "upsert": lambda table, txn: table.upsert(pa.table({"id": [7]}), "id", txn=txn),
    "merge": lambda table, txn: (
        table.merge(_ROWS, "target.id > source.id", txn=txn).when_not_matched_insert_all().execute()
    ),
    "alter": lambda table, txn: table.alter(txn=txn).add("more", pa.string()).commit(),
}


@pytest.fixture
def added(tmp_path: Path) -> str:
    """A data file of another writer."""
    pq.write_table(_ROWS, tmp_path / "x.parquet")
    return str(tmp_path / "x.parquet")


def test_files_and_keys_that_are_sent_again_change_nothing(tmp_path: Path, added: str) -> None:
    table: Any = create_table(tmp_path / "t", _ROWS.schema, format="iceberg")
    sent: dict[str, Callable[[], Any]] = {
        "files": lambda: table.add_files([added], txn=("files", 1)),
        "keys": lambda: table.delete_by_keys(pa.table({"id": [1]}), txn=("keys", 1)),
    }
    for send in sent.values():
        assert send().committed
        before = _files(tmp_path)
        result = send()
        assert (result.committed, result.deleted_rows, _files(tmp_path)) == (False, 0, before)
    assert table.scan().to_arrow()["id"].to_pylist() == [2]


@pytest.mark.parametrize("verb", _VERBS)
def test_what_is_sent_again_changes_nothing(path: Path, verb: str) -> None:
    """By the table object that has sent it, and by one that is older than the commit."""
    table = open_table(path)
    table.append(_ROWS)
    older = open_table(path)
    assert _VERBS[verb](table, ("stream", 7)).committed
    rows, files, version = table.scan().to_arrow(), _files(path), len(table.history())
    for again, number in ((table, 7), (older, 7), (open_table(path), 6)):
        result = _VERBS[verb](again, ("stream", number))
        assert (result.committed, result.inserted_rows, result.added_files) == (False, 0, 0)
    newest = open_table(path)
    assert (len(newest.history()), newest.scan().to_arrow().equals(rows), _files(path)) == (version, True, files)
    if verb == "append":
        assert _VERBS[verb](newest, ("other", 7)).committed
        assert newest.scan().count() == 6


def test_a_batch_that_changes_no_row_is_recorded(path: Path) -> None:
    table = open_table(path)
    assert table.append(_ROWS.slice(0, 0), txn=("stream", 1)).committed
    assert not table.append(_ROWS, txn=("stream", 1)).committed
    with table.transaction(txn=("stream", 2)):
        pass
    assert not table.append(_ROWS, txn=("stream", 2)).committed
    assert table.append(_ROWS, txn=("stream", 3)).committed


def test_the_first_batch_creates_the_table(tmp_path: Path) -> None:
    for table_format in ("delta", "iceberg"):
        for number in (0, 0, 1):
            write_table(tmp_path / table_format, _ROWS, mode="append", format=table_format, txn=("stream", number))
        assert open_table(tmp_path / table_format).scan().count() == 4


def test_one_of_many_senders_wins(path: Path) -> None:
    """Each has opened the table before any of them commits."""
    tables = [open_table(path) for _ in range(4)]
    results = []

    def send(table: Any) -> None:
        results.append(table.append(_ROWS, txn=("stream", 1)).committed)

    threads = [threading.Thread(target=send, args=(table,)) for table in tables]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [False, False, False, True]
    assert open_table(path).scan().count() == 2


@pytest.mark.parametrize("txn", ["auto", "auto:", "nightly", ("a",), ("a", -1), ("", 1), ("a", "1"), 7])
def test_wrong_progress_is_refused_before_anything_is_written(path: Path, txn: Any) -> None:
    before = _files(path)
    with pytest.raises(InvalidArgumentError, match=r"txn|application"):
        open_table(path).append(_ROWS, txn=txn)
    assert _files(path) == before


@pytest.mark.req("ICE-STR-04", half="writer")
def test_progress_of_an_iceberg_table_outlives_its_snapshots(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", _ROWS.schema, format="iceberg")
    table.append(_ROWS, txn=("query", 3))
    (snapshot,) = table.snapshots
    assert (snapshot.summary or {})[_QUERY] == "query"
    assert (snapshot.summary or {})[_EPOCH] == "3"
    assert table.properties == {"deltaberg.stream.query": "3"}
    table.append(_ROWS)
    table.expire_snapshots(older_than="2100-01-01", retain_last=1)
    assert len(table.snapshots) == 1
    assert not open_table(tmp_path / "t").append(_ROWS, txn=("query", 3)).committed


@pytest.mark.req("ICE-STR-04", half="writer")
def test_batches_that_iceberg_spark_has_recorded_count(tmp_path: Path) -> None:
    """It has no property: the newest snapshot of the query decides."""
    table = create_table(tmp_path / "t", _ROWS.schema, format="iceberg")
    table.append(_ROWS, properties={_QUERY: "query", _EPOCH: "4"})
    table.append(_ROWS, properties={_QUERY: "other", _EPOCH: "9"})
    for number, committed in ((3, False), (4, False), (5, True)):
        assert table.append(_ROWS, txn=("query", number)).committed == committed


def test_each_branch_has_its_own_progress(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", _ROWS.schema, format="iceberg")
    table.append(_ROWS)
    table.alter().create_branch("audit").commit()
    for branch in ("audit", None):
        assert table.append(_ROWS, branch=branch, txn=("stream", 1)).committed
        assert not table.append(_ROWS, branch=branch, txn=("stream", 1)).committed
    assert (table.scan().count(), open_table(tmp_path / "t", ref="audit").scan().count()) == (4, 4)


def test_names_of_branches_and_applications_are_not_mixed_up(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", _ROWS.schema, format="iceberg")
    table.append(_ROWS)
    table.alter().create_branch("b").create_branch("a:b").commit()
    for application, branch in (("q", "b"), ("q@b", None), ("b:q", "a"), ("q", "a:b")):
        if branch != "a":
            assert table.append(_ROWS, branch=branch, txn=(application, 5)).committed, (application, branch)


class _Batch:
    """Spark, as it runs a batch of a stream."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.number, self.run = 0, "run"
        monkeypatch.setattr(stream_batches, "spark_engine", lambda: self)

    def current_batch(self) -> tuple[str, str, int]:
        """Return the query, its run, and the batch."""
        return "query", self.run, self.number


def test_a_second_verb_of_a_batch_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By whatever path the table is opened; another run of the query finds the batch in the table."""
    batch = _Batch(monkeypatch)
    link = path.parent / "link"
    link.symlink_to(path)
    table: Any = open_table(path)
    is_delta = type(table).__name__ == "DeltaTable"
    if not is_delta:
        table.append(_ROWS)
        table.alter().create_branch("audit").commit()
    places = [str(path), f"{path}/", path.as_uri(), *([str(link)] if is_delta else [])]
    assert table.append(_ROWS, txn="auto").committed
    for place in places:
        with pytest.raises(InvalidArgumentError, match="was committed to the table before"):
            open_table(place).append(_ROWS, txn="auto")
    assert table.append(_ROWS, txn="auto:more").committed
    batch.run = "another"
    assert not table.append(_ROWS, txn="auto").committed
    batch.number = 1
    with pytest.raises(ColumnNotFoundError, match="no column 'none'"):
        table.delete("none = 1", txn="auto")
    assert table.append(_ROWS, txn="auto").committed
    if not is_delta:
        assert table.append(_ROWS, txn="auto", branch="audit").committed
    assert open_table(path).scan().count() == (6 if is_delta else 8)


def test_a_property_that_is_no_number_is_an_error(tmp_path: Path) -> None:
    """Taking it for no progress would write rows twice."""
    table = create_table(tmp_path / "t", _ROWS.schema, format="iceberg", properties={"deltaberg.stream.q": "x"})
    with pytest.raises(InvalidArgumentError, match=r"deltaberg\.stream\.q must be"):
        table.append(_ROWS, txn=("q", 1))
    assert table.append(_ROWS, txn=("other", 1)).committed
