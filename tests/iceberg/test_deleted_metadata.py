"""Metadata files that commits of others delete after a reader or a writer has found them, and before it reads them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltaberg.errors import ObjectNotFoundError
from deltaberg.storage.local import LocalStorage
from tests.crash.targets import Target
from tests.support.rows import ID, ids, ids_of

pytestmark = pytest.mark.one_backend

#: Only the newest file and the one before it stay.
_PROPERTIES = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}


class _Overtaken:
    """A table to which others commit three times, when the first of its metadata files is about to be read."""

    def __init__(self, at: Target, monkeypatch: pytest.MonkeyPatch) -> None:
        at.prepare()
        self.others = at.create(ID, properties=_PROPERTIES)
        self.others.append(ids(0))
        self.at = at
        self.deleted: list[str] = []
        self._get = LocalStorage.get
        self._monkeypatch = monkeypatch

    def overtake(self) -> None:
        """Begin: the next read of a metadata file comes too late."""

        def late(storage: LocalStorage, path: str, *most: int) -> bytes:
            if path.endswith(".metadata.json") and not self.deleted:
                self.deleted.append(path)
                for number in (1, 2, 3):
                    self.others.append(ids(number))
                assert not Path(path).exists()
            return self._get(storage, path, *most)

        self._monkeypatch.setattr(LocalStorage, "get", late)


def _open(found: Any, at: Target) -> Any:
    del found
    return at.open()


def _refresh(found: Any, at: Target) -> Any:
    del at
    return found.refresh()


@pytest.fixture(params=["iceberg", "no hint", "sqlite"])
def overtaken(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Overtaken:
    """A table in a directory, with a version hint and without one, and in a catalog."""
    kind: str = request.param
    reader = _Overtaken(Target(str(tmp_path), kind="iceberg" if kind == "no hint" else kind), monkeypatch)
    if kind == "no hint":
        put = LocalStorage.put

        def without_hint(storage: LocalStorage, path: str, data: bytes, **how: Any) -> Any:
            return None if path.endswith("version-hint.text") else put(storage, path, data, **how)

        monkeypatch.setattr(LocalStorage, "put", without_hint)
        (tmp_path / "metadata" / "version-hint.text").unlink()
    return reader


@pytest.mark.parametrize("read", [_open, _refresh])
def test_a_reader_finds_the_newest_one(overtaken: _Overtaken, read: Callable[[Any, Target], Any]) -> None:
    found = overtaken.at.open()
    overtaken.others.append(ids(10))
    overtaken.overtake()
    assert ids_of(read(found, overtaken.at)) == [0, 1, 2, 3, 10]
    assert overtaken.deleted


def test_a_writer_commits_on_top_of_the_newest_one(overtaken: _Overtaken) -> None:
    table = overtaken.at.open()
    overtaken.others.append(ids(10))
    overtaken.overtake()
    assert table.append(ids(11)).committed
    assert ids_of(overtaken.at.open()) == [0, 1, 2, 3, 10, 11]
    assert overtaken.deleted


def test_a_file_that_is_gone_for_good_is_named(tmp_path: Path) -> None:
    at = Target(str(tmp_path), kind="sqlite")
    at.prepare()
    file = Path(at.create(ID).metadata_location.removeprefix("file://"))
    file.unlink()
    with pytest.raises(ObjectNotFoundError, match=file.name):
        at.open()
