"""Other libraries never read fewer rows of a Delta table whose drop was interrupted: its version, or an error."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import deltalake
import pyarrow as pa
import pytest

from deltaberg import create_table, drop_table
from deltaberg.storage.local import LocalStorage
from tests.support.judge import Judge
from tests.support.rows import ids

#: The rows of each version of the table.
_VERSIONS = [[], [1, 2, 3], [1, 3], [1, 3, 5], [1, 3, 5, 9]]
#: What delta-spark finds by the names of directories: an error is a text.
_READ = """
def found(query):
    try:
        return sorted(row["id"] for row in spark.sql(query).collect())
    except Exception as error:
        return type(error).__name__
{name: [found(f"SELECT id FROM delta.`{folder}/{name}`" + of) for of in moments] for name in names}
"""


class _Killed(BaseException):
    """What ends a drop."""


def _made(root: Path, vectors: str) -> None:
    properties = {"delta.enableDeletionVectors": vectors, "delta.enableChangeDataFeed": "true"}
    table = create_table(root, ids().schema, properties=properties)
    table.append(ids(1, 2, 3))
    table.delete("id = 2")
    table.append(ids(5))
    table.checkpoint()
    table.append(ids(9))


def _some_deletions(left: int, order: int) -> Any:
    """Return what deletes so many files, and is killed before it deletes another one."""
    delete_many: Any = LocalStorage.delete_many

    def delete_some(store: LocalStorage, paths: Iterable[str], deleted: Callable[[str], object]) -> Any:
        nonlocal left
        some: Sequence[str] = list(paths)[::order]
        failures = delete_many(store, some[:left], deleted)
        if len(some) > left:
            raise _Killed
        left -= len(some)
        return failures

    return delete_some


def _interrupted(whole: Path, folder: Path) -> Iterator[str]:
    """Yield the names of copies of a table whose drop was killed before each of its deletions, in either order."""
    for order in (1, -1):
        number, is_killed = 0, True
        while is_killed:
            copy = folder / f"{number}.{order}"
            shutil.copytree(whole, copy)
            with mock.patch.object(LocalStorage, "delete_many", _some_deletions(number, order)):
                try:
                    drop_table(copy, purge=True)
                    is_killed = False
                except _Killed:
                    yield copy.name
            number += 1


def _by_deltalake(root: Path, version: int | None) -> list[int] | str:
    try:
        rows = pa.table(deltalake.DeltaTable(root, version=version).to_pyarrow_table())
    # Some of its errors are none of Exception.
    except BaseException as error:  # noqa: BLE001
        return type(error).__name__
    return sorted(rows["id"].to_pylist())


@pytest.mark.judges
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.one_backend
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("vectors", ["false", "true"])
def test_no_row_is_missing(judge: Judge, tmp_path: Path, vectors: str) -> None:
    _made(tmp_path / "whole", vectors)
    names = list(_interrupted(tmp_path / "whole", tmp_path))
    # Data files, change files and vectors, and more files of the log.
    assert len(names) > 20
    # It takes its time for each of them.
    moments = {"": _VERSIONS[-1], " VERSION AS OF 1": _VERSIONS[1], " VERSION AS OF 3": _VERSIONS[3]}
    found = judge.run(_READ, folder=str(tmp_path), names=["whole", *names[::3]], moments=list(moments))
    assert found.pop("whole") == list(moments.values())
    for name, (newest, *older) in found.items():
        assert isinstance(newest, str), (name, newest)
        for answer, expected in zip(older, list(moments.values())[1:], strict=True):
            assert isinstance(answer, str) or answer == expected, (name, answer)
    if vectors == "false":
        assert _by_deltalake(tmp_path / "whole", None) == _VERSIONS[-1]
    for name in names:
        assert isinstance(_by_deltalake(tmp_path / name, None), str), name
        for number, expected in enumerate(_VERSIONS):
            answer = _by_deltalake(tmp_path / name, number)
            assert isinstance(answer, str) or answer == expected, (name, number, answer)
