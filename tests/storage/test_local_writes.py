"""Local writes: on disk when they return, whole or not there, on every file system, and after every crash."""

from __future__ import annotations

import errno
import os
import resource
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deltaberg.errors import AuthenticationError, StorageError, UnsupportedFeatureError
from deltaberg.storage import atomic
from deltaberg.storage.base import PutOutcome, is_temporary
from deltaberg.storage.local import LocalStorage
from deltaberg.storage.location import parse_location
from deltaberg.table.removal import drop_empty_directories

pytestmark = pytest.mark.one_backend


@pytest.fixture
def store() -> LocalStorage:
    """A store that has probed nothing yet."""
    return LocalStorage()


def _names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def _failing(number: int) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize("if_absent", [False, True])
def test_content_and_names_are_synced(
    if_absent: bool, store: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First the content, then the name: each new directory is recorded in the one above it."""
    events: list[str] = []
    sync, link, replace = os.fsync, os.link, os.replace

    def synced(descriptor: int) -> None:
        found = os.readlink(f"/proc/self/fd/{descriptor}")
        events.append(os.path.basename(found) if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "content")
        sync(descriptor)

    def linked(*names: Any) -> None:
        events.append("name")
        link(*names)

    def replaced(*names: Any) -> None:
        events.append("name")
        replace(*names)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "link", linked)
    monkeypatch.setattr(os, "replace", replaced)
    store.put(str(tmp_path / "a" / "b" / "x"), b"1", if_absent=if_absent)
    assert events == [tmp_path.name, "a", "content", "name", "b"]
    with store.open_output(str(tmp_path / "a" / "y")) as file:
        file.write(b"2")
        events.clear()
    assert events == ["content", "name", "a"]


def test_a_directory_that_cannot_be_synced(
    store: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = os.fsync

    def fail(number: int) -> Callable[[int], None]:
        def fsync(descriptor: int) -> None:
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                raise OSError(number, os.strerror(number))
            sync(descriptor)

        return fsync

    # Some file systems have nothing to sync there.
    monkeypatch.setattr(os, "fsync", fail(errno.EINVAL))
    assert store.put(str(tmp_path / "x"), b"1", if_absent=True).outcome is PutOutcome.WRITTEN
    # On a disk that fails, the name may be lost with the power.
    monkeypatch.setattr(os, "fsync", fail(errno.EIO))
    result = store.put(str(tmp_path / "y"), b"1", if_absent=True)
    assert result.outcome is PutOutcome.UNKNOWN
    assert "does not say whether the file was written" in str(result.cause)
    assert _names(tmp_path) == ["x", "y"]
    with pytest.raises(StorageError, match="the file cannot be written"):
        store.put(str(tmp_path / "x"), b"2")


def test_a_temporary_file_that_cannot_be_removed_is_no_failure(
    store: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", _failing(errno.EACCES))
        assert store.put(str(tmp_path / "x"), b"1", if_absent=True).outcome is PutOutcome.WRITTEN
        assert store.put(str(tmp_path / "x"), b"2", if_absent=True).outcome is PutOutcome.EXISTS
    assert len(_names(tmp_path)) == 3
    assert [meta.path for meta in store.list_from(str(tmp_path))] == [str(tmp_path / "x")]
    assert store.get(str(tmp_path / "x")) == b"1"


@pytest.mark.parametrize("step", ["link", "replace"])
def test_what_a_crash_leaves_is_not_listed(
    step: str, store: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(os, step, lambda *_: os._exit(9))
        try:
            store.put(str(tmp_path / "x"), b"cut off", if_absent=step == "link")
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    (left,) = _names(tmp_path)
    assert is_temporary(left)
    assert list(store.list_from(str(tmp_path))) == []
    assert not store.has_objects(str(tmp_path))
    # Whoever removes orphans finds it.
    assert [meta.path for meta in store.walk(str(tmp_path))] == [str(tmp_path / left)]
    assert store.put(str(tmp_path / "x"), b"whole", if_absent=True).outcome is PutOutcome.WRITTEN
    assert [meta.path for meta in store.list_from(str(tmp_path))] == [str(tmp_path / "x")]


def test_names_of_others_are_listed(store: LocalStorage, tmp_path: Path) -> None:
    names = [".x.tmp", ".deltaberg-1.tmp", f".deltaberg-{'g' * 32}.tmp", f".deltaberg-{'0' * 32}.tmp.x", "x.tmp"]
    for name in names:
        (tmp_path / name).touch()
    assert [os.path.basename(meta.path) for meta in store.list_from(str(tmp_path))] == sorted(names)


def test_long_names(store: LocalStorage, tmp_path: Path) -> None:
    name = str(tmp_path / ("n" * 255))
    assert store.put(name, b"1", if_absent=True).outcome is PutOutcome.WRITTEN
    with pytest.raises(StorageError, match="too long"):
        store.put(name + "n", b"1", if_absent=True)
    assert _names(tmp_path) == ["n" * 255]


@contextmanager
def _largest_file(size: int) -> Iterator[None]:
    """Let files grow no larger; a full disk refuses in the same calls."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_no_space_leaves_nothing(store: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytes(9 << 20)
    store.put(str(tmp_path / "old"), b"old")

    def fill() -> None:
        with store.open_output(str(tmp_path / "x")) as file:
            file.write(data[: 7 << 20])
            file.write(data)

    with _largest_file(8 << 20):
        for name in ("x", "old"):
            for if_absent in (True, False):
                with pytest.raises(StorageError, match="cannot be written"):
                    store.put(str(tmp_path / name), data, if_absent=if_absent)
        with pytest.raises(StorageError, match="cannot be written"):
            fill()
    for step in ("fsync", "link"):
        with monkeypatch.context() as patch:
            patch.setattr(os, step, _failing(errno.ENOSPC))
            with pytest.raises(StorageError, match="No space left"):
                store.put(str(tmp_path / "x"), b"1", if_absent=True)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", _failing(errno.ENOSPC))
        file = store.open_output(str(tmp_path / "x"))
        file.write(b"1")
        with pytest.raises(StorageError, match="No space left"):
            file.close()
    assert _names(tmp_path) == ["old"]
    assert store.get(str(tmp_path / "old")) == b"old"


def test_permission_denied(store: LocalStorage, tmp_path: Path) -> None:
    """The child is nobody in particular: root may write everywhere."""
    folder = tmp_path / "closed"
    folder.mkdir()
    (folder / "x").write_bytes(b"1")
    folder.chmod(0o555)
    (folder / "x").chmod(0o400)

    def refused(work: Callable[[], Any]) -> bool:
        try:
            work()
        except AuthenticationError as error:
            return "Permission denied" in str(error)
        return False

    child = os.fork()
    if child == 0:
        code = 1
        try:
            # The folders above are closed to others, but a working directory is not looked up.
            os.chdir(folder)
            if os.geteuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            here = "."
            checks = [
                refused(lambda: store.put(f"{here}/y", b"2", if_absent=True)),
                refused(lambda: store.put(f"{here}/x", b"2")),
                refused(lambda: store.open_output(f"{here}/y")),
                refused(lambda: store.probe_conditional_put(here)),
                refused(lambda: store.delete(f"{here}/x")),
                refused(lambda: store.get(f"{here}/x")) or os.geteuid() != 65534,
            ]
            code = 0 if all(checks) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    folder.chmod(0o755)
    assert _names(folder) == ["x"]
    assert (folder / "x").read_bytes() == b"1"


def test_a_link_that_a_network_repeats(store: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS sends a request again whose answer was lost, and the second is refused; the link is ours all the same."""
    link = os.link

    def repeated(*names: Any) -> None:
        link(*names)
        link(*names)

    monkeypatch.setattr(os, "link", repeated)
    assert store.put(str(tmp_path / "x"), b"1", if_absent=True).outcome is PutOutcome.WRITTEN
    assert store.put(str(tmp_path / "x"), b"2", if_absent=True).outcome is PutOutcome.EXISTS
    assert store.get(str(tmp_path / "x")) == b"1"


def test_a_link_of_somebody_else_is_not_ours(
    store: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup tool links the temporary file to a name of its own while another writer is first."""
    link = os.link
    path = tmp_path / "x"

    def overtaken(temporary: str, name: str) -> None:
        link(temporary, tmp_path / "backup")
        path.write_bytes(b"theirs")
        link(temporary, name)

    monkeypatch.setattr(os, "link", overtaken)
    assert store.put(str(path), b"ours", if_absent=True).outcome is PutOutcome.EXISTS
    assert path.read_bytes() == b"theirs"
    assert (tmp_path / "backup").read_bytes() == b"ours"


@pytest.mark.parametrize("gone", ["the temporary file", "the name"])
def test_a_refusal_that_cannot_be_checked_settles_nothing(
    gone: str, store: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(temporary: str, name: str) -> None:
        if gone == "the temporary file":
            Path(name).write_bytes(b"theirs")
            os.unlink(temporary)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))

    monkeypatch.setattr(os, "link", refused)
    assert store.put(str(tmp_path / "x"), b"ours", if_absent=True).outcome is PutOutcome.UNKNOWN


@pytest.mark.parametrize("has_links", [True, False])
def test_a_name_that_is_not_a_file(
    has_links: bool, store: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing could be read back there, so nobody may be told that an object exists."""
    if not has_links:
        monkeypatch.setattr(os, "link", _failing(errno.EPERM))
    (tmp_path / "directory").mkdir()
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "file").write_bytes(b"theirs")
    (tmp_path / "good").symlink_to(tmp_path / "file")
    before = _names(tmp_path)
    for name in ("directory", "broken", "loop"):
        with pytest.raises(StorageError, match=r"^the file cannot be written: a [a-z ]* has this name "):
            store.put(str(tmp_path / name), b"ours", if_absent=True)
    assert store.put(str(tmp_path / "good"), b"ours", if_absent=True).outcome is PutOutcome.EXISTS
    assert store.get(str(tmp_path / "good")) == b"theirs"
    assert _names(tmp_path) == before


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT])
def test_a_link_of_which_nobody_knows(
    number: int, store: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", _failing(number))
    result = store.put(str(tmp_path / "x"), b"1", if_absent=True)
    assert result.outcome is PutOutcome.UNKNOWN
    assert os.strerror(number) in str(result.cause)
    assert _names(tmp_path) == []


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK])
def test_file_systems_without_hard_links(
    number: int, store: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", _failing(number))
    path = str(tmp_path / "d" / "x y%")
    assert store.put(path, b"1", if_absent=True).outcome is PutOutcome.WRITTEN
    assert store.put(path, b"2", if_absent=True).outcome is PutOutcome.EXISTS
    assert store.get(path) == b"1"
    with ThreadPoolExecutor(8) as pool:
        contents = [b"%d" % number * 1000 for number in range(8)]
        results = list(pool.map(lambda data: store.put(path + "2", data, if_absent=True).outcome, contents))
    assert results.count(PutOutcome.WRITTEN) == 1
    assert store.get(path + "2") == contents[results.index(PutOutcome.WRITTEN)]
    assert store.probe_conditional_put(str(tmp_path / "d"))
    assert _names(tmp_path / "d") == ["x y%", "x y%2"]


def test_file_systems_on_which_nothing_is_exclusive(
    store: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are refused: what looks and then writes lets two writers win."""
    monkeypatch.setattr(os, "link", _failing(errno.EPERM))
    for rename in (None, lambda *_: errno.EINVAL):
        monkeypatch.setattr(atomic, "_rename_without_replacing", lambda rename=rename: rename)
        with pytest.raises(UnsupportedFeatureError, match="neither hard links"):
            store.put(str(tmp_path / "x"), b"1", if_absent=True)
        assert not LocalStorage().probe_conditional_put(str(tmp_path / "_log"))
    assert store.put(str(tmp_path / "x"), b"1").outcome is PutOutcome.WRITTEN
    assert [meta.path for meta in store.walk(str(tmp_path))] == [str(tmp_path / "x")]


def test_the_probe_is_asked_once_for_a_file_system(
    store: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = []
    link = os.link

    def counted(*names: Any) -> None:
        links.append(names)
        link(*names)

    monkeypatch.setattr(os, "link", counted)
    for name in ("a", "b/c", "a"):
        assert store.probe_conditional_put(str(tmp_path / name))
    assert len(links) == 2
    # A table that is not there yet has no directory because of that.
    assert _names(tmp_path) == []


def test_walking_follows_no_links_to_directories(store: LocalStorage, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x").touch()
    (tmp_path / "d" / "loop").symlink_to(tmp_path)
    (tmp_path / "d" / "y").symlink_to(tmp_path / "d" / "x")
    (tmp_path / "d" / "broken").symlink_to(tmp_path / "nowhere")
    found = sorted(meta.path for meta in store.walk(str(tmp_path)))
    assert found == [str(tmp_path / "d" / "x"), str(tmp_path / "d" / "y")]


@pytest.mark.parametrize("often", [1, 3, 100])
def test_a_directory_that_others_delete_while_it_is_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, often: int
) -> None:
    """Writers who give up delete the directories that hold nothing: one of another writer is made again then."""
    make, left = atomic._make_directories, iter(range(often))

    def make_in_vain(directory: str) -> None:
        make(directory)
        if next(left, None) is not None:
            drop_empty_directories(parse_location(tmp_path), [f"{directory}/gone"])

    monkeypatch.setattr(atomic, "_make_directories", make_in_vain)
    path = str(tmp_path / "a/b/f")
    if often > 3:
        with pytest.raises(StorageError, match="No such file"):
            LocalStorage().put(path, b"x")
    else:
        LocalStorage().put(path, b"x")
    assert Path(path).exists() == (often <= 3)
