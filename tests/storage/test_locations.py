"""Locations contain no credentials, because messages show them; messages never contain the values of options."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from deltaberg import load_catalog, open_table
from deltaberg.catalogs.places import place_of
from deltaberg.errors import InvalidArgumentError, UnsafePathError
from deltaberg.storage.location import PathResolver, parse_location
from deltaberg.storage.options.options import store_config

pytestmark = pytest.mark.one_backend

_REFUSED = [
    "s3://key:hush@bucket/t",
    "s3a://key:hush@bucket/t",
    "S3://hush@bucket/t",
    "s3://key:h/hush@bucket/t",
    "gs://me:hush@bucket/t",
    "abfss://me:hush@account.dfs.core.windows.net/t",
    "az://c@me:hush@host/t",
    "memory://me:hush@m/t",
    "file://me:hush@host/t",
    "https://me:hush@host/t",
]


@pytest.mark.parametrize("url", _REFUSED)
def test_credentials_in_a_location_are_refused_and_not_shown(url: str, tmp_path: Any) -> None:
    calls: list[Any] = [
        lambda: parse_location(url),
        lambda: open_table(url),
        lambda: open_table(tmp_path, "delta", location_map={"/x": url}),
        lambda: open_table(tmp_path, "iceberg", location_map=url),
        lambda: load_catalog("c", type="hadoop", warehouse=url),
    ]
    for call in calls:
        with pytest.raises(InvalidArgumentError) as caught:
            call()
        assert "hush" not in str(caught.value)
        assert caught.value.hint


@pytest.mark.parametrize(
    ("url", "authority"),
    [
        ("abfss://c@account.dfs.core.windows.net/t@x:y", "c@account.dfs.core.windows.net"),
        ("abfs://c@localhost:10000/t", "c@localhost:10000"),
        ("az://c/t@x:y", "c"),
        ("s3://bucket/a:b@c", "bucket"),
        ("s3://arn:aws:s3:eu-west-1:1:accesspoint/t", "arn:aws:s3:eu-west-1:1:accesspoint"),
    ],
)
def test_an_at_sign_that_is_no_user_is_taken(url: str, authority: str) -> None:
    assert parse_location(url).authority == authority


@pytest.mark.parametrize(
    "value",
    [
        None,
        5,
        b"hush",
        ["hush"],
        "",
        "hush/\ud800",
        "s3://bucket/hush\udc80\ud800",
        Path("/hush\udcff"),
        "/hush\0",
        "file:///hush%00",
        "s3://bucket/hush\0/t",
        "memory://hush\0",
    ],
)
def test_what_is_no_text_is_refused_and_not_shown(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="is not a location") as caught:
        parse_location(value)
    assert "hush" not in str(caught.value)


def test_credentials_that_a_table_records_are_not_shown() -> None:
    resolver = PathResolver(parse_location("s3://bucket/t"), encoded=False)
    with pytest.raises(UnsafePathError, match="another store") as caught:
        resolver.resolve("s3n://key:hush@other/t/a.parquet")
    assert "hush" not in str(caught.value)
    assert "s3n://***@other/t/a.parquet" in str(caught.value)
    assert caught.value.hint is not None
    assert "'s3://other/'" in caught.value.hint


def test_keys_in_recorded_locations_are_no_part_of_the_bucket() -> None:
    recorded = "s3n://key:hush@bucket/t/a.parquet"
    resolver = PathResolver(parse_location("s3://bucket/t"), encoded=False)
    assert str(resolver.resolve(recorded)) == "s3://bucket/t/a.parquet"
    assert str(place_of(recorded, None)) == "s3://bucket/t/a.parquet"
    assert str(resolver.resolve("s3://bucket/t/a@b:c.parquet")) == "s3://bucket/t/a@b:c.parquet"
    azure = PathResolver(parse_location("abfss://c@account.dfs.core.windows.net/t"), encoded=False)
    file = "abfs://c@account.dfs.core.windows.net/t/a.parquet"
    assert str(azure.resolve(file)) == file


@pytest.mark.parametrize("value", ["hush", "nan", "inf", "-1", "1e300", [1]])
@pytest.mark.parametrize("name", ["s3.connect-timeout", "max_retries", "retry_timeout", "timeout"])
def test_numbers_of_options_are_checked_and_not_shown(name: str, value: Any) -> None:
    number = "an integer" if name == "max_retries" else "a number of seconds"
    with pytest.raises(InvalidArgumentError, match=f"'{name}' must be {number} from 0") as caught:
        store_config("s3", {name: value})
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(5, 5), (2.5, 2.5), ("30", 30), ("30s", 30), ("1m 30s", 90), ("250ms", 0.25), (dt.timedelta(minutes=1), 60)],
)
@pytest.mark.parametrize("name", ["timeout", "connect_timeout", "s3.request-timeout"])
def test_times_of_options(name: str, value: Any, seconds: float) -> None:
    (found,) = store_config("s3", {name: value}).client.values()
    assert found == dt.timedelta(seconds=seconds)


def test_an_option_that_is_none_is_absent() -> None:
    nothing = store_config("s3", {})
    names = ("timeout", "max_retries", "AWS_REGION", "allow_http", "profile", "s3.path-style-access")
    assert store_config("s3", dict.fromkeys(names)) == nothing


@pytest.mark.parametrize("name", ["AWS_ALLOW_HTTP", "s3.path-style-access", "anon"])
def test_switches_of_options_are_checked_and_not_shown(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"'{name}' must be true or false") as caught:
        store_config("s3", {name: "hush"})
    assert "hush" not in str(caught.value)
