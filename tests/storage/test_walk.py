"""Listing all that is below a directory: a stream, of every name there is, and never a short one."""

from __future__ import annotations

import os
import tracemalloc
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.errors import AuthenticationError, StorageError
from deltaberg.storage import remote
from deltaberg.storage.local import LocalStorage
from deltaberg.storage.location import parse_location
from deltaberg.storage.stores import open_store
from tests.kernels.twins import backends
from tests.storage.conftest import Bucket
from tests.storage.places import Place
from tests.support.faulty_proxy import Fault, FaultyProxy, Seen
from tests.support.long_listing import LongListing
from tests.support.versioned_bucket import VersionedBucket

pytestmark = pytest.mark.one_backend

_ODD_NAMES = ["a b", "a%20b", "a+b", "#", "?x=1", "é", "e\u0301", "日本\U0001f600", "p=%2F/q=1%25/x", "..x", "a&<b>"]
#: No client of a bucket takes these; a directory may hold them.
_CONTROL = ["a\nb", "a\tb", "\x7f"]


def test_names_of_all_kinds_and_no_siblings(place: Place) -> None:
    """The name of a directory is no beginning of a name: what is beside it is not below it."""
    names = [*_ODD_NAMES, *(_CONTROL if place.kind == "local" else ())]
    place.fill(*(f"t/{name}" for name in names), "t2/x", "t 2", "t-x/t/y", "s/t/z")
    place.fill(*(f"{name}.d/x" for name in names))
    for prefix in (place("t"), f"{place('t')}/"):
        assert sorted(meta.path for meta in place.store.walk(prefix)) == sorted(place(f"t/{name}") for name in names)
    for name in names:
        assert [meta.path for meta in place.store.walk(place(f"{name}.d"))] == [place(f"{name}.d/x")]


def test_a_level_has_the_objects_and_directories_that_a_walk_comes_by(place: Place) -> None:
    names = [*_ODD_NAMES, *(_CONTROL if place.kind == "local" else ())]
    place.fill(*(f"t/{name}" for name in names), "t2/x", *(f"t/{name}.d/e/x" for name in names if "/" not in name))
    waiting, paths = ["t"], []
    while waiting:
        directory = waiting.pop()
        level = place.store.level(place(directory))
        paths += [meta.path for meta in level.objects]
        waiting += [f"{directory}/{name}" for name in level.directories]
    assert sorted(paths) == sorted(meta.path for meta in place.store.walk(place("t")))
    assert sorted(place.store.level(place("t2"))[1]) == []
    assert place.store.level(place("none")) == ([], [])


def test_only_what_is_wanted_of_a_listing_comes(place: Place) -> None:
    names = [f"t/p={number % 3}/{number}" for number in range(20)]
    place.fill(*names)
    shown: list[str] = []

    def wanted(paths: list[str]) -> list[bool]:
        shown.extend(paths)
        return [path.endswith("7") for path in paths]

    found = list(place.store.walk(place("t"), wanted))
    assert sorted(meta.path for meta in found) == [place(name) for name in names if name.endswith("7")]
    assert sorted(shown) == sorted(map(place, names))
    assert all(place.store.head(meta.path)[:2] == meta[:2] for meta in found)


def test_a_disk_is_only_asked_about_what_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To look at each file takes several times as long as to read its name."""
    for number in range(100):
        (tmp_path / str(number)).touch()
    asked: list[str] = []
    stat = os.stat

    def counting(path: str, **how: Any) -> Any:
        asked.append(path)
        return stat(path, **how)

    monkeypatch.setattr("deltaberg.storage.local.os.stat", counting)
    only = str(tmp_path / "77")
    assert [meta.path for meta in LocalStorage().walk(str(tmp_path), lambda paths: [path == only for path in paths])]
    assert asked == [only]


def test_a_key_that_the_client_cannot_name_is_raised(behind: Bucket, s3_proxy: FaultyProxy) -> None:
    """It is neither left out nor taken for another."""
    store = open_store(parse_location(behind.url), behind.options)
    for key, is_taken in (("t/ab", True), ("t/a&#10;b", False)):
        page = (
            '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><IsTruncated>false</IsTruncated>'
            f"<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00Z</LastModified><Size>1</Size>"
            '<ETag>"1"</ETag></Contents></ListBucketResult>'
        )
        s3_proxy.faults.append(Fault(forwards=0, answer=200, body=page.encode(), kind="application/xml"))
        if is_taken:
            assert [meta.path for meta in store.walk("t")] == [key]
        else:
            with pytest.raises(StorageError, match="invalid path"):
                list(store.walk("t"))


def test_a_listing_goes_on_behind_what_the_client_cannot_name(s3: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others of its page are lacking, and whoever lists is told; what comes behind is whole."""
    monkeypatch.setattr("moto.settings.get_s3_default_max_keys", lambda: 10)
    monkeypatch.setattr(remote, "_LISTED_AT_ONCE", 10)
    bucket = VersionedBucket(s3.options["AWS_ENDPOINT_URL"])
    names = [f"t/{letter}{number:02}" for letter in "bdfh" for number in range(20)]
    odd = ["t/b//x", "t/b//y", "t/d/../x", "t/d/./x", "t/f/x//", "t//"]
    for name in [*names, *odd, "t/b/1", "t/x/"]:
        bucket.put(name, b"x" if name in names else b"")
    store = open_store(parse_location(f"s3://{bucket.name}"), bucket.options)
    with pytest.raises(StorageError, match="t//"):
        list(store.walk("t"))
    told: list[str] = []
    paths = [meta.path for meta in store.walk("t", passed_over=told.append)]
    assert sorted(set(paths)) == paths
    # One for each reason: others are passed over with it.
    assert told == ["t//", "t/b//x", "t/d/../x", "t/d/./x", "t/f/x//"]
    assert {name for name in names if name > "t/f/x"} <= set(paths) <= {*names, "t/b/1"}
    # At most the page before each.
    assert len(names) - len(paths) < 10 * len(told)
    bucket.close()


@pytest.mark.parametrize("answer", [403, 503, "none", "cut"])
def test_a_page_that_fails_is_raised(
    s3: Bucket, behind: Bucket, s3_proxy: FaultyProxy, answer: int | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moto.settings.get_s3_default_max_keys", lambda: 10)
    monkeypatch.setattr(remote, "_LISTED_AT_ONCE", 10)
    direct = open_store(parse_location(s3.url), s3.options)
    for number in range(35):
        direct.put(f"t/{number:02}", b"x")
    store = open_store(parse_location(behind.url), {**behind.options, "max_retries": "0"})
    assert sum(1 for _ in store.walk("t")) == 35

    def is_later_page(seen: Seen) -> bool:
        return seen.method == "GET" and "continuation-token" in seen.target

    s3_proxy.faults += [Fault(is_later_page), Fault(is_later_page, forwards=int(answer == "cut"), answer=answer)]
    found: list[str] = []
    with pytest.raises(StorageError, match="the store failed"):
        found.extend(meta.path for meta in store.walk("t"))
    assert found == [f"t/{number:02}" for number in range(len(found))]
    assert len(found) < 35


def test_a_directory_that_cannot_be_read_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a/x", "b/x"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    scandir = os.scandir

    def refusing(path: str) -> Any:
        if path.endswith("/a"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr("deltaberg.storage.local.os.scandir", refusing)
    with pytest.raises(AuthenticationError, match="/a"):
        list(LocalStorage().walk(str(tmp_path)))


def test_a_large_directory_is_a_stream(tmp_path: Path) -> None:
    """The memory of a listing does not grow with the number of files, in one directory or in many."""
    for number in range(20_000):
        (tmp_path / f"{number:064}").touch()
    for number in range(200):
        (tmp_path / f"d{number}").mkdir()
        (tmp_path / f"d{number}" / "x").touch()
    tracemalloc.start()
    try:
        assert sum(1 for _ in LocalStorage().walk(str(tmp_path))) == 20_200
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # A path of each file would take more than 2 MB.
    assert peak < 400_000


@pytest.mark.parametrize("kernels", backends(), ids=lambda module: module.__name__)
def test_what_is_listed_and_not_live_is_found_page_by_page(tmp_path: Path, kernels: ModuleType) -> None:
    """A set of live paths and a long listing, as vacuum joins them; what is below is told from what is beside."""
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "own").touch()
    folder = str(tmp_path / "t")
    store = LongListing(LocalStorage(), folder, directories=100, files=100)
    names = list(store.names())
    live = kernels.PathSet([pa.array(names[:9_900]), pa.array(["own", "t2/x"])])
    listed = store.walk(folder)
    doomed = []
    while page := [meta.path[len(folder) + 1 :] for meta in islice(listed, 1_000)]:
        known = live.contains(pa.array(page))
        doomed += [name for name, is_live in zip(page, known.to_pylist(), strict=True) if not is_live]
    assert doomed == names[9_900:]
    assert store.delete_many(f"{folder}/{name}" for name in [*doomed, "own"]) == []
    assert store.deleted == 100
    assert list(LongListing(LocalStorage(), folder, 1, 1).walk(f"{folder}2")) == []
    assert list(tmp_path.rglob("own")) == []


def test_strays_are_found_behind_links_at_any_depth(tmp_path: Path) -> None:
    """The real path of a directory is made from that of the one above, and is what the system says all the same."""
    root, away = tmp_path / "t", tmp_path / "away"
    for folder in (root / "p=1" / "q=1", root / "p=2", away / "q=1"):
        folder.mkdir(parents=True)
        (folder / "a").touch()
    (root / "a").touch()
    (root / "p=1" / "a").touch()
    (root / "away").symlink_to(away)
    (root / "p=1" / "inside").symlink_to(root / "p=2")
    (root / "p=2" / "out").symlink_to(away / "q=1")
    (root / "p=2" / "link").symlink_to(root / "a")
    paths = [
        f"{root}/{name}"
        for name in (
            *("a", "p=1/a", "p=1/q=1/a", "p=1/inside/a", "p=1/inside/out/a", "away/q=1/a", "p=2/a", "p=2/link"),
            *("p=2/out/a", "p=2", "none/a", "p=1/../../away/q=1/a", "p=1//q=1/a", "p=1/\0/a"),
        )
    ]
    behind = {
        f"{root}/{name}"
        for name in (*("p=1/inside/out/a", "away/q=1/a", "p=2/link", "p=2/out/a", "p=2", "p=1/../../away/q=1/a"),)
    }
    for spelled in (str(root), f"{root}/"):
        assert LocalStorage().strays(spelled, paths) == behind
