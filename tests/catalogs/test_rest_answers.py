"""Every operation of a REST catalog, and every answer that is none.

Whatever comes back, an operation that returns was carried out, once. One that is surely refused was not, and its files
are gone. Of any other one it is said that nobody knows, with the reason of the server, and its files stay.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaberg
from deltaberg.catalogs import rest_catalog as rest
from deltaberg.errors import (
    AuthenticationError,
    CommitConflictError,
    CommitUnknownError,
    DeltabergError,
    StorageError,
    TableExistsError,
    TableNotFoundError,
)
from deltaberg.table.commit.commit import ClockedPolicy
from tests.catalogs.memory_catalog import MemoryCatalog, Twist, as_http, reached
from tests.catalogs.rest_server import Answer, Asked, error_body
from tests.support.below_verbs import engine_of
from tests.support.rows import ids, ids_of

pytestmark = pytest.mark.one_backend

_COLUMNS = pa.schema({"id": pa.int64()})
#: A commit is tried five times, without waiting.
_QUICK = {f"commit.retry.{name}-wait-ms": "0" for name in ("min", "max")}
_POLICY = ClockedPolicy(retries=4, wait=lambda _: None)
_REASON = "the disk is full"


def _said(status: int, kind: str) -> bytes:
    return as_http((status, {}, error_body(status, kind, _REASON)))


def _page(status: int) -> bytes:
    return as_http((status, {"Content-Type": "text/html"}, b"<html><title>Sign in</title></html>"))


def _with_longer_body(answer: Answer) -> bytes:
    return as_http((answer[0], {**answer[1], "Content-Length": "9" * 8}, answer[2]), counted=False)


_OTHER = {"metadata-location": "file:///x/metadata/1.json", "metadata": {"format-version": 2, "table-uuid": "other"}}
_ANSWERS: dict[str, Callable[[Answer], bytes | None]] = {
    "an empty object": lambda _: as_http((200, {}, {})),
    "an array": lambda _: as_http((200, {}, [])),
    "a page": lambda _: _page(200),
    "another table": lambda _: as_http((200, {}, _OTHER)),
    "a success without a body": lambda _: as_http((200, {}, None)),
    "accepted": lambda _: as_http((202, {}, {})),
    "a cut answer": lambda answer: _with_longer_body(answer)[:-1],
    "a cut answer that nobody counts": lambda answer: as_http(answer, counted=False)[:-3],
    "no answer": lambda _: None,
    "a conflict": lambda _: _said(409, "CommitFailedException"),
    "a conflict of a gateway": lambda _: _page(409),
    "a failure": lambda _: _said(500, "ServerError"),
    "a busy server": lambda _: _said(503, "ServiceUnavailable"),
    "a failure of a gateway": lambda _: _page(502),
    "single bytes": _with_longer_body,
    "a head in single bytes": lambda _: b"HTTP/1.1 200 X\r\nX-Waiting:",
}
_REFUSAL = "a refusal"
_SLOW = ("single bytes", "a head in single bytes")
_CONFLICTS = ("a conflict", "a conflict of a gateway")
_WITH_REASON = ("a conflict", "a failure", "a busy server", _REFUSAL)
#: Answers that say that the connection broke, or that the server is busy: what only reads asks again.
_PASSING = ("a cut answer", "a cut answer that nobody counts", "no answer", "a busy server")


@dataclass
class _Operation:
    """What is done to a catalog, which request decides, and whether the catalog shows it.

    ``commits`` are those that the commit loop sends, again where it has to.
    """

    run: Callable[[Any], object]
    decides: Callable[[Asked], bool]
    is_done: Callable[[MemoryCatalog], bool]
    commits: bool = False


def _asks(method: str, end: str) -> Callable[[Asked], bool]:
    return lambda asked: asked.method == method and asked.path.endswith(end)


def _rows(memory: MemoryCatalog, name: str) -> list[int] | None:
    """Return the rows of a table by a client of its own, which nothing disturbs."""
    if ("s", name) not in memory.tables:
        return None
    twists, memory.twists = memory.twists, []
    found = ids_of(deltaberg.load_catalog("other", uri=memory.uri).load_table(f"s.{name}"))
    memory.twists = twists
    return found


def _append_to_both(catalog: Any) -> None:
    with catalog.transaction(policy=_POLICY) as several:
        several.table("s.a").append(ids(1))
        several.table("s.b").append(ids(1))


def _create_with_rows(catalog: Any) -> None:
    with catalog.create_table_transaction("s.c", _COLUMNS, properties=_QUICK) as staged:
        staged.append(ids(7))


def _is_registered(memory: MemoryCatalog) -> bool:
    return memory.tables.get(("s", "c")) == memory.tables["s", "a"]


def _is_renamed(memory: MemoryCatalog) -> bool:
    return ("s", "a") not in memory.tables and ("s", "c") in memory.tables


def _both(memory: MemoryCatalog) -> bool:
    found = [_rows(memory, "a"), _rows(memory, "b")]
    assert found in ([[0], [0]], [[0, 1], [0, 1]])
    return found[0] == [0, 1]


def _is_appended(memory: MemoryCatalog) -> bool:
    found = _rows(memory, "a")
    assert found in ([0], [0, 1])
    return found == [0, 1]


def _location(catalog: Any) -> Any:
    return catalog.load_table("s.a").metadata_location


_CHANGES = {
    "create a namespace": _Operation(
        lambda catalog: catalog.create_namespace("new", {"x": "y"}),
        _asks("POST", "/namespaces"),
        lambda memory: ("new",) in memory.namespaces,
    ),
    "change a namespace": _Operation(
        lambda catalog: catalog.update_namespace_properties("s", ["old"], {"x": "y"}),
        _asks("POST", "/properties"),
        lambda memory: memory.namespaces["s",] == {"x": "y"},
    ),
    "drop a namespace": _Operation(
        lambda catalog: catalog.drop_namespace("empty"),
        _asks("DELETE", "/empty"),
        lambda memory: ("empty",) not in memory.namespaces,
    ),
    "create a table": _Operation(
        _create_with_rows, _asks("POST", "/tables/c"), lambda memory: _rows(memory, "c") == [7], commits=True
    ),
    "append": _Operation(
        lambda catalog: catalog.load_table("s.a").append(ids(1)), _asks("POST", "/tables/a"), _is_appended, commits=True
    ),
    "set a property": _Operation(
        lambda catalog: catalog.load_table("s.a").alter().set({"x": "y"}).commit(),
        _asks("POST", "/tables/a"),
        lambda memory: memory.tables["s", "a"]["metadata"]["properties"].get("x") == "y",
        commits=True,
    ),
    "append to two tables": _Operation(_append_to_both, _asks("POST", "/transactions/commit"), _both, commits=True),
    "rename a table": _Operation(
        lambda catalog: catalog.rename_table("s.a", "s.c"), _asks("POST", "/rename"), _is_renamed
    ),
    "drop a table": _Operation(
        lambda catalog: catalog.drop_table("s.a"),
        _asks("DELETE", "/tables/a"),
        lambda memory: ("s", "a") not in memory.tables,
    ),
    "register a table": _Operation(
        lambda catalog: catalog.register_table("s.c", _location(catalog)), _asks("POST", "/register"), _is_registered
    ),
}
_READS: dict[str, tuple[Callable[[Any], Any], Callable[[Asked], bool]]] = {
    "ask for the configuration": (lambda catalog: catalog.list_namespaces(), _asks("GET", "/config")),
    "ask for a token": (lambda catalog: catalog.list_namespaces(), _asks("POST", "/oauth/tokens")),
    "list namespaces": (lambda catalog: catalog.list_namespaces(), _asks("GET", "/namespaces")),
    "list tables": (lambda catalog: catalog.list_tables("s"), _asks("GET", "/tables")),
    "load a table": (lambda catalog: ids_of(catalog.load_table("s.a")), _asks("GET", "/tables/a")),
    "ask whether there is a table": (lambda catalog: catalog.table_exists("s.a"), _asks("GET", "/tables/a")),
    "load a namespace": (lambda catalog: catalog.load_namespace_properties("s"), _asks("GET", "/s")),
    "stage a table": (lambda catalog: bool(catalog.create_table("s.c", _COLUMNS)), _asks("POST", "/s/tables")),
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> MemoryCatalog:
    """A catalog of two tables, which each test has a copy of."""
    memory = MemoryCatalog(str(tmp_path_factory.mktemp("warehouse")))
    memory.namespaces = {("s",): {"old": "1"}, ("empty",): {}}
    with reached(memory):
        catalog: Any = deltaberg.load_catalog("far", uri=memory.uri)
        for name in "ab":
            catalog.create_table(f"s.{name}", _COLUMNS, properties=_QUICK).append(ids(0))
    return memory


@pytest.fixture
def memory(prepared: MemoryCatalog) -> Iterator[MemoryCatalog]:
    """A copy of it."""
    with reached(_copy(prepared)) as catalog:
        yield catalog


def _copy(prepared: MemoryCatalog) -> MemoryCatalog:
    namespaces = {levels: dict(properties) for levels, properties in prepared.namespaces.items()}
    return MemoryCatalog(prepared.warehouse, namespaces, dict(prepared.tables))


def _files(memory: MemoryCatalog) -> set[Path]:
    return {file for file in Path(memory.warehouse).rglob("*") if file.suffix in (".parquet", ".avro")}


def _twists(name: str, decides: Callable[[Asked], bool], mode: str) -> list[Twist]:
    """Return what happens to the request that decides, and to those after it."""
    says = _ANSWERS.get(name, lambda _: _said(400, "BadRequest"))
    seconds = 0.5 if name in _SLOW else 0.0
    first = Twist(decides, mode.endswith("carried out"), says, seconds=seconds)
    if mode == "every time":
        first.times = 1000
    later = Twist(lambda _: first.times == 0, False, says, times=1000, seconds=seconds)
    return [first, later] if mode.startswith("for good") else [first]


def _check_error(error: DeltabergError, name: str) -> None:
    assert re.search(r"\b[A-Z]\w*(Error|Exception)\b", str(error)) is None, error
    assert re.search(r"token: *[,)]", str(error)) is None, error
    if name in _WITH_REASON:
        assert _REASON in str(error), error


def _check_bounds(memory: MemoryCatalog) -> None:
    assert len(memory.asked) < 100
    assert memory.now / len(memory.asked) < 700


def _modes() -> Iterator[Any]:
    """What is disturbed: one request, each that decides, or all from then on. What a commit loop does takes longer."""
    for what, operation in _CHANGES.items():
        for mode in ("once, carried out", "every time", "once", "for good", "for good, carried out"):
            is_long = operation.commits and mode not in ("once, carried out", "every time")
            yield pytest.param(what, mode, marks=[pytest.mark.full] if is_long else [])


@pytest.mark.req("ICE-COM-12", half="writer")
@pytest.mark.parametrize(("what", "mode"), list(_modes()))
def test_what_becomes_of_a_change(what: str, mode: str, prepared: MemoryCatalog) -> None:
    names = list(_ANSWERS) if mode.endswith("carried out") else [*_ANSWERS, _REFUSAL]
    for name in names:
        with reached(_copy(prepared)) as memory:
            _change(memory, name, what, mode)


def _change(memory: MemoryCatalog, name: str, what: str, mode: str) -> None:
    operation, before = _CHANGES[what], _files(memory)
    memory.twists = _twists(name, operation.decides, mode)
    catalog: Any = deltaberg.load_catalog("far", uri=memory.uri)
    error: DeltabergError | None = None
    try:
        operation.run(catalog)
    except DeltabergError as raised:
        error = raised
    memory.twists = []
    done, new = operation.is_done(memory), _files(memory) - before
    told = f"{name}: {error!r}"
    _check_bounds(memory)
    if error is None:
        assert done, told
    else:
        _check_error(error, name)
        is_known = not isinstance(error, CommitUnknownError) and "cannot be opened" not in str(error)
        assert not (is_known and done), told
        assert bool(new) != (is_known or not operation.commits or what == "set a property"), told
    sends = sum(map(operation.decides, memory.asked))
    if mode == "once, carried out":
        assert error is None, told
    if operation.commits and mode == "once":
        # It is sent again, or made again after what is surely a refusal.
        assert (error is None, sends) == ((False, 1) if name == _REFUSAL else (True, 2)), told
    if operation.commits and mode == "every time":
        wanted = (StorageError, 1) if name == _REFUSAL else (CommitUnknownError, 6)
        assert (type(error), sends) == ((CommitConflictError, 5) if name in _CONFLICTS else wanted), told
    if not operation.commits and not done and name not in (*_CONFLICTS, _REFUSAL):
        assert isinstance(error, CommitUnknownError), told


@pytest.mark.parametrize("what", _READS)
@pytest.mark.parametrize("name", [*_ANSWERS, _REFUSAL])
def test_what_becomes_of_a_read(name: str, what: str, prepared: MemoryCatalog) -> None:
    read, decides = _READS[what]
    with reached(_copy(prepared)) as memory:
        truth = read(deltaberg.load_catalog("far", uri=memory.uri, credential="me:very-secret"))
    # To stage a table changes nothing, so it is sent again once the catalog shows none. Another one looks like any.
    heals = name in _PASSING or (what == "stage a table" and name not in (*_CONFLICTS, _REFUSAL))
    for mode in ("once, carried out", "for good, carried out"):
        with reached(_copy(prepared)) as memory:
            memory.twists = _twists(name, decides, mode)
            answer: Any = None
            error: DeltabergError | None = None
            try:
                answer = read(deltaberg.load_catalog("far", uri=memory.uri, credential="me:very-secret"))
            except DeltabergError as raised:
                error = raised
                _check_error(error, name)
            assert error is not None or answer == truth or name == "another table"
            assert not isinstance(error, (CommitConflictError, CommitUnknownError)) or what == "stage a table"
            assert error is None or not (heals and mode.startswith("once")), repr(error)
            _check_bounds(memory)


@pytest.mark.parametrize("what", ["list namespaces", "list tables"])
@pytest.mark.parametrize("names", ["none", "the same", "new ones"])
@pytest.mark.parametrize("tokens", ["two", "new ones"])
def test_pages_that_never_end(
    tokens: str, names: str, what: str, memory: MemoryCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokens that come again, pages that bring nothing, and pages without end: each is given up."""
    monkeypatch.setattr(rest, "_MOST_IDLE", 20)
    monkeypatch.setattr(rest, "_MOST_PAGES", 50)
    read, decides = _READS[what]
    count = itertools.count()

    def says(_: Answer) -> bytes:
        number = next(count)
        name = {"none": [], "the same": ["x"], "new ones": [f"n{number}"]}[names]
        kind = "namespaces" if what == "list namespaces" else "identifiers"
        listed = [[one] if kind == "namespaces" else {"namespace": ["s"], "name": one} for one in name]
        return as_http((200, {}, {kind: listed, "next-page-token": str(number % 2 if tokens == "two" else number)}))

    memory.twists = [Twist(decides, False, says, times=1000)]
    with pytest.raises(StorageError, match="does not end"):
        read(deltaberg.load_catalog("far", uri=memory.uri))
    wanted = 3 if tokens == "two" else 50 if names == "new ones" else 21 if names == "none" else 22
    assert sum(map(decides, memory.asked)) == wanted


def test_a_listing_has_a_greatest_size_and_time(memory: MemoryCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog: Any = deltaberg.load_catalog("far", uri=memory.uri)
    count = itertools.count()

    def says(_: Answer, seconds: float) -> bytes:
        number = next(count)
        memory.now += seconds
        return as_http((200, {}, {"namespaces": [[f"n{number}"]], "next-page-token": str(number)}))

    memory.twists = [Twist(_asks("GET", "/namespaces"), False, partial(says, seconds=500.0), times=1000)]
    with pytest.raises(StorageError, match="does not end"):
        catalog.list_namespaces()
    assert next(count) < 10
    memory.twists = [Twist(_asks("GET", "/namespaces"), False, partial(says, seconds=0.0), times=1000)]
    monkeypatch.setattr(rest, "_MOST_BYTES", 100)
    with pytest.raises(StorageError, match="does not end"):
        catalog.list_namespaces()
    assert next(count) < 20


def test_a_list_that_is_cut_anywhere_is_asked_for_again(memory: MemoryCatalog) -> None:
    """Where the answer ends with the connection, only the JSON tells."""
    catalog: Any = deltaberg.load_catalog("far", uri=memory.uri)
    whole = as_http(memory.answer(Asked("GET", "/v1/namespaces", {}, None, "")), counted=False)  # type: ignore[arg-type]
    for size in range(whole.index(b"{") + 1, len(whole)):
        memory.twists = [Twist(_asks("GET", "/namespaces"), False, lambda _, size=size: whole[:size])]  # type: ignore[misc]
        assert catalog.list_namespaces() == [("empty",), ("s",)]


@pytest.mark.parametrize("name", sorted(set(_ANSWERS) - set(_CONFLICTS)))
def test_a_table_that_is_never_staged(name: str, memory: MemoryCatalog) -> None:
    """The catalog shows that there is no table: that is known, and the reason is told."""
    memory.twists = _twists(name, _asks("POST", "/s/tables"), "every time")
    with pytest.raises(StorageError, match="did not prepare the table") as caught:
        deltaberg.load_catalog("far", uri=memory.uri).create_table("s.c", _COLUMNS, properties=_QUICK)
    _check_error(caught.value, name)
    assert not isinstance(caught.value, CommitUnknownError)
    assert sum(map(_asks("POST", "/s/tables"), memory.asked)) == 6
    assert ("s", "c") not in memory.tables


@pytest.mark.parametrize("theirs", [False, True])
def test_a_failed_staging_after_which_there_is_a_table(theirs: bool, memory: MemoryCatalog) -> None:
    """A server may make the table at once; another client may make one, too."""

    def makes(answer: Answer) -> bytes:
        made = dict(answer[2])
        if theirs:
            made["metadata"] = {**made["metadata"], "properties": {}}
        memory.tables["s", "c"] = {"metadata-location": f"{made['metadata']['location']}/1.json", **made}
        return _said(500, "ServerError")

    catalog: Any = deltaberg.load_catalog("far", uri=memory.uri)
    memory.twists = [Twist(_asks("POST", "/s/tables"), True, makes)]
    if theirs:
        with pytest.raises(TableExistsError, match="there is a table already"):
            catalog.create_table("s.c", _COLUMNS, properties=_QUICK)
    else:
        assert catalog.create_table("s.c", _COLUMNS, properties=_QUICK).properties.items() >= _QUICK.items()
    assert _rows(memory, "c") == []


def test_a_listing_of_one_name_a_page_that_never_ends(memory: MemoryCatalog) -> None:
    count = itertools.count()

    def says(_: Answer) -> bytes:
        number = next(count)
        return as_http((200, {}, {"namespaces": [[f"n{number}"]], "next-page-token": str(number)}))

    memory.twists = [Twist(_asks("GET", "/namespaces"), False, says, times=5000)]
    with pytest.raises(StorageError, match=r"does not end: it has \d+ names on \d+ pages"):
        deltaberg.load_catalog("far", uri=memory.uri).list_namespaces()
    assert next(count) < 250


def test_a_server_that_creates_what_it_was_to_stage(memory: MemoryCatalog) -> None:
    """The table has no rows, so that the transaction has not committed, and its files go."""
    catalog: Any = deltaberg.load_catalog("far", uri=memory.uri)
    before = _files(memory)
    staged = catalog.create_table_transaction("s.c", _COLUMNS, properties=_QUICK)
    metadata = engine_of(staged).metadata.raw
    memory.tables["s", "c"] = {"metadata-location": f"{metadata['location']}/1.json", "metadata": metadata}
    staged.append(ids(7))
    with pytest.raises(TableExistsError, match="without its rows"):
        staged.commit()
    assert _files(memory) == before
    assert _rows(memory, "c") == []


@pytest.mark.parametrize("lands", ["between the loads", "and one table is dropped"])
def test_several_tables_are_never_said_to_be_committed_in_part(lands: str, memory: MemoryCatalog) -> None:
    """The request that was given up lands after the first table was looked at; a table can be dropped after it."""
    held: list[Asked] = []

    def never(_: Answer) -> None:
        held.append(memory.asked[-1])

    def arrives(_: Answer) -> bytes:
        answer = as_http(memory.answer(memory.asked[-1]))
        if held:
            memory.answer(held.pop())
            if lands != "between the loads":
                del memory.tables["s", "b"]
        return answer

    sent = _asks("POST", "/transactions/commit")
    memory.twists = [
        Twist(sent, False, never),
        Twist(lambda asked: bool(held) and asked.method == "GET", False, arrives),
    ]
    catalog: Any = deltaberg.load_catalog("far", uri=memory.uri)
    if lands == "between the loads":
        _append_to_both(catalog)
        assert (_rows(memory, "a"), _rows(memory, "b")) == ([0, 1], [0, 1])
    else:
        with pytest.raises(CommitUnknownError) as caught:
            _append_to_both(catalog)
        assert "in part" not in str(caught.value)
        assert "but not in the other tables" not in str(caught.value)
    assert _rows(memory, "a") == [0, 1]


@pytest.mark.parametrize("name", ["a failure", "a refusal", "no answer"])
def test_a_change_that_was_made_is_not_called_a_failure(name: str, memory: MemoryCatalog) -> None:
    """The table is renamed, and only the request for it afterwards fails."""
    catalog: Any = deltaberg.load_catalog("far", uri=memory.uri)
    says = _ANSWERS.get(name, lambda _: _said(400, "BadRequest"))
    memory.twists = [Twist(_asks("GET", "/tables/c"), False, says, times=1000)]
    with pytest.raises(StorageError, match="the table was renamed, but cannot be opened") as caught:
        catalog.rename_table("s.a", "s.c")
    assert "do not repeat" in str(caught.value)


def test_a_rename_that_a_gateway_sends_twice(memory: MemoryCatalog) -> None:
    """The second request finds no table of the old name, and the first one was carried out."""
    catalog: Any = deltaberg.load_catalog("far", uri=memory.uri)
    sent = _asks("POST", "/rename")
    memory.twists = [Twist(sent, True, lambda _: as_http(memory.answer(memory.asked[-1])))]
    assert ids_of(catalog.rename_table("s.a", "s.c")) == [0]
    with pytest.raises(TableNotFoundError, match="NoSuchTableException"):
        catalog.rename_table("s.a", "s.c")
    with pytest.raises(TableExistsError, match="AlreadyExistsException"):
        catalog.rename_table("s.b", "s.c")


def test_no_token_is_no_token(memory: MemoryCatalog) -> None:
    memory.twists = [Twist(_asks("POST", "/oauth/tokens"), False, _ANSWERS["an empty object"])]
    with pytest.raises(AuthenticationError, match="did not grant a bearer token"):
        deltaberg.load_catalog("far", uri=memory.uri, credential="me:very-secret").list_namespaces()
