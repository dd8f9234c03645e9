"""Operations that go back to a snapshot while it expires: it stays with its files, or they fail, whoever is first."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaberg
from deltaberg.errors import CommitConflictError, VersionNotFoundError
from deltaberg.iceberg.transaction.expiry_guard import ExpiryGuard, guards_of
from deltaberg.iceberg.updates import updates as changes
from deltaberg.storage.local import LocalStorage
from deltaberg.table.commit.commit import ClockedPolicy, CommitPolicy
from tests.catalogs.rest_writer import WritableServer
from tests.support.iceberg_commits import commit_table
from tests.support.rows import ids, ids_of

pytestmark = pytest.mark.one_backend

_END = "9999-12-31"
_QUICK = {"commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "1"}
#: What finds, reads and writes metadata in a directory.
_STORE = ("get", "put", "list_from")


class _Steps:
    """Counts the steps of what goes on, and does something before one of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.begin(0)

    def begin(self, number: int, act: Callable[[], object] = lambda: None) -> None:
        self.count, self._number, self._act = 0, number, act
        self._is_acting = False

    def step(self) -> None:
        with self._lock:
            if self._is_acting:
                return
            self.count += 1
            self._is_acting = self.count == self._number
            if not self._is_acting:
                return
        try:
            self._act()
        finally:
            self._is_acting = False


class _Rest:
    """Tables of a REST catalog, whose requests are the steps."""

    def __init__(self, server: WritableServer, steps: _Steps) -> None:
        self._server, self._number = server, 0
        real = server.answer

        def answer(asked: Any) -> Any:
            steps.step()
            return real(asked)

        server.answer = answer  # type: ignore[method-assign]

    def new(self) -> Any:
        self._number += 1
        return self._catalog.create_table(f"sales.t{self._number}", pa.schema({"id": pa.int64()}), properties=_QUICK)

    def open(self, **state: Any) -> Any:
        return self._catalog.load_table(f"sales.t{self._number}", **state)

    @property
    def _catalog(self) -> Any:
        return deltaberg.load_catalog("far", uri=self._server.uri)


class _Directory:
    """Tables in directories, where what is asked of the store are the steps."""

    def __init__(self, root: Path) -> None:
        self._root, self._number = root, 0

    def new(self) -> Any:
        self._number += 1
        return deltaberg.create_table(self._at, {"id": pa.int64()}, format="iceberg", properties=_QUICK)

    def open(self, **state: Any) -> Any:
        return deltaberg.IcebergTable(self._at, **state)

    @property
    def _at(self) -> str:
        return str(self._root / f"t{self._number}")


@contextmanager
def _stepped_store(steps: _Steps) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in _STORE:
            real = getattr(LocalStorage, name)

            def stepped(self: LocalStorage, path: str, *given: Any, real: Any = real, **named: Any) -> Any:
                if path.endswith((".metadata.json", "/metadata/", "/metadata")):
                    steps.step()
                return real(self, path, *given, **named)

            patch.setattr(LocalStorage, name, stepped)
        yield


@pytest.fixture
def catalog(writable: WritableServer) -> _Rest:
    """Our client of it."""
    return _Rest(writable, _Steps())


@pytest.fixture
def place(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> Iterator[tuple[Any, _Steps]]:
    steps = _Steps()
    if kind == "rest":
        yield _Rest(request.getfixturevalue("writable"), steps), steps
    else:
        with _stepped_store(steps):
            yield _Directory(tmp_path), steps


def _history(place: Any) -> tuple[Any, int, int]:
    """Return a table at the rows [3], whose first snapshot has the row 1, and one that is on no branch the row 9."""
    table = place.new()
    first = table.overwrite(ids(1)).snapshot_id
    staged = table.append(ids(9), properties={"wap.id": "later"}).snapshot_id
    table.overwrite(ids(2))
    table.overwrite(ids(3))
    return table, first, staged


#: What goes back to a snapshot, where its rows are then, and which those are.
_RETURNS: dict[str, tuple[Callable[[Any, int, int], object], str, list[int]]] = {
    "tag": (lambda table, first, _: table.alter().create_tag("kept", first).commit(), "kept", [1]),
    "branch": (lambda table, first, _: table.alter().create_branch("kept", first).commit(), "kept", [1]),
    "rollback": (lambda table, first, _: table.alter().rollback_to_snapshot(first).commit(), "main", [1]),
    "restore": (lambda table, first, _: table.restore(first), "main", [1]),
    "set current": (lambda table, first, _: table.alter().set_current_snapshot(first).commit(), "main", [1]),
    "pick": (lambda table, _, staged: table.cherrypick_snapshot(staged), "main", [3, 9]),
    "publish": (lambda table, *_: table.publish("later"), "main", [3, 9]),
}

#: One of each kind: a name that is new, and files that are added again. A catalog is asked the same for both.
_FIRST = {("rest", "tag"), ("directory", "tag"), ("directory", "pick")}


def _tried(go_back: Callable[[], object]) -> tuple[Callable[[], None], list[Exception | None]]:
    told: list[Exception | None] = []

    def attempt() -> None:
        try:
            go_back()
        except VersionNotFoundError as error:
            told.append(error)
        else:
            told.append(None)

    return attempt, told


@pytest.mark.req("ICE-MNT-24")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "what"),
    [
        pytest.param(kind, what, marks=[] if (kind, what) in _FIRST else pytest.mark.full)
        for kind in ("rest", "directory")
        for what in _RETURNS
    ],
)
@pytest.mark.parametrize("between", ["return", "expiry"])
def test_at_every_step(place: tuple[Any, _Steps], what: str, between: str) -> None:
    """Whichever comes at whatever step of the other: the rows of the snapshot are there, or its author is told."""
    tables, steps = place
    go_back, ref, rows_of_ref = _RETURNS[what]
    outcomes: list[bool] = []
    while True:
        _, first, staged = _history(tables)
        author, expirer = tables.open(), tables.open()
        attempt, told = _tried(partial(go_back, author, first, staged))

        def expire(expirer: Any = expirer) -> None:
            expirer.expire_snapshots(_END)

        outer, inner = (expire, attempt) if between == "return" else (attempt, expire)
        steps.begin(len(outcomes) + 1, inner)
        outer()
        taken = steps.count
        steps.begin(0)
        if taken <= len(outcomes):
            break
        newest = tables.open()
        assert guards_of(newest.metadata) == []
        (error,) = told
        if error is None:
            assert ids_of(tables.open(ref=ref)) == rows_of_ref, taken
        assert ids_of(newest) == (rows_of_ref if error is None and ref == "main" else [3])
        outcomes.append(error is None)
    assert len(outcomes) > 1
    # The expiry is first at some steps, and last at others.
    assert False in outcomes
    assert True in outcomes or between == "expiry"


@pytest.mark.req("ICE-MNT-24")
def test_a_commit_that_landed_tells_that_its_snapshot_is_gone(writable: WritableServer, catalog: _Rest) -> None:
    """The expiry lands between the commit and the removal of its tag."""
    table, first, _ = _history(catalog)
    committer = table._pointer.committer()
    guard = ExpiryGuard(committer, ClockedPolicy())
    guard.put(table._loaded, [first])

    def expiry() -> None:
        forgotten = [changes.RemoveSnapshots((first,)), changes.RemoveSnapshotRef(guard.name)]
        commit_table(committer, lambda _: (forgotten, []))

    writable.before += [lambda: None, expiry]
    with pytest.raises(VersionNotFoundError, match="the change was committed, but it went back to") as caught:
        table.alter().create_tag("kept", first).commit()
    assert str(first) in str(caught.value)
    assert 'choose one that inspect("snapshots") shows' in str(caught.value)
    assert set(catalog.open().refs) == {"main"}


def test_an_expiry_gives_up_where_names_keep_coming(writable: WritableServer, catalog: _Rest) -> None:
    """Nothing has expired then, and no tag of its own is left."""
    table, first, _ = _history(catalog)
    names = iter(range(100))

    def another() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(writable, "before", [])
            catalog.open().alter().create_tag(f"t{next(names)}", first).commit()

    # The first commit of each attempt sets its tag, and the second one expires.
    writable.before += [lambda: None, another] * 2
    policy = CommitPolicy(retries=1, pause=0.0)
    with pytest.raises(CommitConflictError, match="a branch or a tag was set each time"):
        table.expire_snapshots(_END, policy=policy)
    metadata = catalog.open().metadata
    assert (len(metadata.snapshots), set(metadata.refs)) == (4, {"main", "t0", "t1"})
    assert len(table.expire_snapshots(_END).snapshot_ids) == 2


def test_another_expiry_is_faster(writable: WritableServer, catalog: _Rest) -> None:
    """It lands before the tag of this one, which then finds nothing to do."""
    table, *_ = _history(catalog)

    def another() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(writable, "before", [])
            assert len(catalog.open().expire_snapshots(_END).snapshot_ids) == 3

    writable.before.append(another)
    done = table.expire_snapshots(_END, policy=CommitPolicy(retries=3, pause=0.0))
    assert (done.snapshot_ids, done.commit, set(catalog.open().refs)) == ((), None, {"main"})
    assert ids_of(catalog.open()) == [3]


def test_a_tag_that_an_interrupted_expiry_has_left(catalog: _Rest) -> None:
    """It keeps no snapshot, refuses none, and the next expiry removes it, of which it is none of the tags."""
    table, first, _ = _history(catalog)
    left = ExpiryGuard(table._pointer.committer(), ClockedPolicy())
    left.put(table._loaded, [first])
    done = catalog.open().expire_snapshots(snapshot_ids=[first])
    assert (done.snapshot_ids, done.refs, set(catalog.open().refs)) == ((first,), (), {"main"})


def test_what_becomes_old_after_nothing_was_is_guarded_as_well(writable: WritableServer) -> None:
    """Whatever comes in at any step: no snapshot expires by a commit that does not require the tag of its expiry."""
    steps = _Steps()
    catalog = _Rest(writable, steps)
    catalog.new().append(ids(1))
    number = 0
    while steps.count >= number:
        number += 1
        writer, expirer = catalog.open(), catalog.open()
        steps.begin(number, partial(writer.append, ids(2)))
        writable.asked.clear()
        expirer.expire_snapshots(_END, policy=CommitPolicy(retries=9, pause=0.0))
        expiries = [asked.body for asked in writable.asked if "remove-snapshots" in asked.body]
        assert all("assert-ref-snapshot-id" in body and "deltaberg-expiry-" in body for body in expiries)
    assert number > 3
