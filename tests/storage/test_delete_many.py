"""Deleting many objects: each path is settled, whatever fails, and what is hopeless ends early."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

import pytest

from deltaberg.errors import AuthenticationError, StorageError
from deltaberg.storage import deletion, remote
from deltaberg.storage.base import DeletionFailure, Storage
from deltaberg.storage.deletion import delete_batches, delete_each
from deltaberg.storage.local import LocalStorage
from deltaberg.storage.location import parse_location
from deltaberg.storage.stores import open_store
from deltaberg.table.removal import FileKind, delete_files
from tests.storage.conftest import Bucket
from tests.support.faulty_proxy import Fault, FaultyProxy, Seen

pytestmark = pytest.mark.one_backend


class _Fake:
    """A store that holds names, and fails for some of them, or from some time on."""

    def __init__(self, names: Iterable[str], denied: Iterable[str] = (), *, batches: bool = True) -> None:
        self.names, self.denied, self.batches = set(names), set(denied), batches
        self.asked, self.most, self._at_once = 0, 0, 0
        self._lock = threading.Lock()

    def _outage(self, error: StorageError) -> bool:
        return "outage" in str(error)

    def _delete(self, path: str) -> bool:
        with self._lock:
            self.asked += 1
        if path in self.denied:
            raise AuthenticationError("denied", path=path)
        was_there = path in self.names
        self.names.discard(path)
        return was_there

    def _delete_batch(self, paths: list[str]) -> None:
        with self._lock:
            self._at_once += 1
            self.most = max(self.most, self._at_once)
        try:
            if not self.batches:
                raise StorageError("outage")
            # As a store does that answers for each key, and a client that tells of one only.
            failed = [path for path in paths if path in self.denied]
            self.names.difference_update(set(paths) - self.denied)
            if failed:
                raise StorageError(f"not all of them: {failed[0]}")
        finally:
            with self._lock:
                self._at_once -= 1

    def delete_many(
        self, paths: Iterable[str], deleted: Callable[[str], object] | None = None
    ) -> list[DeletionFailure]:
        return delete_batches(paths, 10, self._delete_batch, self._delete, self._outage, deleted)


def test_each_path_is_settled_in_order() -> None:
    names = [f"{number:04}" for number in range(995)]
    denied = names[3::50]
    store = _Fake(names, denied)
    gone: list[str] = []
    failures = store.delete_many(iter(names), gone.append)
    assert [failure.path for failure in failures] == denied
    assert all(isinstance(failure.error, AuthenticationError) for failure in failures)
    assert sorted(store.names) == denied
    # Also those of a batch that failed after it had deleted them.
    assert gone == [name for name in names if name not in denied]
    # Only the batches that failed are settled one by one.
    assert store.asked == 10 * len(denied)
    assert store.most <= 8


def test_paths_are_read_as_they_are_needed() -> None:
    """The input may be a stream of any length: what is read ahead is what is under way."""
    read = ended = 0

    def paths() -> Iterator[str]:
        nonlocal read
        for number in range(5_000):
            read += 1
            assert read - ended <= 10 * (8 + 2)
            yield str(number)

    def delete_batch(batch: list[str]) -> None:
        nonlocal ended
        with lock:
            ended += len(batch)

    lock = threading.Lock()
    assert delete_batches(paths(), 10, delete_batch, _never, _is_no_outage) == []
    assert read == ended == 5_000


def _never(path: str) -> bool:
    raise AssertionError(path)


@pytest.mark.parametrize("interrupted", [1, 55, 250])
def test_what_was_deleted_before_an_interruption_is_told(interrupted: int) -> None:
    """All of it: batches that are under way run to their end."""
    names = [f"{number:04}" for number in range(300)]
    store = _Fake(names)

    def paths() -> Iterator[str]:
        for number, name in enumerate(names):
            if number == interrupted:
                raise KeyboardInterrupt
            yield name

    gone: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        store.delete_many(paths(), gone.append)
    assert gone == [name for name in names if name not in store.names]


def _is_no_outage(error: StorageError) -> bool:
    del error
    return False


def test_what_is_denied_throughout_ends_early() -> None:
    names = [str(number) for number in range(20_000)]
    store = _Fake(names, names)
    failures = store.delete_many(names)
    assert [failure.path for failure in failures] == names
    # The threads that are at it finish what they have begun.
    assert 1_000 <= store.asked < 1_000 + 8
    tried = [failure.error for failure in failures if isinstance(failure.error, AuthenticationError)]
    untried = {id(failure.error): failure.error for failure in failures if failure.error not in tried}
    [given_up] = untried.values()
    assert "not tried" in str(given_up)
    assert "denied" in str(given_up)
    assert isinstance(given_up.__cause__, AuthenticationError)


def test_a_success_lets_it_go_on() -> None:
    """Many failures in all, and never too many of them in a row."""
    names = [str(number) for number in range(3_000)]
    denied = [name for number, name in enumerate(names) if number % 900]
    found = delete_each(iter(names), _Fake(names, denied)._delete)
    assert [failure.path for failure in found] == denied
    assert all(isinstance(failure.error, AuthenticationError) for failure in found)


def test_a_store_that_is_gone_ends_it_after_few_requests() -> None:
    tried = 0

    def gone(_: object) -> NoReturn:
        nonlocal tried
        tried += 1
        raise StorageError("outage")

    failures = delete_batches(map(str, range(100_000)), 1_000, gone, gone, lambda error: "outage" in str(error))
    assert len(failures) == 100_000
    assert 16 <= tried <= 16 + 8


def test_batches_that_fail_are_settled_by_single_deletions() -> None:
    names = [str(number) for number in range(300)]
    store = _Fake(names, batches=False)
    assert store.delete_many(names) == []
    assert (store.names, store.asked) == (set(), 300)


def test_other_errors_and_errors_of_the_input_are_raised() -> None:
    def wrong(_: list[str]) -> None:
        raise ZeroDivisionError

    def broken() -> Iterator[str]:
        yield from map(str, range(100))
        raise KeyError

    with pytest.raises(ZeroDivisionError):
        delete_batches(map(str, range(100)), 10, wrong, _never, _is_no_outage)
    with pytest.raises(KeyError):
        _Fake([]).delete_many(broken())


def test_local_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file that cannot be deleted does not keep others; missing ones and directories do not matter."""
    names = [tmp_path / f"{number}" for number in range(20)]
    for name in names:
        name.touch()
    refused, unlink = str(names[7]), deletion_of(tmp_path)

    monkeypatch.setattr("deltaberg.storage.local.os.unlink", unlink(refused))
    (tmp_path / "d").mkdir()
    paths = [*map(str, names), str(tmp_path / "missing"), str(tmp_path / "d"), str(tmp_path / "missing" / "x")]
    gone: list[str] = []
    [failure] = LocalStorage().delete_many(iter(paths), gone.append)
    assert gone == [path for path in map(str, names) if path != refused]
    assert failure.path == refused
    assert isinstance(failure.error, AuthenticationError)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["7", "d"]


def deletion_of(root: Path) -> Callable[[str], Callable[[str], None]]:
    """Return what makes a deletion that refuses one path."""
    import os

    unlink = os.unlink

    def refusing(refused: str) -> Callable[[str], None]:
        def one(path: str) -> None:
            assert path.startswith(str(root))
            if path == refused:
                raise PermissionError(13, "Permission denied")
            unlink(path)

        return one

    return refusing


# S3, whose answers come through the gateway.


def _opened(behind: Bucket, retries: int = 0) -> Storage:
    return open_store(parse_location(behind.url), {**behind.options, "max_retries": str(retries)})


def _fill(s3: Bucket, *names: str) -> Storage:
    direct = open_store(parse_location(s3.url), s3.options)
    for name in names:
        direct.put(name, b"x")
    return direct


def _keys(seen: Seen) -> list[str]:
    """Return which objects a request is to delete: obstore asks for one of them as it does for many."""
    if seen.method != "POST" or "delete" not in urlsplit(seen.target).query:
        return []
    return [key.text or "" for key in ET.fromstring(seen.body).iter() if key.tag.endswith("Key")]


def _is_batch(seen: Seen) -> bool:
    return len(_keys(seen)) > 1


def _refusal(key: str, code: str) -> Fault:
    """Return an answer that names one object that is not deleted, as a part of a success."""
    body = (
        '<DeleteResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Error><Key>{key}</Key><Code>{code}</Code><Message>no</Message></Error></DeleteResult>"
    )
    return Fault(forwards=0, answer=200, body=body.encode(), kind="application/xml")


def _left(direct: Storage) -> list[str]:
    return sorted(meta.path for meta in direct.walk(""))


_NAMES = [f"t/a b+%20 {number}" for number in range(12)]


@pytest.mark.parametrize("code", ["AccessDenied", "InternalError", "SlowDown"])
def test_partial_answers(s3: Bucket, behind: Bucket, s3_proxy: FaultyProxy, code: str) -> None:
    """The server answers that some are deleted and one is not, and one key stays denied."""
    direct = _fill(s3, *_NAMES, "keep")

    def trouble(seen: Seen) -> Fault | None:
        if _is_batch(seen):
            return _refusal(_NAMES[3], code)
        return _refusal(_NAMES[5], "AccessDenied") if _keys(seen) == [_NAMES[5]] else None

    s3_proxy.trouble = trouble
    [failure] = _opened(behind).delete_many(iter(_NAMES))
    assert failure.path == _NAMES[5]
    assert isinstance(failure.error, AuthenticationError)
    assert _left(direct) == ["keep", _NAMES[5]]


def test_throttled_batches(s3: Bucket, behind: Bucket, s3_proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches meet a 503 and the single deletions go through; a client that may repeats the batch itself."""
    monkeypatch.setattr(remote, "_DELETED_AT_ONCE", 4)
    slow = Fault(_is_batch, forwards=0, answer=503, body=b"<Error><Code>SlowDown</Code></Error>")
    for retries in (0, 3):
        direct = _fill(s3, *_NAMES)
        s3_proxy.reset()
        slow.times = 2
        s3_proxy.faults.append(slow)
        assert _opened(behind, retries).delete_many(_NAMES) == []
        assert _left(direct) == []
        assert s3_proxy.count(lambda seen: len(_keys(seen)) == 1) == (0 if retries else 8)


def test_a_store_that_fails_in_the_middle(
    s3: Bucket, behind: Bucket, s3_proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What went before is gone, and the rest is returned: nothing is both, and nothing is neither."""
    monkeypatch.setattr(remote, "_DELETED_AT_ONCE", 4)
    monkeypatch.setattr(deletion, "_THREADS", 1)
    direct = _fill(s3, *_NAMES)
    batches = 0

    def trouble(seen: Seen) -> Fault | None:
        nonlocal batches
        batches += _is_batch(seen)
        return Fault(forwards=0, answer="none") if _keys(seen) and batches > 1 else None

    s3_proxy.trouble = trouble
    failures = _opened(behind).delete_many(_NAMES)
    assert [failure.path for failure in failures] == _NAMES[4:]
    assert _left(direct) == sorted(_NAMES[4:])


def test_an_answer_that_is_lost(s3: Bucket, behind: Bucket, s3_proxy: FaultyProxy) -> None:
    """The batch was carried out, and nobody heard of it: its objects are found to be gone."""
    direct = _fill(s3, *_NAMES)
    s3_proxy.faults.append(Fault(_is_batch, answer="none"))
    assert _opened(behind).delete_many(_NAMES) == []
    assert _left(direct) == []


@pytest.mark.parametrize("answer", [403, "none", 503])
def test_nothing_can_be_deleted(
    s3: Bucket, behind: Bucket, s3_proxy: FaultyProxy, answer: int | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion, "_MOST_FAILURES", 100)
    monkeypatch.setattr(deletion, "_WEIGHT_OF_OUTAGE", 10)
    direct = _fill(s3, "t/0")
    body = b"<Error><Code>AccessDenied</Code></Error>" if answer == 403 else b""
    s3_proxy.trouble = lambda _: Fault(forwards=0, answer=answer, body=body)
    paths = [f"t/{number}" for number in range(5_000)]
    failures = _opened(behind).delete_many(paths)
    assert [failure.path for failure in failures] == paths
    assert "not tried" in str(failures[-1].error)
    # One request for each failure that counted, one for each batch, and those under way.
    assert len(s3_proxy.seen) <= (100 if answer == 403 else 10) + 5 + 8
    assert _left(direct) == ["t/0"]


def test_the_remover_raises_the_first_failure(s3: Bucket, behind: Bucket, s3_proxy: FaultyProxy) -> None:
    import re

    _fill(s3, "t/1.json", "t/2.json")
    s3_proxy.trouble = lambda _: Fault(forwards=0, answer=403, body=b"<Error><Code>AccessDenied</Code></Error>")
    kind = FileKind("a log entry", re.compile(r"[0-9]+\.json"))
    with pytest.raises(AuthenticationError, match=r"t/1\.json"):
        delete_files(_opened(behind), "t", ["t/1.json", "t/2.json"], kind, "a test").or_raise()
