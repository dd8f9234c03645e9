"""Options of stores, in the spellings of deltalake (``AWS_*``) and of pyiceberg (``s3.*``)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from deltaberg.errors import InvalidArgumentError

__all__ = ["StoreConfig", "StoreOptions", "is_store_option", "option_name", "store_config", "without_credentials"]

#: Names and values. Most values are strings.
StoreOptions = Mapping[str, Any]

_S3 = {
    "s3.endpoint": "endpoint",
    "s3.access-key-id": "access_key_id",
    "s3.secret-access-key": "secret_access_key",
    "s3.session-token": "session_token",
    "s3.region": "region",
    "s3.role-arn": "role_arn",
    "s3.role-session-name": "role_session_name",
    "s3.anonymous": "skip_signature",
    "s3.force-virtual-addressing": "virtual_hosted_style_request",
    "client.region": "region",
    "client.access-key-id": "access_key_id",
    "client.secret-access-key": "secret_access_key",
    "client.session-token": "session_token",
    "client.role-arn": "role_arn",
    "aws_endpoint_url": "endpoint",
    "aws_endpoint_url_s3": "endpoint",
    "endpoint_url": "endpoint",
    "aws_default_region": "region",
    "aws_allow_http": "allow_http",
    "anon": "skip_signature",
}
_GCS = {
    "gcs.oauth2.token": "bearer_token",
    "gcs.service.host": "base_url",
    "google_service_account": "service_account",
    "google_service_account_key": "service_account_key",
    "google_application_credentials": "application_credentials",
    "service_account_path": "service_account",
}
_AZURE = {
    "adls.account-name": "account_name",
    "adls.account-key": "account_key",
    "adls.sas-token": "sas_key",
    "adls.tenant-id": "tenant_id",
    "adls.client-id": "client_id",
    "adls.client-secret": "client_secret",
    "adls.account-host": "endpoint",
    "adls.token": "token",
    "azure_storage_account_name": "account_name",
    "azure_storage_account_key": "account_key",
    "azure_storage_sas_token": "sas_key",
    "azure_storage_token": "token",
    "azure_storage_use_emulator": "use_emulator",
}
_BY_SCHEME = {"s3": (_S3, "aws_"), "gs": (_GCS, "google_"), "az": (_AZURE, "azure_"), "abfs": (_AZURE, "azure_")}
#: Options in seconds, by the names that pyiceberg and obstore give them.
_SECONDS = {
    "s3.connect-timeout": "connect_timeout",
    "s3.request-timeout": "timeout",
    **{name: name for name in ("connect_timeout", "pool_idle_timeout", "read_timeout", "timeout")},
}
_CLIENT = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "default_headers",
        "pool_max_idle_per_host",
        "proxy_url",
        "proxy_ca_certificate",
        "proxy_excludes",
        "user_agent",
    }
)
_RETRY = frozenset({"max_retries", "retry_timeout"})
_PATH_STYLE = frozenset({"s3.path-style-access", "aws_path_style", "path_style"})
_PROFILE = frozenset({"s3.profile-name", "client.profile-name", "aws_profile", "profile"})
#: Options that identify the caller, as `option_name` spells them.
_CREDENTIALS = frozenset(
    {
        "access_key",
        "access_key_id",
        "account_key",
        "application_credentials",
        "authority_id",
        "bearer_token",
        "client_id",
        "client_secret",
        "profile",
        "role_arn",
        "role_session_name",
        "sas_key",
        "sas_token",
        "secret_access_key",
        "service_account",
        "service_account_key",
        "session_token",
        "skip_signature",
        "tenant_id",
        "token",
    }
)
#: The prefixes of pyiceberg's options, by scheme. Options of other stores than the one that is opened are ignored.
_PREFIXES = {"s3": ("s3.", "client."), "gs": ("gcs.",), "az": ("adls.",), "abfs": ("adls.",)}
_UNITS = {"ms": 0.001, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600}
_TIME = re.compile(rf"(\d{{1,12}})\s*({'|'.join(sorted(_UNITS, key=len, reverse=True))})\b")
_TIMES = re.compile(rf"(?:{_TIME.pattern}\s*)+")
#: The largest number of seconds or of attempts.
_LARGEST_NUMBER = 1_000_000_000
_FAMILIES = ("adls.", "aws_", "azure_", "client.", "gcs.", "google_", "s3.")


class StoreConfig(NamedTuple):
    """Arguments of obstore: the configuration of the store, of its HTTP client, and of retries; and an AWS profile."""

    config: dict[str, Any]
    client: dict[str, Any]
    retry: dict[str, Any]
    profile: str | None


def is_store_option(name: str) -> bool:
    """Return whether the name of an option is one that some store has."""
    spelled = name.lower()
    return spelled.startswith(_FAMILIES) or any(
        spelled in known for known in (_S3, _CLIENT, _RETRY, _PATH_STYLE, _PROFILE)
    )


def option_name(scheme: str, name: str) -> str:
    """Return obstore's name of an option for the stores of a scheme, however the caller spells it."""
    spelled = name.lower()
    if spelled in _PROFILE:
        return "profile"
    names, prefix = _BY_SCHEME.get(scheme, ({}, ""))
    return names.get(spelled, spelled.removeprefix(prefix))


def without_credentials(options: StoreOptions) -> dict[str, Any]:
    """Return the options without those that identify the caller to any store."""
    return {
        name: value
        for name, value in options.items()
        if not any(option_name(scheme, name) in _CREDENTIALS for scheme in _BY_SCHEME)
    }


def _is_foreign(scheme: str, name: str) -> bool:
    """Return whether an option is for another kind of store: a catalog is configured for several at once."""
    others = (prefix for known, prefixes in _PREFIXES.items() for prefix in prefixes if known != scheme)
    return name.startswith(tuple(others)) and not name.startswith(_PREFIXES.get(scheme, ()))


def store_config(scheme: str, options: StoreOptions) -> StoreConfig:
    """Sort options into the arguments of obstore.

    Raises
    ------
    InvalidArgumentError
        If the value of an option is not a number or a boolean, as the option requires.
    """
    found = StoreConfig({}, {}, {}, None)
    profile = None
    for original, value in options.items():
        name = original.lower()
        if value is None or _is_foreign(scheme, name):
            continue
        if name in _PROFILE:
            profile = str(value)
        elif name in _PATH_STYLE:
            found.config["virtual_hosted_style_request"] = not _boolean(original, value)
        elif name in _SECONDS:
            found.client[_SECONDS[name]] = _seconds(original, value)
        else:
            _sort(found, option_name(scheme, name), original, value)
    endpoint = found.config.get("endpoint") or found.config.get("base_url")
    if isinstance(endpoint, str) and endpoint.startswith("http://"):
        # The caller wrote http:// on purpose.
        found.client.setdefault("allow_http", True)
    return found._replace(profile=profile)


def _sort(found: StoreConfig, name: str, original: str, value: Any) -> None:
    if name in _CLIENT:
        found.client[name] = _boolean(original, value) if name.startswith("allow_") else value
    elif name in _RETRY:
        found.retry[name] = int(_number(original, value)) if name == "max_retries" else _seconds(original, value)
    elif name in ("skip_signature", "virtual_hosted_style_request", "use_emulator"):
        found.config[name] = _boolean(original, value)
    else:
        found.config[name] = value


def _boolean(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text in ("true", "1", "yes", "on"):
        return True
    if text in ("false", "0", "no", "off", ""):
        return False
    raise InvalidArgumentError(f"the storage option {name!r} is neither true nor false", hint="use true or false")


def _seconds(name: str, value: Any) -> timedelta:
    """Return a time that is given as a number of seconds, or as text such as ``1m 30s``."""
    if isinstance(value, timedelta):
        return value
    text = str(value).strip().lower()
    if _TIMES.fullmatch(text):
        value = sum(int(number) * _UNITS[unit] for number, unit in _TIME.findall(text))
    return timedelta(seconds=_number(name, value))


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = -1.0
    if not 0 <= number <= _LARGEST_NUMBER:
        raise InvalidArgumentError(
            f"the storage option {name!r} is not a number from 0 to {_LARGEST_NUMBER}", hint="pass a number"
        )
    return number
