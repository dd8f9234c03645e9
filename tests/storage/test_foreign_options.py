"""Options of deltalake: taken, or refused with the reason and our word for them; and names that are misspelled."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from deltaberg import open_table, write_table
from deltaberg.errors import InvalidArgumentError
from deltaberg.storage import stores
from deltaberg.storage.options.options import is_store_option, store_config
from tests.storage.conftest import Bucket

pytestmark = pytest.mark.one_backend

_ROWS = pa.table({"id": [1]})


@pytest.mark.parametrize(
    ("option", "value", "name", "taken"),
    [
        ("AWS_STORAGE_ALLOW_HTTP", "true", "allow_http", True),
        ("AWS_IAM_ROLE_ARN", "arn:x", "role_arn", "arn:x"),
        ("AWS_S3_ASSUME_ROLE_ARN", "arn:x", "role_arn", "arn:x"),
        ("AWS_IAM_ROLE_SESSION_NAME", "s", "role_session_name", "s"),
        ("AWS_S3_ROLE_SESSION_NAME", "s", "role_session_name", "s"),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", "/f", "web_identity_token_file", "/f"),
        ("AWS_CONDITIONAL_PUT", "etag", "conditional_put", "etag"),
    ],
)
def test_options_that_are_taken(option: str, value: str, name: str, taken: Any) -> None:
    found = store_config("s3", {option: value})
    assert {**found.config, **found.client} == {name: taken}
    assert is_store_option(option)


@pytest.mark.parametrize("option", ["AWS_S3_ALLOW_UNSAFE_RENAME", "MOUNT_ALLOW_UNSAFE_RENAME"])
def test_options_that_change_nothing(option: str) -> None:
    assert is_store_option(option)
    for value in ("true", "false", True):
        assert store_config("s3", {option: value, "AWS_S3_LOCKING_PROVIDER": ""}) == ({}, {}, {}, None, {})


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("AWS_S3_LOCKING_PROVIDER", "conditional puts"),
        ("DELTA_DYNAMO_TABLE_NAME", "conditional puts"),
        ("AWS_ENDPOINT_URL_DYNAMODB", "conditional puts"),
        ("AWS_REGION_DYNAMODB", "conditional puts"),
        ("OBJECT_STORE_CONCURRENCY_LIMIT", "threads"),
        ("AWS_S3_GET_INTERNAL_SERVER_ERROR_RETRIES", "max_retries"),
        ("AWS_S3_ADDRESSING_STYLE", "AWS_PATH_STYLE=true"),
        ("AWS_EC2_METADATA_DISABLED", "AWS_SKIP_SIGNATURE=true"),
        ("AWS_FORCE_CREDENTIAL_LOAD", "AWS_PROFILE"),
        ("AWS_STS_POOL_IDLE_TIMEOUT_SECONDS", "pool_idle_timeout"),
    ],
)
def test_options_that_are_refused_with_the_reason(option: str, said: str) -> None:
    assert is_store_option(option)
    for spelled in (option, option.lower()):
        with pytest.raises(InvalidArgumentError, match="is not taken: ") as caught:
            open_table("s3://bucket/t", storage_options={spelled: "hush"})
        assert said in str(caught.value.hint)
        assert spelled in str(caught.value)
        assert "hush" not in str(caught.value)


#: Names that a hint gives, and of which it says at once why they are not taken.
_NOT_TAKEN = {"AWS_S3_LOCKING_PROVIDER", "DELTA_DYNAMO_TABLE_NAME", "OBJECT_STORE_CONCURRENCY_LIMIT"}


@pytest.mark.parametrize(
    ("place", "option", "meant"),
    [
        ("s3://b", "AWS_REGOIN", "AWS_REGION"),
        ("s3://b", "aws_acess_key_id", "AWS_ACCESS_KEY_ID"),
        ("s3://b", "AWS_ENDPOINT_ULR", "AWS_ENDPOINT_URL"),
        ("s3://b", "s3.endpiont", "s3.endpoint"),
        ("s3://b", "region_name", "AWS_REGION"),
        ("s3://b", "AWS_MAX_ATTEMPTS", "max_retries"),
        ("s3://b", "s3.path-style-acess", "s3.path-style-access"),
        ("s3://b", "alow_http", "allow_http"),
        ("s3://b", "regon", "region"),
        ("s3://b", "max_retrys", "max_retries"),
        ("az://c", "azure_storage_acount_key", "AZURE_STORAGE_ACCOUNT_KEY"),
        ("abfss://c@a.dfs.core.windows.net", "adls.acount-name", "adls.account-name"),
        ("gs://b", "google_service_acount", "GOOGLE_SERVICE_ACCOUNT"),
        ("s3://b", "AWS_S3_LOCKING_PROVIDR", "AWS_S3_LOCKING_PROVIDER"),
        ("s3://b", "aws_s3_alow_unsafe_rename", "AWS_S3_ALLOW_UNSAFE_RENAME"),
        ("s3://b", "DELTA_DYNAMO_TABLE", "DELTA_DYNAMO_TABLE_NAME"),
        ("az://c", "OBJECT_STORE_CONCURENCY_LIMIT", "OBJECT_STORE_CONCURRENCY_LIMIT"),
    ],
)
def test_misspelled_names(place: str, option: str, meant: str) -> None:
    options = {"AWS_REGION": "r"} if place == "s3://b" else {}
    with pytest.raises(InvalidArgumentError, match="is not known") as caught:
        open_table(f"{place}/t", storage_options={**options, option: "hush"})
    assert caught.value.message.endswith(option)
    hint, _, reason = str(caught.value.hint).partition("? ")
    assert f"{hint.removesuffix('?')}?" == f"did you mean {meant}?"
    assert reason.startswith("It is not taken: ") == (meant in _NOT_TAKEN)
    assert "hush" not in str(caught.value)


def test_a_name_that_nothing_is_like() -> None:
    with pytest.raises(InvalidArgumentError, match="is not known: zzz") as caught:
        open_table("s3://bucket/t", storage_options={"zzz": "1"})
    assert "docs/storage.md" in str(caught.value.hint)


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"])
def test_a_plain_endpoint_of_the_environment(s3: Bucket, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    options = dict(s3.options)
    monkeypatch.setenv(name, options.pop("AWS_ENDPOINT_URL"))
    stores._clients.clear()
    write_table(f"{s3.url}/t", _ROWS, storage_options=options)
    assert open_table(f"{s3.url}/t", storage_options=options).scan().count() == 1


def test_an_endpoint_of_the_environment_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "localhost:9000")
    with pytest.raises(InvalidArgumentError, match="'AWS_ENDPOINT_URL' must be a URL such as"):
        store_config("s3", {})
    # An option, or a word of the environment itself, comes first.
    assert store_config("s3", {"AWS_ENDPOINT_URL": "https://host"}).client == {}
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://localhost:9000")
    assert store_config("s3", {}).client == {"allow_http": True}
    assert store_config("s3", {"allow_http": False}).client == {"allow_http": False}
    monkeypatch.setenv("AWS_ALLOW_HTTP", "false")
    assert store_config("s3", {}).client == {}


@pytest.mark.parametrize(
    ("url", "name"),
    [
        *(("s3://b", name) for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT")),
        ("gs://b", "GOOGLE_BASE_URL"),
        *(("az://b", name) for name in ("AZURE_ENDPOINT", "AZURE_STORAGE_ENDPOINT")),
    ],
)
def test_an_empty_endpoint_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], url: str, name: str
) -> None:
    monkeypatch.setenv(name, "")
    with pytest.raises(InvalidArgumentError, match=f"the variable {name} of the environment is empty"):
        open_table(f"{url}/t", storage_options={"skip_signature": True})
    assert "panicked" not in capfd.readouterr().err


def test_an_endpoint_that_is_given_comes_before_an_empty_one(s3: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "")
    write_table(f"{s3.url}/t", _ROWS, storage_options=s3.options)
    assert open_table(f"{s3.url}/t", storage_options=s3.options).scan().count() == 1


def test_plain_endpoints_are_told_by_any_spelling(s3: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = s3.options["AWS_ENDPOINT_URL"].replace("http", "HTTP")
    assert store_config("s3", {"AWS_ENDPOINT_URL": endpoint}).client == {"allow_http": True}
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    others = {name: value for name, value in s3.options.items() if name != "AWS_ENDPOINT_URL"}
    write_table(f"{s3.url}/t", _ROWS, storage_options=others)
    assert open_table(f"{s3.url}/t", storage_options=others).scan().count() == 1


def test_what_forbids_a_plain_endpoint_is_named(s3: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {name: value for name, value in s3.options.items() if name != "AWS_ENDPOINT_URL"}
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.options["AWS_ENDPOINT_URL"])
    with pytest.raises(InvalidArgumentError, match="plain HTTP, which the storage option 'aws_allow_http' forbids"):
        open_table(f"{s3.url}/t", storage_options={**options, "aws_allow_http": "no"})
    monkeypatch.setenv("AWS_ALLOW_HTTP", "false")
    with pytest.raises(InvalidArgumentError, match="plain HTTP, which the variable AWS_ALLOW_HTTP of the environment"):
        open_table(f"{s3.url}/t", storage_options=options)
    write_table(f"{s3.url}/t", _ROWS, storage_options={**options, "aws_allow_http": True})
    # Whoever gives the endpoint itself as http:// allows it.
    assert open_table(f"{s3.url}/t", storage_options=s3.options).scan().count() == 1


def test_the_region_of_a_role_is_that_of_the_environment(s3: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_REGION", s3.options["AWS_REGION"])
    options = {name: value for name, value in s3.options.items() if name != "AWS_REGION"}
    options |= {"AWS_IAM_ROLE_ARN": "arn:aws:iam::123456789012:role/reader"}
    options |= {"aws_sts_endpoint": s3.options["AWS_ENDPOINT_URL"]}
    write_table(f"{s3.url}/t", _ROWS, storage_options=options)
    assert open_table(f"{s3.url}/t", storage_options=options).scan().count() == 1


def test_a_role_is_taken_on(s3: Bucket) -> None:
    role = {
        "AWS_IAM_ROLE_ARN": "arn:aws:iam::123456789012:role/reader",
        "AWS_IAM_ROLE_SESSION_NAME": "nightly",
        "aws_sts_endpoint": s3.options["AWS_ENDPOINT_URL"],
    }
    options = {**s3.options, **role}
    write_table(f"{s3.url}/t", _ROWS, storage_options=options)
    assert open_table(f"{s3.url}/t", storage_options=options).scan().count() == 1
    with pytest.raises(PermissionError, match="Parameter validation"):
        open_table(f"{s3.url}/t", storage_options={**options, "AWS_IAM_ROLE_ARN": "x"})
