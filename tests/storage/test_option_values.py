"""Values that the options of stores do not take, and what is said of credentials that are missing."""

from __future__ import annotations

import json
import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from deltaberg import open_table
from deltaberg.errors import AuthenticationError, InvalidArgumentError, StorageError
from deltaberg.storage import clients, stores
from deltaberg.storage.answers import conditional_put, translated
from deltaberg.storage.base import PutOutcome, Storage
from deltaberg.storage.location import parse_location
from deltaberg.storage.options.options import store_config
from deltaberg.storage.stores import open_store
from tests.storage.conftest import Bucket

pytestmark = pytest.mark.one_backend

_SECRET = "hush-secret"
_S3 = {
    "AWS_REGION": "r",
    "AWS_ACCESS_KEY_ID": "k",
    "AWS_SECRET_ACCESS_KEY": "s",
    "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
}
_AZURE = {"azure_storage_account_name": "account"}
_BY_SCHEME: dict[str, dict[str, str]] = {"s3://bucket/t": _S3, "az://container/t": _AZURE, "gs://bucket/t": {}}

_TEXT = "must be text"
_TRUE = "must be true or false"
_URL = "must be a URL such as https://host:9000"
_SECONDS = "must be a number of seconds from 0 to 1000000000, or text such as '1m 30s'"
_COUNT = "must be an integer from 0 to 1000000000"
_LINES = "must be text without line breaks and other control characters"

#: An option of S3, its value, and what is said of it.
_SHOWN: list[tuple[str, Any, str]] = [
    ("AWS_REGION", 5, _TEXT),
    ("s3.region", b"x", _TEXT),
    ("AWS_REGION", "eu-west-1\n", _LINES),
    ("AWS_ENDPOINT_URL", 5, _URL),
    ("AWS_ENDPOINT_URL", "", _URL),
    ("AWS_ENDPOINT_URL", "not a url", _URL),
    ("s3.endpoint", "localhost:9000", _URL),
    ("AWS_ENDPOINT_URL", "ftp://host", _URL),
    ("AWS_ENDPOINT_URL", "http://", _URL),
    ("AWS_ENDPOINT_URL", "http://a b", _URL),
    ("AWS_ENDPOINT_URL", "http://host:port", _URL),
    ("aws_metadata_endpoint", "x", _URL),
    ("proxy_url", 5, _TEXT),
    ("proxy_url", "not a url", "must be the URL of a proxy, such as http://host:3128"),
    ("user_agent", 5, _TEXT),
    ("user_agent", "a\nb", _LINES),
    ("proxy_excludes", 5, _TEXT),
    ("pool_max_idle_per_host", -1, _COUNT),
    ("pool_max_idle_per_host", True, _COUNT),
    ("max_retries", 1.5, _COUNT),
    ("max_retries", "1.5", _COUNT),
    ("max_retries", True, _COUNT),
    ("max_retries", 10**20, _COUNT),
    ("timeout", True, _SECONDS),
    ("connect_timeout", -1, _SECONDS),
    ("s3.request-timeout", float("nan"), _SECONDS),
    ("read_timeout", timedelta(seconds=-1), _SECONDS),
    ("retry_timeout", [], _SECONDS),
    ("allow_http", 5, _TRUE),
    ("aws_conditional_put", "zzz", "must be 'etag' or 'disabled'"),
    ("aws_conditional_put", 5, _TEXT),
    ("aws_checksum_algorithm", "zzz", "must be 'sha256' or 'crc64nvme'"),
    ("aws_copy_if_not_exists", "zzz", "must be 'multipart', 'header:NAME:VALUE' or"),
    ("aws_request_payer", "zzz", "must be true, false or 'requester'"),
    ("aws_server_side_encryption", "zzz", "must be 'AES256', 'aws:kms', 'aws:kms:dsse' or 'sse-c'"),
    ("AWS_PROFILE", 5, _TEXT),
]

#: A store, an option whose value may be a secret, a value, and what is said of it.
_HIDDEN: list[tuple[str, str, Any, str]] = [
    # Text in the place of a number or a switch may belong to another option.
    ("s3://bucket/t", "pool_max_idle_per_host", _SECRET, _COUNT),
    ("s3://bucket/t", "timeout", _SECRET, _SECONDS),
    ("s3://bucket/t", "AWS_PATH_STYLE", _SECRET, _TRUE),
    ("s3://bucket/t", "s3.anonymous", _SECRET, _TRUE),
    ("s3://bucket/t", "aws_unsigned_payload", _SECRET, _TRUE),
    ("s3://bucket/t", "AWS_ACCESS_KEY_ID", 5, "must be text, not a value of the type int"),
    ("s3://bucket/t", "s3.secret-access-key", [_SECRET], "must be text, not a value of the type list"),
    ("s3://bucket/t", "AWS_SECRET_ACCESS_KEY", f"{_SECRET}\n", _LINES),
    ("s3://bucket/t", "AWS_SESSION_TOKEN", f"{_SECRET}\r\n", _LINES),
    ("s3://bucket/t", "AWS_ENDPOINT_URL", f"me:{_SECRET}@host:9000", _URL),
    ("s3://bucket/t", "proxy_url", f"not a url {_SECRET}@", "must be the URL of a proxy"),
    ("s3://bucket/t", "default_headers", 5, "must be a mapping of the names of headers to text"),
    ("s3://bucket/t", "default_headers", {"authorization": [_SECRET]}, "must be a mapping of the names"),
    (
        "s3://bucket/t",
        "default_headers",
        {"authorization": f"{_SECRET}\n"},
        "must be a mapping of names to values that",
    ),
    ("s3://bucket/t", "aws_sse_customer_key_base64", 5, _TEXT),
    ("az://container/t", "azure_storage_account_key", f"{_SECRET}!", "must be a key in base64"),
    ("az://container/t", "azure_storage_sas_token", _SECRET, "must be a shared access signature"),
    ("gs://bucket/t", "google_service_account_key", f"{_SECRET}{{", "must be the key of a service account as JSON"),
    ("gs://bucket/t", "google_service_account", f"/{_SECRET}", "must be the path of the key of a service account"),
    ("gs://bucket/t", "google_service_account", f'{{"private_key": "{_SECRET}"}}', "must be the path of the key"),
    (
        "gs://bucket/t",
        "google_application_credentials",
        f'{{"private_key": "{_SECRET}"}}',
        "must be the path of a file of credentials",
    ),
    ("gs://bucket/t", "gcs.oauth2.token", f"{_SECRET}\n", _LINES),
]


@pytest.fixture(autouse=True)
def unconfigured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An environment without credentials, and a process without clients."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    stores._clients.clear()


def _refused(place: str, options: dict[str, Any]) -> InvalidArgumentError:
    with pytest.raises(InvalidArgumentError) as caught:
        open_table(place, storage_options=options)
    return caught.value


@pytest.mark.parametrize(("option", "value", "said"), _SHOWN)
def test_a_value_that_is_not_taken_is_named(option: str, value: Any, said: str) -> None:
    error = _refused("s3://bucket/t", {**_S3, option: value})
    assert error.message.startswith(f"the storage option {option!r} {said}")
    assert error.message.endswith(f", not {value!r}")
    assert option in str(error.hint)


@pytest.mark.parametrize(("place", "option", "value", "said"), _HIDDEN)
def test_a_value_that_may_be_a_secret_is_not_shown(place: str, option: str, value: Any, said: str) -> None:
    error = _refused(place, {**_BY_SCHEME[place], option: value})
    assert error.message.startswith(f"the storage option {option!r} {said}")
    assert _SECRET not in "".join(traceback.format_exception(error))


@pytest.mark.parametrize(
    ("place", "options"),
    [
        ("gs://bucket/t", ("google_service_account", "google_application_credentials")),
        ("gs://bucket/t", ("google_application_credentials", "google_service_account")),
        ("az://container/t", ("azure_storage_account_key", "azure_storage_sas_token")),
    ],
)
@pytest.mark.parametrize("value", [f'{{"private_key": "{_SECRET}"}}', f"a\\{_SECRET}!"])
def test_values_of_several_options_that_may_be_secrets(place: str, options: tuple[str, ...], value: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        open_table(place, storage_options={**_BY_SCHEME[place], **dict.fromkeys(options, value)})
    assert any(option in str(caught.value) for option in options)
    assert _SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("value", ['a"b', "a\\b", "é"])
def test_secrets_are_known_as_they_are_and_escaped(value: str) -> None:
    settings = store_config("s3", {"aws_secret_access_key": value})
    for said, is_quoted in ((f"not {value}", True), (f"not {json.dumps(value)}", True), ("not that", False)):
        assert clients._quotes_secret(settings, ValueError(said)) == is_quoted


def test_what_only_the_store_knows_is_said_in_its_words() -> None:
    assert _refused("s3://bucket/t", {**_S3, "AWS_BUCKET": "other"}).message == (
        "the store does not take the value of the storage option 'AWS_BUCKET': Duplicate key aws_bucket provided"
    )
    error = _refused("s3://bucket/t", {**_S3, "aws_s3_express": True})
    assert error.message.startswith(
        "the store does not take the value of the storage option 'aws_s3_express', not True: "
    )
    assert "zone" in error.message.lower()


def test_an_option_that_no_store_knows() -> None:
    message = "a storage option is not known: nosuch"
    assert _refused("s3://bucket/t", {**_S3, "nosuch": "x"}).message == message


def test_a_profile_that_does_not_exist(tmp_path: Path) -> None:
    assert _refused("s3://bucket/t", {"AWS_PROFILE": "nope"}).message == (
        "the storage option 'AWS_PROFILE' must be a profile of the shared AWS files that has credentials, not 'nope'"
    )


def test_a_profile_without_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    (tmp_path / "config").write_text("[profile empty]\nregion = r\n")
    with pytest.raises(AuthenticationError, match="the AWS profile 'empty' gives no credentials"):
        open_table("s3://bucket/t", storage_options={"AWS_PROFILE": "empty"})


def test_values_of_other_types_that_are_taken(s3: Bucket) -> None:
    options: dict[str, Any] = {
        **s3.options,
        "max_retries": 2,
        "pool_max_idle_per_host": 5,
        "timeout": timedelta(seconds=30),
        "connect_timeout": "1m 30s",
        "aws_unsigned_payload": "yes",
        "aws_request_payer": True,
        "default_headers": {"x-a": "b", "x-c": b"d"},
        "user_agent": "mine",
    }
    store = open_store(parse_location(s3.url), options)
    store.put("x", b"1")
    assert store.get("x") == b"1"


def test_options_are_sorted_into_the_arguments_of_obstore() -> None:
    options = {
        "s3.endpoint": " http://host:9000 ",
        "s3.path-style-access": "true",
        "aws_skip_signature": "no",
        "s3.connect-timeout": 1.5,
        "aws_timeout": "2s",
        "MAX_RETRIES": "3",
        "pool_max_idle_per_host": 4,
        "adls.account-name": "other",
        "AWS_SESSION_TOKEN": None,
    }
    config = store_config("s3", options)
    assert config.config == {
        "endpoint": "http://host:9000",
        "virtual_hosted_style_request": False,
        "skip_signature": False,
    }
    assert config.client == {
        "connect_timeout": timedelta(seconds=1.5),
        "timeout": timedelta(seconds=2),
        "pool_max_idle_per_host": "4",
        "allow_http": True,
    }
    assert config.retry == {"max_retries": 3}


def test_an_address_names_the_account_of_azure() -> None:
    place, settings = parse_location("abfs://container@account.host/t"), store_config("az", {})
    assert clients._client(place, settings, repeat=True).config["account_name"] == "account"


def test_text_and_a_number_do_not_share_a_client() -> None:
    open_store(parse_location("s3://bucket/t"), {**_S3, "AWS_REGION": "5"})
    with pytest.raises(InvalidArgumentError, match="AWS_REGION"):
        open_store(parse_location("s3://bucket/t"), {**_S3, "AWS_REGION": 5})


# Credentials


def test_no_credentials_for_s3() -> None:
    """The machine is asked for them, at an address where nobody listens."""
    nobody = {"AWS_REGION": "r", "AWS_METADATA_ENDPOINT": "http://127.0.0.1:9", "max_retries": 0}
    for options in (nobody, {**nobody, "AWS_ACCESS_KEY_ID": "k"}, {**nobody, "AWS_SECRET_ACCESS_KEY": _SECRET}):
        with pytest.raises(AuthenticationError, match="no credentials for the store were found") as caught:
            open_table("s3://bucket/t", storage_options=options)
        hint = str(caught.value.hint)
        for name in (
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_PROFILE",
            "AWS_SKIP_SIGNATURE",
            "storage option",
        ):
            assert name in hint


def test_no_account_for_azure() -> None:
    with pytest.raises(AuthenticationError, match="no credentials for the store were found") as caught:
        open_table("az://container/t", storage_options={})
    assert "AZURE_STORAGE_ACCOUNT_NAME" in str(caught.value.hint)


_OF_THE_MACHINE = [
    (
        "gs://bucket",
        "http://metadata/computeMetadata/v1/instance/service-accounts/default/token?audience=x",
        "GOOGLE_SERVICE_ACCOUNT",
    ),
    (
        "abfs://container@account.host",
        "http://169.254.169.254/metadata/identity/oauth2/token?api-version=2019-08-01",
        "AZURE_STORAGE_ACCOUNT_KEY",
    ),
]


@pytest.mark.parametrize(("place", "asked", "name"), _OF_THE_MACHINE)
def test_no_credentials_of_the_machine(place: str, asked: str, name: str) -> None:
    from obstore.exceptions import GenericError

    def ask() -> None:
        raise GenericError(f"Error performing token request: Error performing GET {asked} in 1ms")

    with pytest.raises(AuthenticationError, match="no credentials for the store were found") as caught:
        translated(ask, place)
    assert name in str(caught.value.hint)


def test_refused_credentials_have_the_same_hint() -> None:
    from obstore.exceptions import PermissionDeniedError

    def denied() -> None:
        raise PermissionDeniedError("403")

    with pytest.raises(AuthenticationError, match="denies access") as caught:
        translated(denied, "s3://bucket/x")
    assert str(caught.value.hint).startswith("check the credentials: AWS_ACCESS_KEY_ID")


# Panics


@pytest.fixture
def panicking(monkeypatch: pytest.MonkeyPatch) -> Storage:
    """A store whose client panics when it is used: the environment is not looked into beforehand."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "not a url")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    return open_store(parse_location("s3://bucket/t"), {n: _S3[n] for n in _S3 if n != "AWS_ENDPOINT_URL"})


def test_a_panic_is_an_error_of_the_store(panicking: Storage) -> None:
    with pytest.raises(StorageError, match="the client of the store panicked") as caught:
        panicking.has_objects("x")
    assert "environment" in str(caught.value.hint)


def test_after_a_panic_it_is_not_known_whether_a_put_was_sent(panicking: Storage) -> None:
    found = panicking.put("x", b"1", if_absent=True)
    assert found.outcome is PutOutcome.UNKNOWN
    assert "panicked" in str(found.cause)


def test_an_interrupt_stays_one() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        translated(interrupted, "s3://bucket/x")
    with pytest.raises(KeyboardInterrupt):
        conditional_put(interrupted, "s3://bucket/x")
