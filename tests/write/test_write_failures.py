"""Whatever fails while files are written, none of them is left behind."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.errors import SchemaError, StorageError
from deltaberg.schema.arrow import arrow_schema
from deltaberg.schema.types import Field, Primitive, Struct
from deltaberg.storage.local import LocalStorage
from deltaberg.storage.location import parse_location
from deltaberg.storage.stores import open_store
from deltaberg.table.write.spec import WriteSpec, partition_columns
from deltaberg.table.write.write import write_files

pytestmark = pytest.mark.one_backend

_SCHEMA = Struct((Field("p", Primitive("long")), Field("n", Primitive("long"))))
_ROWS = pa.table({"p": [number % 4 for number in range(400)], "n": list(range(400))})


class FailingStore(LocalStorage):
    """Fails at one call of all that make or fill files."""

    def __init__(self, failing: int) -> None:
        super().__init__()
        self.left = failing

    def count(self) -> None:
        self.left -= 1
        if self.left == -1:
            raise StorageError("the store fails")

    def open_output(self, path: str) -> Any:
        self.count()
        output: Any = super().open_output(path)
        for name in ("write", "close"):
            setattr(output, name, self._counted(getattr(output, name)))
        return output

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any) -> Any:
            self.count()
            return call(*arguments)

        return counted


def left_files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("options", "threads", "least"),
    [
        ({"partition": partition_columns(_SCHEMA, ["p"]), "open_files": 2, "memory": 6000}, 1, 20),
        ({"partition": partition_columns(_SCHEMA, ["p"]), "open_files": 2, "memory": 6000}, 3, 20),
        # Arrow's writer of ORC would end the process if it heard of it.
        ({"format": "orc"}, None, 5),
    ],
)
def test_a_store_that_fails_at_any_call(tmp_path: Path, options: Any, threads: int | None, least: int) -> None:
    spec = WriteSpec(_SCHEMA, **options)
    counting = FailingStore(1 << 30)
    write_files(_ROWS, spec, counting, str(tmp_path / "whole"), threads=threads)
    calls = (1 << 30) - counting.left
    assert calls > least
    for failing in range(calls):
        root = tmp_path / str(failing)
        with pytest.raises(StorageError, match="the store fails"):
            write_files(_ROWS, spec, FailingStore(failing), str(root), threads=threads)
        assert not left_files(root)


@pytest.mark.parametrize("failure", [KeyError, KeyboardInterrupt])
def test_a_source_that_fails_or_is_interrupted(tmp_path: Path, failure: type[BaseException]) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield from _ROWS.to_batches(max_chunksize=50)
        raise failure("the source fails")

    rows = pa.RecordBatchReader.from_batches(arrow_schema(_SCHEMA), batches())
    with pytest.raises(failure, match="the source fails"):
        write_files(rows, WriteSpec(_SCHEMA, target_size=500), LocalStorage(), str(tmp_path))
    assert not left_files(tmp_path)


def test_no_space_for_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StorageError, match="No space left on device"):
        write_files(_ROWS, WriteSpec(_SCHEMA), LocalStorage(), str(tmp_path))
    assert not left_files(tmp_path)


def test_no_space_for_rows_that_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: Any, **_options: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    spec = WriteSpec(_SCHEMA, partition_columns(_SCHEMA, ["p"]), open_files=1, memory=6000)
    monkeypatch.setattr("pyarrow.OSFile", full)
    with pytest.raises(StorageError, match="rows that wait for their partition cannot be stored: No space") as caught:
        write_files(_ROWS, spec, LocalStorage(), str(tmp_path))
    assert "TMPDIR" in str(caught.value)
    assert not left_files(tmp_path)


def test_rows_that_do_not_fit_after_many_that_do(tmp_path: Path) -> None:
    batches = [*_ROWS.to_batches(max_chunksize=50)]
    wide = [batch.set_column(1, "n", pa.array([1 << 40] * batch.num_rows)) for batch in batches[-1:]]
    narrow = Struct((Field("p", Primitive("long")), Field("n", Primitive("short"))))
    spec = WriteSpec(narrow, partition_columns(narrow, ["p"]), memory=2000, open_files=1)
    with pytest.raises(SchemaError, match=r"does not fit the type short.*column: n"):
        write_files(pa.Table.from_batches([*batches[:-1], *wide]), spec, LocalStorage(), str(tmp_path))
    assert not left_files(tmp_path)


def test_failures_of_a_bucket(request: pytest.FixtureRequest) -> None:
    """The files that were written to a store of another kind are deleted, too."""
    place = parse_location("memory://rows/failing table")
    store = open_store(place)
    bad = pa.table({"p": [1, 2, None], "n": [1, 2, 1 << 40]})
    narrow = Struct((Field("p", Primitive("long")), Field("n", Primitive("integer"))))
    spec = WriteSpec(narrow, partition_columns(narrow, ["p"]))
    written = write_files(bad.slice(0, 2), spec, store, place.path)
    with pytest.raises(SchemaError, match="a value does not fit the type integer"):
        write_files(pa.Table.from_batches(bad.to_batches(max_chunksize=1)), spec, store, place.path)
    assert sorted(meta.path for meta in store.walk(place.path)) == sorted(
        f"{place.path}/{path}" for path in written["path"].to_pylist()
    )
