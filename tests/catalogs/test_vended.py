"""Credentials that REST catalogs vend: which count, where they go, and when they are renewed."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

import deltaberg
from deltaberg.catalogs.rest import vended
from deltaberg.catalogs.rest.session import SessionSettings
from deltaberg.catalogs.rest.vended import RestVendor, merged_options, read_vended, server_config
from deltaberg.errors import AuthenticationError, StorageError, UnsafePathError, UnsupportedFeatureError
from deltaberg.storage import clients, range_file, remote
from deltaberg.storage.location import parse_location
from deltaberg.storage.options.options import store_config
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.read.scan import bound_scan
from tests.catalogs.rest_server import RestServer
from tests.catalogs.written import ids, write_orders
from tests.support import moto_s3

pytestmark = pytest.mark.one_backend

_TABLE = "/v1/namespaces/sales/tables/orders"
_CREDENTIALS = "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials"
_NOW = 1_800_000_000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of day, which passes only as told."""
    times = [_NOW]
    monkeypatch.setattr(vended, "_now", lambda: times[0])
    return times


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Forget what the vendors of other tests gave: ports come again."""
    vended._newest.clear()
    yield
    vended._newest.clear()


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """A loopback S3 server."""
    with moto_s3.running() as found:
        yield found


@pytest.fixture
def stored(server: RestServer, endpoint: str, sqlite: str) -> RestServer:
    """The catalog with a table ``sales.orders`` whose files are in a bucket."""
    from pyiceberg.catalog.sql import SqlCatalog

    options = {
        "s3.endpoint": endpoint,
        "s3.region": moto_s3.REGION,
        "s3.access-key-id": moto_s3.KEY,
        "s3.secret-access-key": moto_s3.SECRET,
    }
    warehouse = f"s3://{moto_s3.make_bucket(endpoint)}/warehouse"
    catalog = SqlCatalog("shop", uri=sqlite, warehouse=warehouse, **options)
    written = write_orders(catalog)
    body = {"metadata-location": written.metadata_location, "metadata": written.metadata.model_dump(mode="json")}
    catalog.engine.dispose()
    server.extra = body

    def answer(asked: Any, before: Any = server.answer) -> Any:
        status, headers, found = before(asked)
        if asked.path.startswith(_TABLE) and status == 404:
            return 200, {}, dict(server.extra)
        return status, headers, found

    server.answer = answer  # type: ignore[method-assign]
    server.tables[("sales", "other")] = None  # type: ignore[assignment]
    return server


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The options of each client that is opened, in order."""
    given_options: list[dict[str, Any]] = []
    original = clients.open_client

    def recorded(location: Any, options: Any, **rest: Any) -> Any:
        given_options.append(dict(options))
        return original(location, options, **rest)

    monkeypatch.setattr(remote, "open_client", recorded)
    return given_options


def _keys(endpoint: str, name: str, expires_at: float | None = None) -> dict[str, str]:
    keys = {
        "s3.endpoint": endpoint,
        "s3.region": moto_s3.REGION,
        "s3.access-key-id": name,
        "s3.secret-access-key": f"secret of {name}",
        "s3.session-token": f"token of {name}",
    }
    return keys | ({} if expires_at is None else {"s3.session-token-expires-at-ms": str(int(expires_at * 1000))})


def _load(server: RestServer, **properties: str) -> Any:
    return deltaberg.load_catalog("far", type="rest", uri=server.uri, **properties).load_table("sales.orders")


@pytest.mark.parametrize("how", ["config", "storage-credentials"])
def test_vended_credentials_open_the_store(
    how: str, stored: RestServer, endpoint: str, opened: list[dict[str, Any]]
) -> None:
    keys = _keys(endpoint, "vended")
    bucket = stored.extra["metadata"]["location"].rpartition("/warehouse")[0]
    if how == "config":
        stored.extra["config"] = keys
    else:
        stored.extra["config"] = {"s3.region": moto_s3.REGION, "s3.endpoint": endpoint, "s3.access-key-id": "no"}
        del keys["s3.endpoint"]
        stored.extra["storage-credentials"] = [
            {"prefix": f"{bucket}/", "config": {"s3.access-key-id": "too short a prefix"}},
            {"prefix": f"{bucket.replace('s3://', 's3a://')}/warehouse", "config": keys},
            {"prefix": f"{bucket}/warehouse/sales/orders/elsewhere", "config": {"s3.access-key-id": "too long"}},
        ]
    # The caller's own keys have no place beside those of the catalog.
    table = _load(stored, **{"s3.access-key-id": "mine", "aws_session_token": "mine", "s3.profile-name": "mine"})
    assert ids(table) == [1, 2, 3, 4, 5]
    assert opened == [{**keys, "s3.endpoint": endpoint}]
    assert "secret of" not in repr(table._loaded.store) + repr(table._loaded.store.vendor)


def test_the_callers_credentials_serve_where_none_are_vended(
    stored: RestServer, endpoint: str, opened: list[dict[str, Any]]
) -> None:
    stored.extra["config"] = {"s3.region": moto_s3.REGION, "s3.endpoint": "http://elsewhere.example", "io-impl": "x"}
    own = {"AWS_ACCESS_KEY_ID": "mine", "AWS_SECRET_ACCESS_KEY": "m", "s3.endpoint": endpoint}
    assert ids(_load(stored, **own)) == [1, 2, 3, 4, 5]
    assert opened == [{**own, "s3.region": moto_s3.REGION}]


def test_the_callers_credentials_are_not_sent_where_only_the_catalog_says(stored: RestServer, endpoint: str) -> None:
    stored.extra["config"] = {"s3.region": moto_s3.REGION, "s3.endpoint": endpoint}
    table = _load(stored, **{"s3.access-key-id": "mine", "s3.secret-access-key": "m"})
    with pytest.raises(UnsafePathError, match="names an endpoint without credentials for it") as caught:
        ids(table)
    assert caught.value.hint == f"pass s3.endpoint={endpoint} to allow it"


def test_the_configuration_of_the_catalog_counts_for_all_tables(
    stored: RestServer, endpoint: str, opened: list[dict[str, Any]]
) -> None:
    stored.config = {
        "defaults": {"s3.region": "default", "s3.access-key-id": "default", "s3.endpoint": "http://default.example"},
        "overrides": {"s3.path-style-access": "true", "s3.secret-access-key": "over"},
    }
    assert ids(_load(stored, AWS_REGION="mine", **{"s3.endpoint": endpoint})) == [1, 2, 3, 4, 5]
    assert opened == [
        {
            "AWS_REGION": "mine",
            "s3.endpoint": endpoint,
            "s3.access-key-id": "default",
            "s3.secret-access-key": "over",
            "s3.path-style-access": "true",
        }
    ]


@pytest.mark.parametrize("endpoints", [[], [_CREDENTIALS]])
def test_credentials_are_renewed_before_they_expire(
    endpoints: list[str], stored: RestServer, endpoint: str, opened: list[dict[str, Any]], clock: list[float]
) -> None:
    stored.config["endpoints"] = endpoints
    stored.extra["config"] = _keys(endpoint, "first", _NOW + 3600)
    table = _load(stored)
    asked = stored.paths
    assert ids(table) == [1, 2, 3, 4, 5]
    clock[0] += 3600 - 300 - 1
    assert ids(table) == [1, 2, 3, 4, 5]
    assert stored.paths == asked
    stored.extra["config"] = _keys(endpoint, "second", _NOW + 7200)
    clock[0] += 1
    assert ids(table) == [1, 2, 3, 4, 5]
    (request,) = stored.asked[len(asked) :]
    assert request.path == (f"{_TABLE}/credentials" if endpoints else _TABLE)
    assert request.query == ({} if endpoints else {"snapshots": ["refs"]})
    # The same client goes on with the new keys.
    assert [one["s3.access-key-id"] for one in opened] == ["first", "second"]


def test_a_file_that_is_open_goes_on_with_new_credentials(
    stored: RestServer,
    endpoint: str,
    opened: list[dict[str, Any]],
    clock: list[float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One task may read one file for longer than its first credentials live."""
    # The file is too small to be read in parts otherwise.
    monkeypatch.setattr(range_file, "_TAIL_BYTES", 4)
    stored.extra["config"] = _keys(endpoint, "first", _NOW + 3600)
    table = _load(stored)
    spec = pickle.loads(pickle.dumps(bound_scan(table.scan()).read_spec.store))
    (path,) = table.scan().files().column("file_path").to_pylist()[:1]
    place = parse_location(path)
    file = spec.open(place).open(place.path)
    assert file.read(4) == b"PAR1"
    stored.extra["config"] = _keys(endpoint, "second", _NOW + 7200)
    clock[0] += 3599
    file.seek(-4, 2)
    assert file.read() == b"PAR1"
    assert [one["s3.access-key-id"] for one in opened] == ["first", "second"]


def test_a_short_life_is_renewed_after_three_quarters(stored: RestServer, endpoint: str, clock: list[float]) -> None:
    stored.extra["config"] = _keys(endpoint, "first", _NOW + 100)
    table = _load(stored)
    count = len(stored.asked)
    clock[0] += 74
    ids(table)
    assert len(stored.asked) == count
    stored.extra["config"] = _keys(endpoint, "second", _NOW + 900)
    clock[0] += 2
    ids(table)
    assert len(stored.asked) == count + 1


@pytest.mark.parametrize("body", [{}, {"config": []}, {"storage-credentials": []}])
def test_an_answer_without_credentials_replaces_none(
    body: Any, stored: RestServer, endpoint: str, clock: list[float]
) -> None:
    stored.extra["config"] = _keys(endpoint, "first", _NOW + 3600)
    table = _load(stored)
    clock[0] += 3400
    stored.scripted[_TABLE] = [(200, {}, body)]
    assert ids(table) == [1, 2, 3, 4, 5]
    clock[0] += 300
    stored.scripted[_TABLE] = [(200, {}, body)]
    with pytest.raises(AuthenticationError, match="vends expired credentials"):
        ids(table)


def test_a_catalog_that_fails_is_asked_again_while_the_credentials_hold(
    stored: RestServer, endpoint: str, clock: list[float]
) -> None:
    stored.extra["config"] = _keys(endpoint, "first", _NOW + 3600)
    table = _load(stored)
    clock[0] += 3400
    failing: Any = (500, {}, None)
    stored.scripted[_TABLE] = [failing] * 9
    assert ids(table) == [1, 2, 3, 4, 5]
    assert len(stored.scripted[_TABLE]) == 8
    clock[0] += 31
    assert ids(table) == [1, 2, 3, 4, 5]
    assert len(stored.scripted[_TABLE]) == 7
    clock[0] += 200
    with pytest.raises(StorageError, match="the catalog failed"):
        ids(table)


def test_credentials_that_come_expired_are_refused(stored: RestServer, endpoint: str, clock: list[float]) -> None:
    stored.extra["config"] = _keys(endpoint, "first", _NOW - 1)
    with pytest.raises(AuthenticationError, match="vends expired credentials"):
        ids(_load(stored))


def test_tasks_of_one_process_ask_once(stored: RestServer, endpoint: str, clock: list[float]) -> None:
    stored.extra["config"] = _keys(endpoint, "first", _NOW + 3600)
    spec = bound_scan(_load(stored).scan()).read_spec.store
    clock[0] += 3599
    stored.extra["config"] = _keys(endpoint, "second", _NOW + 7200)
    count = len(stored.asked)
    for _ in range(4):
        copied = pickle.loads(pickle.dumps(spec))
        assert copied.vendor == spec.vendor
        assert copied.vendor.options("s3://b/")["s3.access-key-id"] == "second"
    assert len(stored.asked) == count + 1


def test_a_table_that_is_loaded_again_brings_its_credentials(
    stored: RestServer, endpoint: str, clock: list[float]
) -> None:
    stored.extra["config"] = _keys(endpoint, "first", _NOW + 3600)
    first = _load(stored)
    ids(first)
    stored.extra["config"] = _keys(endpoint, "second", _NOW + 5000)
    count = len(stored.asked)
    second = _load(stored)
    ids(second)
    clock[0] += 3599
    for table in (first, second):
        ids(table)
        assert table._loaded.store.vendor.options("")["s3.access-key-id"] == "second"
    assert [path for path in stored.paths[count:] if path != "/v1/config"] == [_TABLE]


@pytest.mark.spark
def test_executors_renew_for_themselves(stored: RestServer, endpoint: str, spark: Any) -> None:
    """The keys of the first answer have expired when the task begins: it asks the catalog for its own."""
    import time

    stored.extra["config"] = _keys(endpoint, "first", time.time() + 3600)
    table = _load(stored)
    # As if the driver had waited for the executors until the keys were old.
    vendor = table._source.store.vendor
    old = dataclasses.replace(vendor.first, expires_at=_NOW - 1e9, renew_at=_NOW - 1e9)
    table._source.store = dataclasses.replace(table._source.store, vendor=dataclasses.replace(vendor, first=old))
    scan = table.scan(columns=["id"])
    assert scan.count() == 5
    # What is asked from here on does not come from the driver, which has new keys by now.
    before = len(stored.asked)
    newest = vended._newest.get(vendor.key, vended._Newest).vended
    assert newest is not None
    assert newest.expires_at == vendor.first.expires_at
    assert sorted(row.id for row in scan.to_spark(spark).collect()) == [1, 2, 3, 4, 5]
    assert set(stored.paths[before:]) == {_TABLE}


_OWN = {"s3.access-key-id": "mine", "s3.endpoint": "http://mine", "timeout": "5"}


@pytest.mark.parametrize(
    ("own", "server", "scope", "wanted"),
    [
        (_OWN, {}, "s3://b/", _OWN),
        (_OWN, {"s3.region": "r"}, "s3://b/", {**_OWN, "s3.region": "r"}),
        (
            _OWN,
            {"s3.access-key-id": "k", "s3.endpoint": "http://theirs"},
            "s3://b/",
            {"s3.access-key-id": "k", "s3.endpoint": "http://mine", "timeout": "5"},
        ),
        (
            {},
            {"gcs.oauth2.token": "t", "gcs.service.host": "h"},
            "gs://b/",
            {"gcs.oauth2.token": "t", "gcs.service.host": "h"},
        ),
        (
            {"adls.account-key": "mine", "azure_tenant_id": "mine"},
            {"adls.sas-token.one.dfs.core.windows.net": "1", "adls.sas-token.two": "2"},
            "abfs://c@two.dfs.core.windows.net/",
            {"adls.sas-token": "2", "adls.account-name": "two"},
        ),
        ({}, {"adls.sas-token.one": "1"}, "az://c/", {"adls.sas-token": "1", "adls.account-name": "one"}),
        ({}, {"adls.sas-token.one": "1", "adls.sas-token.two": "2"}, "az://c/", {}),
    ],
)
def test_what_the_catalog_says_is_put_over_what_the_caller_says(own: Any, server: Any, scope: str, wanted: Any) -> None:
    assert merged_options(own, server, scope) == wanted


def test_requests_that_the_catalog_would_sign_are_refused() -> None:
    server = {"s3.remote-signing-enabled": "true"}
    with pytest.raises(UnsupportedFeatureError, match="signs requests to the store"):
        merged_options({"timeout": "5"}, server, "s3://b/")
    assert merged_options({"s3.access-key-id": "mine"}, server, "s3://b/") == {"s3.access-key-id": "mine"}
    assert merged_options({}, {**server, "s3.access-key-id": "k"}, "s3://b/") == {"s3.access-key-id": "k"}


def test_only_what_is_known_and_harmless_counts() -> None:
    said = {
        "s3.region": "r",
        "gcs.oauth2.token": None,
        "allow_invalid_certificates": "true",
        "proxy_url": "http://elsewhere.example",
        "s3.role-arn": "r",
        "adls.sas-token-expires-at-ms.account": "5",
        "io-impl": "x",
        "token": "t",
    }
    assert server_config(said, "config") == {"s3.region": "r", "adls.sas-token-expires-at-ms.account": "5"}


@pytest.mark.parametrize(
    ("config", "expires_at"),
    [
        ({"s3.session-token-expires-at-ms": "1800000000500"}, 1_800_000_000.5),
        ({"gcs.oauth2.token-expires-at": "1800000001000"}, 1_800_000_001.0),
        (
            {"adls.sas-token-expires-at-ms.a": "1800000002000", "gcs.oauth2.token-expires-at": "1900000000000"},
            1.800000002e9,
        ),
        ({"s3.session-token-expires-at-ms": "soon"}, None),
        ({"s3.session-token-expires-at-ms": "-5"}, None),
        ({"s3.session-token-expires-at-ms": "9" * 40}, None),
        ({"s3.session-token-expires-at-ms": "\u0661"}, None),
        ({}, None),
    ],
)
def test_when_credentials_expire(config: dict[str, str], expires_at: float | None) -> None:
    found = read_vended({"config": config}, {})
    assert found.expires_at == expires_at
    assert (found.renew_at is None) == (expires_at is None)


def test_each_prefix_of_a_bucket_has_its_own_client(opened: list[dict[str, Any]]) -> None:
    parts = [{"prefix": f"s3://b/{name}/", "config": _keys("http://h", name)} for name in ("one", "two")]
    settings = SessionSettings("http://127.0.0.1:1")
    spec = StoreSpec({}, RestVendor(settings, "t", (), (), (), read_vended({"storage-credentials": parts}, {})))
    first, second, again = (spec.open(parse_location(f"s3://b/{name}/x")) for name in ("one", "two", "one"))
    assert first is again
    assert first is not second
    assert [one["s3.access-key-id"] for one in opened] == ["one", "two"]


def test_options_for_other_stores_are_left_out() -> None:
    """A catalog is configured for all of its stores at once."""
    options = {"s3.endpoint": "http://h", "client.region": "r", "adls.account-name": "a", "gcs.oauth2.token": "t"}
    assert store_config("gs", options).config == {"bearer_token": "t"}
    assert store_config("az", options).config == {"account_name": "a"}
    assert store_config("s3", options).config == {"endpoint": "http://h", "region": "r"}


def test_prefixes_of_other_stores_are_no_hindrance() -> None:
    credentials = [
        {"prefix": prefix, "config": {"s3.access-key-id": prefix}} for prefix in ("gopher://b/", "s3", "s3a://b/c/")
    ]
    found = read_vended({"storage-credentials": credentials}, {})
    assert found.prefix_of("s3://b/c/d") == "s3://b/c/"
    assert found.prefix_of("s3://b/cd") == "s3"
    assert found.prefix_of("gs://b/cd") == ""
    assert "gopher" not in repr(found)
