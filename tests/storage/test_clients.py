"""Clients and sessions that a process keeps: they are few, and their keys give no secret away."""

from __future__ import annotations

import gc
import hashlib
import json
import logging
import pickle
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from deltaberg.catalogs.rest import session, vended
from deltaberg.catalogs.rest.session import SessionSettings
from deltaberg.catalogs.rest.vended import RestVendor, read_vended
from deltaberg.storage import remote, stores
from deltaberg.storage.bounded import BoundedCache, fingerprint
from deltaberg.storage.location import parse_location
from deltaberg.storage.stores import StoreSpec, open_store

pytestmark = pytest.mark.one_backend

_SECRET = "hush-secret-value"
_LOCATION = parse_location("s3://bucket/t")


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Begin and end without clients."""
    stores._clients.clear()
    yield
    stores._clients.clear()


def _options(number: int) -> dict[str, Any]:
    return {"AWS_REGION": "r", "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": f"{_SECRET}-{number}"}


def _vendor(number: int, expires_at: str | None = "9999999999000") -> RestVendor:
    settings = SessionSettings("http://127.0.0.1:1", token=_SECRET, credential=f"me:{_SECRET}")
    keys = {"s3.access-key-id": "k", "s3.secret-access-key": f"{_SECRET}-{number}", "s3.region": "r"}
    times = {"s3.session-token-expires-at-ms": expires_at} if expires_at else {}
    own = (("s3.session-token", _SECRET),)
    return RestVendor(settings, f"t{number}", (), own, (), read_vended({"config": keys | times}, {}))


class _Client:
    """Stands for a client of obstore, of which making a thousand takes long."""


def test_a_thousand_stores_leave_a_bounded_number_of_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    alive = weakref.WeakSet[_Client]()

    def opened(*_: Any, **__: Any) -> _Client:
        client = _Client()
        alive.add(client)
        return client

    monkeypatch.setattr(remote, "open_client", opened)
    for number in range(1000):
        open_store(_LOCATION, _options(-number))
        StoreSpec({}, _vendor(-number)).open(_LOCATION)
        session.session_of(SessionSettings("http://127.0.0.1:1", token=f"{_SECRET}-{number}"))
    gc.collect()
    assert 0 < len(stores._clients) <= 128
    assert 0 < len(vended._newest) <= 256
    assert 0 < len(session._sessions) <= 64
    assert 0 < len(alive) <= 128
    stores._clients.clear()
    gc.collect()
    assert len(alive) == 0


def test_a_client_is_kept_for_its_options() -> None:
    first = open_store(_LOCATION, _options(1))
    assert open_store(_LOCATION, dict(reversed(_options(1).items()))) is first
    assert open_store(parse_location("s3a://bucket/other"), _options(1)) is first
    others = [
        open_store(_LOCATION, _options(2)),
        open_store(_LOCATION, {**_options(1), "AWS_REGION": "s"}),
        open_store(parse_location("s3://bucket2/t"), _options(1)),
    ]
    assert len({id(one) for one in (first, *others)}) == 4


@pytest.mark.parametrize(
    ("url", "variable"),
    [("s3://b/t", "AWS_ACCESS_KEY_ID"), ("gs://b/t", "GOOGLE_SERVICE_ACCOUNT"), ("az://b/t", "AZURE_STORAGE_SAS_KEY")],
)
def test_what_rotates_in_the_environment_has_another_client(
    monkeypatch: pytest.MonkeyPatch, url: str, variable: str
) -> None:
    monkeypatch.setattr(remote, "open_client", lambda *_, **__: _Client())
    place, spec = parse_location(url), StoreSpec()
    clients = []
    for value in ("old", "new", "old"):
        monkeypatch.setenv(variable, value)
        clients.append(spec.open(place))
        monkeypatch.setenv("UNRELATED", value)
        assert spec.open(place) is clients[-1]
    assert clients[0] is clients[2] is not clients[1]


def test_an_evicted_client_goes_on(s3: Any) -> None:
    store = open_store(parse_location(s3.url), s3.options)
    store.put("x", b"1")
    for number in range(128):
        stores._clients.get(b"%d" % number, lambda: store)
    assert store.get("x") == b"1"
    again = open_store(parse_location(s3.url), s3.options)
    assert again is not store
    assert again.get("x") == b"1"


def test_keys_and_descriptions_give_no_secret_away(caplog: pytest.LogCaptureFixture) -> None:
    vendor = _vendor(1)
    with caplog.at_level(logging.DEBUG):
        for spec in (StoreSpec(_options(1)), StoreSpec({}, vendor)):
            spec.open(_LOCATION)
            pickle.loads(pickle.dumps(spec)).open(_LOCATION)
        session.session_of(vendor.settings)
        shown = [repr(StoreSpec(_options(1))), repr(vendor), repr(StoreSpec({}, vendor)), repr(vendor.first)]
    caches: list[BoundedCache[Any]] = [stores._clients, vended._newest, session._sessions]
    keys = [key for cache in caches for key in cache._kept]
    assert keys
    assert {len(key) for key in keys} == {32}
    assert not [text for text in [*shown, caplog.text, *map(repr, caches)] if _SECRET in text]


def test_the_same_description_has_the_same_client_after_it_travelled() -> None:
    for vendor in (_vendor(7), _vendor(8, expires_at=None)):
        spec = StoreSpec({}, vendor)
        assert pickle.loads(pickle.dumps(spec)).open(_LOCATION) is spec.open(_LOCATION)
    # Credentials that nobody renews are those of the answer that they came with.
    old, new = (RestVendor(vendor.settings, "t", (), (), (), _vendor(n, None).first) for n in (1, 2))
    assert StoreSpec({}, old).open(_LOCATION) is not StoreSpec({}, new).open(_LOCATION)


@pytest.mark.parametrize(
    ("url", "first", "second", "is_same"),
    [
        ("s3://b/t", {}, {"AWS_REGION": "r", "AWS_ACCESS_KEY_ID": "k"}, True),
        ("s3://b/t", {}, {"s3.endpoint": "https://s3.eu-west-1.amazonaws.com/"}, True),
        ("s3://b/t", {"s3.endpoint": "http://a:9000"}, {"AWS_ENDPOINT_URL": "http://A:9000/"}, True),
        ("s3://b/t", {"s3.endpoint": "http://a:9000"}, {"s3.endpoint": "http://a:9001"}, False),
        ("s3://b/t", {"s3.endpoint": "http://a:9000"}, {}, False),
        ("abfs://c/t", {"adls.account-name": "a"}, {"azure_storage_account_name": "a"}, True),
        ("abfs://c/t", {"adls.account-name": "a"}, {"adls.account-name": "b"}, False),
        ("/t", {"s3.endpoint": "http://a:9000"}, {}, True),
    ],
)
def test_buckets_are_told_apart_by_their_servers(
    monkeypatch: pytest.MonkeyPatch, url: str, first: Any, second: Any, is_same: bool
) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT", "AZURE_STORAGE_ACCOUNT_NAME"):
        monkeypatch.delenv(name, raising=False)
    place = parse_location(url)
    one, other = StoreSpec(first), StoreSpec(second)
    assert one.is_same(place, other, place) is other.is_same(place, one, place) is is_same
    assert not one.is_same(place, other, parse_location("s3://elsewhere/t"))
    # What the environment names holds for those that name nothing.
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://a:9000")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "a")
    assert one.is_same(place, StoreSpec(), place)


def test_fingerprints() -> None:
    facts: list[Any] = ["a", ["a"], ["a", "b"], "ab", {"a": "b"}, None, "", 1, "\ud800"]
    assert len({fingerprint(fact) for fact in facts}) == len(facts)
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    # Without the salt of this process nobody can try out secrets.
    assert fingerprint("a") != hashlib.blake2b(json.dumps(["a"]).encode(), digest_size=32).digest()


def test_the_cache_keeps_what_was_used_last() -> None:
    cache = BoundedCache[str](2)
    opened: list[str] = []

    def make(name: str) -> str:
        opened.append(name)
        return name

    for name in ("a", "b", "a", "c", "a", "b"):
        assert cache.get(name.encode(), lambda name=name: make(name)) == name  # type: ignore[misc]
    assert opened == ["a", "b", "c", "b"]
    assert len(cache) == 2
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda number: cache.get(b"%d" % (number % 3), lambda: str(number % 3)), range(900)))
    assert found == [str(number % 3) for number in range(900)]
    assert len(cache) == 2
