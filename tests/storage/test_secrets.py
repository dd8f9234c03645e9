"""Passwords, tokens and signatures in locations, options and the environment appear in nothing that is shown."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import load_catalog, open_table, write_table
from deltaberg.errors import InvalidArgumentError, StorageError, masked
from deltaberg.storage import answers as answers_of_stores
from deltaberg.storage import stores
from deltaberg.storage.location import parse_location
from deltaberg.storage.options.options import store_config
from deltaberg.storage.stores import StoreSpec, open_store
from deltaberg.table.open.opening import OpenOptions
from tests.support.command_line import call

pytestmark = pytest.mark.one_backend

_ACCOUNT = "abfss://c@account.dfs.core.windows.net/t"
_SIGNED = [
    f"{_ACCOUNT}?sv=2024-08-04&ss=b&srt=co&sp=rl&se=2030-01-01T00:00:00Z&sig=hush%2Bhush%3D",
    f"{_ACCOUNT}?sig=hush",
    f"{_ACCOUNT}/part=1/x.parquet?SIG=hush&sv=1",
    f"{_ACCOUNT}#sig=hush",
    f"{_ACCOUNT}%3Fsig=hush",
    f"{_ACCOUNT}%3fsv%3D1%26sig%3Dhush%2B",
    "abfs://c@account.dfs.core.windows.net/t?sv=1&sig=hush",
    "wasbs://c@account.blob.core.windows.net/t?sv=1;sig=hush",
    "az://c/t?se=2030&sig=hush",
    "s3://bucket/t?X-Amz-Credential=hush&X-Amz-Signature=hush",
    "s3a://bucket/t?X-Amz-Security-Token=hush",
    "s3://bucket/t?AWSAccessKeyId=hush&Signature=hush",
    "gs://bucket/t?X-Goog-Signature=hush",
    "gs://bucket/t?access_token=hush",
    "https://account.blob.core.windows.net/c/t?sv=1&sig=hush",
    "https://me:hush@host/t",
]
_S3 = {
    "AWS_REGION": "r",
    "AWS_ACCESS_KEY_ID": "k",
    "AWS_SECRET_ACCESS_KEY": "s",
    "max_retries": 0,
    "retry_timeout": 1,
    "connect_timeout": 1,
}
_ROWS = pa.table({"id": [1]})


def _shown(error: BaseException) -> str:
    """Return all that is shown of an exception: by itself, by its causes, and after it has travelled."""
    again = pickle.loads(pickle.dumps(error))
    context = getattr(error, "context", {})
    return "\n".join(
        [*traceback.format_exception(error), str(error), repr(error), str(again), repr(again), str(context)]
    )


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process without clients, which does not wait between attempts."""
    monkeypatch.setattr(answers_of_stores, "_wait", lambda _: None)
    stores._clients.clear()


@pytest.mark.parametrize("url", _SIGNED)
def test_signatures_in_locations_are_refused(url: str, tmp_path: Path) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: parse_location(url),
        lambda: open_table(url),
        lambda: write_table(url, _ROWS),
        lambda: open_table(tmp_path, "delta", location_map={"/x": url}),
        lambda: load_catalog("c", type="hadoop", warehouse=url),
    ]
    for do in calls:
        with pytest.raises(InvalidArgumentError) as caught:
            do()
        assert "hush" not in _shown(caught.value)
        assert caught.value.hint
    ended = call("files", url)
    assert ended.exit_code != 0
    assert "hush" not in ended.output + str(ended.exception)


@pytest.mark.parametrize(
    "path", ["t?x=1", "t?sv=1", "sig=hush/t", "t/token=hush/x", "a&b=c", "t/secret=1", "t?signed=no"]
)
def test_other_names_are_taken(path: str) -> None:
    assert parse_location(f"s3://bucket/{path}").path == path


def _delete_many(store: Any) -> None:
    for failure in store.delete_many(["t/x", "t/y"]):
        raise failure.error


_OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "get": lambda store: store.get("t/x"),
    "head": lambda store: store.head("t/x"),
    "ranges": lambda store: store.get_ranges("t/x", [(0, 1)]),
    "list": lambda store: list(store.list_from("t")),
    "walk": lambda store: list(store.walk("t")),
    "put": lambda store: store.put("t/x", b""),
    "put new": lambda store: store.put("t/x", b"", if_absent=True),
    "delete": lambda store: store.delete("t/x"),
    "delete many": _delete_many,
    "open": lambda store: store.open("t/x"),
    "probe": lambda store: store.probe_conditional_put("t"),
}


@pytest.mark.parametrize("place", ["option", "environment"])
def test_passwords_of_endpoints(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    url = "http://me:hush@127.0.0.1:9"
    chosen: list[tuple[str, dict[str, Any], str]] = [
        ("s3://bucket", _S3, "AWS_ENDPOINT_URL"),
        (
            "az://c",
            {"azure_storage_account_name": "a", "azure_storage_sas_token": "sv=1&sig=hush", "max_retries": 0},
            "AZURE_STORAGE_ENDPOINT",
        ),
        ("gs://bucket", {"google_skip_signature": "true", "max_retries": 0}, "GOOGLE_BASE_URL"),
    ]
    for where, options, name in chosen:
        more = {name: url} if place == "option" else {}
        if place == "environment":
            monkeypatch.setenv(name, url)
        store = open_store(parse_location(where), {**options, **more})
        for operation in _OPERATIONS.values():
            with pytest.raises(StorageError) as caught:
                operation(store)
            assert "hush" not in _shown(caught.value)
            # It was sent, and not refused for its scheme.
            assert "builder error" not in str(caught.value)
        for do in (
            lambda: open_table(f"{where}/t", storage_options={**options, **more}),  # noqa: B023 - it is called at once
            lambda: write_table(f"{where}/t", _ROWS, storage_options={**options, **more}),  # noqa: B023
        ):
            with pytest.raises(StorageError) as refused:
                do()
            assert "hush" not in _shown(refused.value)


def test_descriptions() -> None:
    options = {**_S3, "AWS_ENDPOINT_URL": "http://me:hush@127.0.0.1:9", "AWS_SECRET_ACCESS_KEY": "hush"}
    spec, opened = StoreSpec(options), OpenOptions(storage_options=options)
    found: list[Any] = [spec, opened, store_config("s3", options), open_store(parse_location("s3://b"), options)]
    found += [pickle.loads(pickle.dumps(one)) for one in (spec, opened)]
    found += [load_catalog("c", type="hadoop", warehouse="s3://b/w", **options)]
    assert "hush" not in "".join(f"{one!r}{one!s}" for one in found)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://me:hush@host:9000/b", "http://***@host:9000/b"),
        ("HTTPS://hush@host/b", "HTTPS://***@host/b"),
        ("http://me:h/u@sh@host/b", "http://***@host/b"),
        ("http://:hush@host", "http://***@host"),
        ("error at http://me:hush@a/x, and s3://k:hush@b", "error at http://***@a/x, and s3://***@b"),
        ("postgresql+psycopg://me:hush@host/db", "postgresql+psycopg://***@host/db"),
        ("abfss://c:hush@account/t", "abfss://***@account/t"),
        (f"{_ACCOUNT}?sv=1&sig=hush&se=2", f"{_ACCOUNT}?***"),
        (f"{_ACCOUNT}?sv=1&sig=ab/hush==&se=2", f"{_ACCOUNT}?***"),
        ("s3://b/t?AWSAccessKeyId=k&Signature=ab/hush=", "s3://b/t?***"),
        ("at s3://bucket/t?hush/_delta_log (s3a://b?hush)", "at s3://bucket/t?***/_delta_log (s3a://b?***)"),
        (f"'{_ACCOUNT}?sv=2020&hush', gs://b/t#hush", f"'{_ACCOUNT}?***', gs://b/t#***"),
        ("https://account.blob.core.windows.net/c/t?hush", "https://account.blob.core.windows.net/c/t?***"),
        ("http://h/v1?parent=a&page=2, s3://b/a=%3F/x, https://docs#part",) * 2,
        ("x?token=hush)", "x?token=***)"),
        ("EndpointSuffix=a;AccountKey=hush==;x", "EndpointSuffix=a;AccountKey=***;x"),
        (_ACCOUNT, _ACCOUNT),
        ("http://localhost:8181/v1/a@b", "http://localhost:8181/v1/a@b"),
        ("s3://bucket/a:b@c", "s3://bucket/a:b@c"),
        ("token = 5 & x@y", "token = 5 & x@y"),
        ("token=5/x.parquet", "token=5/x.parquet"),
    ],
)
def test_what_is_masked(text: str, shown: str) -> None:
    assert masked(text) == shown
    error = StorageError(text, hint=text, path=text, violations=[text]).with_context(table=text)
    assert str(error) == f"{shown} (path: {shown}, violations: {[shown]}, table: {shown})\nhint: {shown}"
