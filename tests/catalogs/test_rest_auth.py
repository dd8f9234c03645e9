"""Tokens of REST catalogs: given, granted, renewed, and never shown nor sent elsewhere."""

from __future__ import annotations

import pickle
import threading
from typing import Any
from urllib.parse import parse_qs

import pytest

import deltaberg
from deltaberg.catalogs.rest import session
from deltaberg.errors import AuthenticationError, InvalidArgumentError, StorageError
from tests.catalogs.rest_server import RestServer, error_body, running

pytestmark = pytest.mark.one_backend

_TOKENS = "/v1/oauth/tokens"
_TABLE = "/v1/namespaces/sales/tables/orders"


def _grant(token: str, **more: Any) -> Any:
    return 200, {}, {"access_token": token, "token_type": "bearer", **more}


def _load(server: RestServer, **properties: str) -> Any:
    return deltaberg.load_catalog("far", type="rest", uri=server.uri, **properties)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of the sessions, which passes only as told."""
    times = [1000.0]
    monkeypatch.setattr(session, "_clock", lambda: times[0])
    return times


@pytest.fixture(autouse=True)
def no_sessions() -> None:
    """Forget the sessions of other tests: ports come again."""
    session._sessions.clear()


def test_a_bearer_token_is_sent(server: RestServer, orders: Any) -> None:
    server.tokens = ["given"]
    catalog = _load(server, token="given")
    assert catalog.table_exists("sales.orders")
    assert {asked.headers["Authorization"] for asked in server.asked} == {"Bearer given"}


def test_a_refused_token_is_not_shown(server: RestServer, orders: Any) -> None:
    """The server of these tests repeats the header in its message."""
    server.tokens = ["other"]
    catalog = _load(server, token="hush-hush")
    with pytest.raises(AuthenticationError, match=r"Not authorized: Bearer \*\*\*") as caught:
        catalog.list_namespaces()
    assert server.paths == ["/v1/config"]
    shown = [
        str(caught.value),
        repr(caught.value),
        repr(catalog),
        repr(catalog._door.settings),
        repr(catalog._door.session),
    ]
    assert "hush" not in "".join(shown)
    assert isinstance(caught.value, StorageError)
    assert isinstance(caught.value, PermissionError)


@pytest.mark.parametrize(
    ("credential", "form"),
    [
        ("me:s e&cret", {"client_id": ["me"], "client_secret": ["s e&cret"]}),
        ("secret", {"client_secret": ["secret"]}),
    ],
)
def test_client_credentials_get_a_token(credential: str, form: Any, server: RestServer, orders: Any) -> None:
    server.tokens, server.grants = ["granted"], [_grant("granted", expires_in=3600)]
    catalog = _load(server, credential=credential, **{"header.X-Tenant": "me"})
    assert catalog.table_exists("sales.orders")
    assert catalog.list_tables("sales") == [("sales", "orders")]
    assert server.paths.count(_TOKENS) == 1
    asked = server.asked[0]
    assert asked.method == "POST"
    assert asked.headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert asked.headers["X-Tenant"] == "me"
    assert "Authorization" not in asked.headers
    assert parse_qs(asked.body) == {"grant_type": ["client_credentials"], "scope": ["catalog"], **form}
    assert credential not in repr(catalog) + repr(catalog._door.settings)


def test_scope_audience_and_resource_are_sent(server: RestServer, orders: Any) -> None:
    server.grants = [_grant("granted")]
    _load(server, credential="a:b", scope="ALL", audience="them", resource="it").table_exists("sales.orders")
    form = parse_qs(server.asked[0].body)
    assert (form["scope"], form["audience"], form["resource"]) == (["ALL"], ["them"], ["it"])


@pytest.mark.parametrize(("lifetime", "due"), [(3600, 3540), (40, 30)])
def test_a_token_is_renewed_before_it_expires(
    lifetime: int, due: int, server: RestServer, orders: Any, clock: list[float]
) -> None:
    server.grants = [_grant("first", expires_in=lifetime), _grant("second", expires_in=lifetime)]
    server.tokens = ["first", "second"]
    catalog = _load(server, credential="a:b")
    assert catalog.table_exists("sales.orders")
    clock[0] += due - 0.5
    assert catalog.table_exists("sales.orders")
    assert server.paths.count(_TOKENS) == 1
    clock[0] += 0.5
    server.tokens = ["second"]
    assert catalog.table_exists("sales.orders")
    # No request was refused on the way.
    assert server.paths.count(_TOKENS) == 2
    assert server.paths[-2:] == [_TOKENS, _TABLE]


@pytest.mark.parametrize("status", [401, 419])
def test_a_refused_token_is_renewed_once(status: int, server: RestServer, orders: Any) -> None:
    server.grants = [_grant("first"), _grant("second"), _grant("third")]
    catalog = _load(server, credential="a:b")
    assert catalog.table_exists("sales.orders")
    refused: Any = (status, {}, error_body(status, "Expired", "token first has expired"))
    server.scripted[_TABLE] = [refused]
    assert catalog.table_exists("sales.orders")
    assert server.asked[-1].headers["Authorization"] == "Bearer second"
    server.scripted[_TABLE] = [refused, refused]
    with pytest.raises(AuthenticationError, match="token first has expired"):
        catalog.table_exists("sales.orders")
    assert server.paths.count(_TOKENS) == 3


def test_a_given_token_is_replaced_where_there_is_a_credential(server: RestServer, orders: Any) -> None:
    server.tokens, server.grants = ["granted"], [_grant("granted")]
    assert _load(server, token="old", credential="a:b").table_exists("sales.orders")
    sent = [asked.headers["Authorization"] for asked in server.asked]
    assert sent == ["Bearer old", None, "Bearer granted", "Bearer granted"]


def test_catalogs_alike_share_their_token(server: RestServer, orders: Any) -> None:
    server.grants = [_grant("granted")]
    for _ in range(3):
        assert _load(server, credential="a:b").table_exists("sales.orders")
    assert server.paths.count(_TOKENS) == 1
    assert _load(server, credential="a:c").table_exists("sales.orders")
    assert server.paths.count(_TOKENS) == 2


def test_threads_ask_for_one_token(server: RestServer, orders: Any) -> None:
    server.grants = [_grant("first"), _grant("second")]
    shared = _load(server, credential="a:b")._door.session
    barrier = threading.Barrier(8)
    statuses: list[int] = []

    def ask() -> None:
        barrier.wait()
        statuses.append(shared.get("v1/config").status)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 8
    assert server.paths.count(_TOKENS) == 1


def test_another_server_may_grant_tokens(server: RestServer, orders: Any) -> None:
    with running(RestServer()) as other:
        other.grants = [_grant("granted")]
        server.tokens = ["granted"]
        properties = {"oauth2-server-uri": f"{other.uri}{_TOKENS}", "header.X-Api-Key": "hush"}
        assert _load(server, credential="a:b", **properties).table_exists("sales.orders")
        assert other.paths == [_TOKENS]
        # What the caller adds is meant for the catalog.
        assert "X-Api-Key" not in other.asked[0].headers
        assert server.asked[-1].headers["X-Api-Key"] == "hush"
        assert _TOKENS not in server.paths


def test_the_address_for_tokens_may_be_relative(server: RestServer, orders: Any) -> None:
    server.scripted["/sso/token"] = [_grant("granted")]
    server.tokens = ["granted"]
    assert _load(server, credential="a:b", **{"oauth2-server-uri": "/sso/token"}).table_exists("sales.orders")
    assert server.paths[0] == "/sso/token"


def test_the_catalog_does_not_say_where_tokens_are_granted(server: RestServer, orders: Any) -> None:
    with running(RestServer()) as other:
        other.grants = [_grant("stolen")]
        server.grants = [_grant("granted")]
        for part in ("defaults", "overrides"):
            server.config[part] = {"oauth2-server-uri": f"{other.uri}{_TOKENS}", "credential": "x:y", "token": "z"}
        catalog = _load(server, credential="a:b")
        assert catalog.table_exists("sales.orders")
        server.scripted[_TABLE] = [(401, {}, None)]
        assert catalog.table_exists("sales.orders")
        assert other.asked == []
        assert server.asked[-1].headers["Authorization"] == "Bearer granted"


def test_redirects_take_no_token_along(server: RestServer, orders: Any) -> None:
    with running(RestServer()) as other:
        server.scripted[_TABLE] = [(307, {"Location": f"{other.uri}{_TABLE}"}, None)]
        with pytest.raises(StorageError, match="redirects are not followed"):
            _load(server, token="t").table_exists("sales.orders")
        server.grants = [(307, {"Location": f"{other.uri}{_TOKENS}"}, None)]
        with pytest.raises(StorageError, match="redirects are not followed"):
            _load(server, credential="a:b").table_exists("sales.orders")
        assert other.asked == []


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        ((400, {}, {"error": "invalid_scope", "error_description": "no b-secret"}), AuthenticationError, r"no \*\*\*"),
        # What holds another secret is hidden whole.
        ((400, {}, {"error": "x", "error_description": "no a:b-secret"}), AuthenticationError, r"no \*\*\*"),
        ((401, {}, {"error": "invalid_client"}), AuthenticationError, "invalid_client"),
        ((403, {}, b"<html>"), AuthenticationError, "gives no reason"),
        ((500, {}, {"error": {"message": "boom", "type": "X"}}), StorageError, "boom"),
        ((404, {}, None), StorageError, "the catalog failed"),
        ((200, {}, b"no json"), StorageError, "is not a JSON object"),
        ((200, {}, b"[" * 100_000), StorageError, "is not a JSON object"),
        ((200, {}, {}), AuthenticationError, "not grant a bearer token"),
        ((200, {}, {"access_token": 7}), AuthenticationError, "not grant a bearer token"),
        ((200, {}, {"access_token": ""}), AuthenticationError, "not grant a bearer token"),
        ((200, {}, {"access_token": "t", "token_type": "mac"}), AuthenticationError, "not grant a bearer token"),
        ((200, {}, {"access_token": "b-secret\r\nX: y"}), InvalidArgumentError, "token of the server cannot be sent"),
    ],
)
def test_odd_answers_to_requests_for_tokens(
    answer: Any, error: type[Exception], message: str, server: RestServer
) -> None:
    server.grants = [answer]
    with pytest.raises(error, match=message) as caught:
        _load(server, credential="a:b-secret").list_namespaces()
    assert type(caught.value) is error
    assert "b-secret" not in str(caught.value)


@pytest.mark.parametrize("lifetime", [0, -1, "soon", True, 1e300, float("nan"), None, []])
def test_odd_lifetimes_count_as_none(lifetime: Any, server: RestServer, orders: Any, clock: list[float]) -> None:
    server.grants = [_grant("granted", expires_in=lifetime)]
    catalog = _load(server, credential="a:b")
    assert catalog.table_exists("sales.orders")
    clock[0] += 1e8
    assert catalog.table_exists("sales.orders")
    assert server.paths.count(_TOKENS) == (2 if lifetime is True else 1)


def test_settings_travel(server: RestServer) -> None:
    settings = _load(server, credential="a:b", token="t")._door.settings
    copied = pickle.loads(pickle.dumps(settings))
    assert copied == settings
    assert session.session_of(copied) is session.session_of(settings)
