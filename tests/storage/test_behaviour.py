"""What every store does: local files, memory, S3, Azure, and S3 behind a network that loses, delays and repeats."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg.errors import ObjectNotFoundError, StorageError
from deltaberg.storage import remote, upload
from deltaberg.storage.base import PutOutcome
from tests.storage.places import Place

pytestmark = pytest.mark.one_backend

_ODD_NAMES = [
    "100%",
    "a%20b",
    "a b",
    "a+b",
    "a&b=c;d,e",
    "#",
    "?",
    "a:b",
    "~'(*)!$@",
    '"',
    "[x]{y}",
    "é",
    "e\u0301",
    "日本\U0001f600",
    "日本\uffee",
    "_hidden",
    ".hidden",
    "-",
    "p=a%2Fb",
]


def test_what_is_put_is_read(place: Place) -> None:
    store = place.store
    for data in (b"first", b"", b"second, and longer", bytes(range(256)) * 2000):
        assert store.put(place("x"), data).outcome is PutOutcome.WRITTEN
        assert store.get(place("x")) == data
        found = store.head(place("x"))
        assert (found.path, found.size) == (place("x"), len(data))
        assert found.modified > 1_500_000_000_000


def test_a_put_that_must_not_replace(place: Place) -> None:
    assert place.put_new("deep/er/x", b"first") is PutOutcome.WRITTEN
    assert place.put_new("deep/er/x", b"second, and longer") is PutOutcome.EXISTS
    assert place.store.get(place("deep/er/x")) == b"first"
    assert place.names("deep/er") == ["x"]
    place.store.delete(place("deep/er/x"))
    assert place.put_new("deep/er/x", b"third") is PutOutcome.WRITTEN
    assert place.store.get(place("deep/er/x")) == b"third"


def test_one_of_many_writers_is_first(place: Place) -> None:
    """Eight threads put the same name, several times: one of them wrote it, and nobody else touched it."""
    threads = 8
    barrier = Barrier(threads)

    def write(number: int, turn: int) -> PutOutcome:
        barrier.wait(60)
        return place.put_new(f"log/{turn:04}.json", b"%d" % number * (1000 + number))

    with ThreadPoolExecutor(threads) as pool:
        for turn in range(5):
            outcomes = list(pool.map(write, range(threads), [turn] * threads))
            assert outcomes.count(PutOutcome.WRITTEN) == 1, outcomes
            assert outcomes.count(PutOutcome.EXISTS) == threads - 1
            winner = outcomes.index(PutOutcome.WRITTEN)
            assert place.store.get(place(f"log/{turn:04}.json")) == b"%d" % winner * (1000 + winner)
    assert place.names("log") == [f"{turn:04}.json" for turn in range(5)]


def test_replacing_never_mixes(place: Place) -> None:
    """Whoever reads while others replace finds one of the contents, whole."""
    contents = [letter * 300_000 for letter in (b"a", b"b", b"c")]
    place.store.put(place("x"), contents[0])
    with ThreadPoolExecutor(4) as pool:
        written = [pool.submit(place.store.put, place("x"), data) for data in contents * 3]
        read = [place.store.get(place("x")) for _ in range(10)]
        for one in written:
            one.result()
    assert set(read) <= set(contents)


def test_delete(place: Place) -> None:
    place.fill("d/x", "d/y")
    place.store.delete(place("d/x"))
    place.store.delete(place("d/x"))
    place.store.delete(place("d/nothing/at/all"))
    # A directory is not an object, whatever lies in it.
    place.store.delete(place("d"))
    place.store.delete(place("d/y/z"))
    assert place.names("d") == ["y"]


def test_delete_many(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_DELETED_AT_ONCE", 4)
    place.fill(*(f"d/{number}" for number in range(10)), "d/100% #", "keep")
    doomed = [place(f"d/{number}") for number in (0, 1, 2, 77, 78, 3, 4, 5, 6, 7)]
    assert place.store.delete_many(iter([*doomed, place("d/100% #"), doomed[0]])) == []
    assert place.store.delete_many([]) == []
    assert place.names("d") == ["8", "9"]
    assert place.names() == ["keep"]


def test_names_of_all_kinds(place: Place) -> None:
    place.fill(*(f"d/{name}" for name in _ODD_NAMES))
    assert place.names("d") == sorted(_ODD_NAMES)
    for name in _ODD_NAMES:
        assert place.store.get(place(f"d/{name}")) == f"d/{name}".encode()
        assert place.store.head(place(f"d/{name}")).size == len(f"d/{name}".encode())
        assert place.put_new(f"d/{name}", b"x") is PutOutcome.EXISTS
        with place.store.open(place(f"d/{name}")) as file:
            assert file.read() == f"d/{name}".encode()
        place.fill(f"dirs/{name}/x")
        assert place.names(f"dirs/{name}") == ["x"]
        place.store.delete(place(f"d/{name}"))
    assert place.names("d") == []
    assert place.store.directories(place("dirs")) == sorted(_ODD_NAMES)


def test_order_and_offset(place: Place, rng: random.Random) -> None:
    names = ["00", "01.json", "01", "1", "A", "Z", "_", "a", "a.b", "a-b", "b c", "é", "z", "zz", ".a", "\ue000x"]
    shuffled = rng.sample(names, len(names))
    place.fill(*(f"d/{name}" for name in shuffled), "d/aa/below", "d/sub/x", "d/00.d/x", "e")
    for offset in ["", "0", "01", "01.", "A", "a", "a.", "b c", "b d", "zz", "zzz", "\ue000", "\ue000x", "~"]:
        assert place.names("d", offset) == sorted(name for name in names if name >= offset), offset


def test_nothing_below_is_listed(place: Place) -> None:
    place.fill("d/b", "d/a/x", "d/c/y/z", "d/_delta/x", "dd/x", "d-other")
    assert place.names("d") == ["b"]
    assert place.names("d", "a") == ["b"]
    assert list(place.store.list_from(place("d/"))) == list(place.store.list_from(place("d")))
    assert place.names("d/c") == []
    assert place.store.directories(place("d")) == ["_delta", "a", "c"]
    assert place.names("nowhere") == []
    assert place.names("d/b") == []
    for missing in ("nowhere", "d/b", "d/a/nothing"):
        with pytest.raises(ObjectNotFoundError, match="there is no such"):
            place.store.directories(place(missing))


def test_walk(place: Place) -> None:
    names = ["a", "b/c", "b/d/e", "b/d/f g", "_h/.i", "b-c"]
    place.fill(*(f"d/{name}" for name in names), "e", "dd/x")
    found = {meta.path: meta.size for meta in place.store.walk(place("d"))}
    assert found == {place(f"d/{name}"): len(f"d/{name}") for name in names}
    assert list(place.store.walk(place("nowhere"))) == []
    assert list(place.store.walk(place("d/a"))) == []


def test_has_objects(place: Place) -> None:
    assert not place.store.has_objects(place())
    place.fill("d/b/c/x", "other-d/x", "file")
    for name in ("", "d", "d/", "d/b", "d/b/c"):
        assert place.store.has_objects(place(name)), name
    for name in ("d/b/c/x", "d/b/c/d", "other", "file", "fil", "nowhere"):
        assert not place.store.has_objects(place(name)), name
    place.store.delete(place("d/b/c/x"))
    assert not place.store.has_objects(place("d"))


def test_ranges(place: Place) -> None:
    data = random.Random(5).randbytes(3_000_000)
    place.store.put(place("x"), data)
    inside = [(2_999_000, 1000), (0, 4), (2, 10), (5, 0), (100, 7), (2_500_000, 9), (2, 10), (1_000_000, 1)]
    behind = [(2_999_999, 5), (3_000_000, 1), (3_000_000, 0), (3_500_000, 10), (9_000_000, 3), (2_999_990, 1 << 40)]
    for ranges in (
        inside,
        behind,
        inside + behind,
        behind[1:5],
        [(0, 3), (3_000_010, 1)],
        [],
        [(7, 0)],
        [(1 << 70, 1)],
    ):
        found = place.store.get_ranges(place("x"), ranges)
        assert found == [data[start : start + length] for start, length in ranges]


def test_random_access(place: Place) -> None:
    data = bytes(range(256)) * 2000
    place.store.put(place("x"), data)
    for size in (None, len(data)):
        with place.store.open(place("x"), size) as file:
            file.seek(4)
            assert file.read(3) == data[4:7]
            assert file.seek(0, io.SEEK_END) == len(data)
            assert file.read(1) == b""
            file.seek(-5, io.SEEK_END)
            assert file.read(99) == data[-5:]


def test_what_is_missing(place: Place) -> None:
    """On every store it is the same exception, with a sentence of the same shape."""
    place.fill("d/x")
    store = place.store
    for path in (place("d/nothing"), place("nowhere/x"), place("d"), place("d/x/y")):
        for ask in (store.get, store.head, lambda path: store.get_ranges(path, [(0, 1)]), store.open):
            with pytest.raises(ObjectNotFoundError, match=r"^there is no such (file|object) ") as caught:
                ask(path)
            assert caught.value.context["path"].endswith(path)
            assert isinstance(caught.value, FileNotFoundError)


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_names_that_nothing_can_have(place: Place, name: str) -> None:
    store, path = place.store, place(name)
    place.fill("d/x")
    calls: list[Callable[[], Any]] = [
        lambda: store.get(path),
        lambda: store.get_ranges(path, [(0, 1)]),
        lambda: store.head(path),
        lambda: store.open(path),
        lambda: list(store.list_from(path)),
        lambda: list(store.list_from(path, "a")),
        lambda: store.directories(path),
        lambda: list(store.walk(path)),
        lambda: store.has_objects(path),
        lambda: store.put(path, b""),
        lambda: store.put(path, b"", if_absent=True),
        lambda: store.open_output(path).close(),
        lambda: store.delete(path),
    ]
    for call in calls:
        with pytest.raises(StorageError, match=r"no object can|cannot be (used|written)|cannot hold|failed"):
            call()
    place.fill("d/y")
    [failure] = store.delete_many([place("d/nothing"), path, place("d/y")])
    assert failure.path == path
    assert failure.error.context["path"].endswith(path)
    assert place.names("d") == ["x"]


def test_output_in_one_request_or_many(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    # S3 takes no smaller parts.
    monkeypatch.setattr(upload, "_PART_BYTES", 5 << 20)
    for size in (0, 10, 5 << 20, 12 << 20):
        data = random.Random(size).randbytes(size)
        with place.store.open_output(place(f"d/{size}")) as file:
            for start in range(0, size, 3_000_001):
                assert file.write(data[start : start + 3_000_001]) == len(data[start : start + 3_000_001])
                assert file.tell() == min(start + 3_000_001, size)
            assert place.names("d").count(str(size)) == 0
        assert file.closed
        file.close()
        file.abort()
        assert place.store.get(place(f"d/{size}")) == data
    assert place.unfinished() == []


@pytest.mark.parametrize("size", [10, 12 << 20])
def test_output_that_is_aborted(place: Place, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload, "_PART_BYTES", 5 << 20)
    place.store.put(place("d/old"), b"old")
    for name in ("new", "old"):
        with suppress(ZeroDivisionError), place.store.open_output(place(f"d/{name}")) as file:
            file.write(bytes(size))
            raise ZeroDivisionError
        with pytest.raises(StorageError, match=r"the file cannot be written: write to closed file|the file is closed"):
            file.write(b"more")
        discarded = place.store.open_output(place(f"d/{name}"))
        discarded.write(bytes(size))
        discarded.abort()
        discarded.close()
    assert place.names("d") == ["old"]
    assert [meta.path for meta in place.store.walk(place("d"))] == [place("d/old")]
    assert place.store.get(place("d/old")) == b"old"
    assert place.unfinished() == []


def test_parquet_is_written_to_it(place: Place) -> None:
    table = pa.table({"id": range(100_000), "name": [f"name {number}" for number in range(100_000)]})
    with place.store.open_output(place("x.parquet")) as file:
        with pq.ParquetWriter(file, table.schema) as writer:
            writer.write_table(table, row_group_size=10_000)
        assert place.names() == []
    with place.store.open(place("x.parquet")) as opened:
        assert pq.read_table(opened).equals(table)


def test_a_parquet_writer_that_fails_leaves_nothing(place: Place) -> None:
    schema = pa.schema([("id", pa.int64())])

    def write() -> None:
        with place.store.open_output(place("x.parquet")) as file, pq.ParquetWriter(file, schema) as writer:
            writer.write_table(pa.table({"id": [1]}))
            writer.write_table(pa.table({"other": [1]}))

    with pytest.raises(ValueError, match="schema"):
        write()
    assert list(place.store.walk(place())) == []


def test_the_probe(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    assert place.store.probe_conditional_put(place("_log"))
    assert list(place.store.walk(place())) == []
    puts = []
    original = type(place.store).put

    def recorded(store: Any, path: str, data: bytes, **rest: Any) -> Any:
        puts.append(path)
        return original(store, path, data, **rest)

    monkeypatch.setattr(type(place.store), "put", recorded)
    # The answer is kept.
    assert place.store.probe_conditional_put(place("_log"))
    assert puts == []
