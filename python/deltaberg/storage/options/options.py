"""Options of stores, in the spellings of deltalake (``AWS_*``) and of pyiceberg (``s3.*``)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from deltaberg.errors import InvalidArgumentError
from deltaberg.storage.options.names import AZURE, CLIENT, GCS, PATH_STYLE, PROFILE, RETRY, S3, TIMEOUTS, check_foreign
from deltaberg.storage.options.values import checked_value

__all__ = [
    "StoreConfig",
    "StoreOptions",
    "check_environment",
    "environment_of",
    "is_store_option",
    "option_name",
    "server_of",
    "store_config",
    "without_credentials",
]

#: Names and values. Most values are strings.
StoreOptions = Mapping[str, Any]

_BY_SCHEME = {"s3": (S3, "aws_"), "gs": (GCS, "google_"), "az": (AZURE, "azure_"), "abfs": (AZURE, "azure_")}
#: The variables of the environment from which obstore takes an endpoint.
_ENDPOINTS = {"s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"), "gs": ("GOOGLE_BASE_URL",)}
_ENDPOINTS |= dict.fromkeys(("az", "abfs"), ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"))
_AMAZON = (".amazonaws.com", ".amazonaws.com.cn")
_ACCOUNT = "AZURE_STORAGE_ACCOUNT_NAME"
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
_PYICEBERG = ("adls.", "client.", "gcs.", "s3.")
_FAMILIES = (*_PYICEBERG, "aws_", "azure_", "delta_dynamo_", "google_", "mount_", "object_store_")


class StoreConfig(NamedTuple):
    """Arguments of obstore: the configuration of the store, of its HTTP client, and of retries; and an AWS profile."""

    config: dict[str, Any]
    client: dict[str, Any]
    retry: dict[str, Any]
    profile: str | None
    #: How the caller spells each option, by the name of it here.
    spelled: dict[str, str]

    def __repr__(self) -> str:
        """Name the options; their values are secrets."""
        return f"StoreConfig({sorted(self.spelled.values())})"

    def without(self, name: str) -> StoreConfig:
        """Return the arguments without an option of the store or its client."""
        config, client = ({key: value for key, value in of.items() if key != name} for of in self[:2])
        return self._replace(config=config, client=client)


def is_store_option(name: str) -> bool:
    """Return whether the name of an option is one that some store has."""
    spelled = name.lower()
    return spelled.startswith(_FAMILIES) or any(spelled in known for known in (S3, CLIENT, RETRY, PATH_STYLE, PROFILE))


def option_name(scheme: str, name: str) -> str:
    """Return obstore's name of an option for the stores of a scheme, however the caller spells it.

    Two options are ours: ``profile``, and ``path_style``, which is the opposite of obstore's.
    """
    spelled = name.lower()
    if spelled in PROFILE:
        return "profile"
    if spelled in PATH_STYLE:
        return "path_style"
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
        If an option does not take its value.
    """
    settings = StoreConfig({}, {}, {}, None, {})
    for original, value in options.items():
        if value is None or _is_foreign(scheme, original.lower()):
            continue
        if check_foreign(original, value):
            continue
        name = option_name(scheme, original)
        taken = checked_value(original, name, value)
        if name == "path_style":
            name, taken = "virtual_hosted_style_request", not taken
        settings.spelled[name] = original
        if name == "profile":
            settings = settings._replace(profile=taken)
        elif name in CLIENT or name in TIMEOUTS:
            settings.client[name] = taken
        elif name in RETRY:
            settings.retry[name] = taken
        else:
            settings.config[name] = taken
    endpoint = settings.config.get("endpoint") or settings.config.get("base_url") or _endpoint_of_environment(scheme)
    if _is_plain(endpoint):
        # Whoever wrote http:// did so on purpose.
        settings.client.setdefault("allow_http", True)
    return settings


def server_of(scheme: str, options: StoreOptions) -> tuple[str, str]:
    """Return what tells stores apart whose buckets have the same name: their endpoint, and the account of Azure.

    Examples
    --------
    >>> server_of("s3", {"endpoint": "http://minio:9000/"})
    ('http://minio:9000', '')
    >>> server_of("s3", {"endpoint": "https://s3.eu-west-1.amazonaws.com"}) == server_of("s3", {})
    True
    """
    config = store_config(scheme, options).config
    named = config.get("endpoint") or config.get("base_url") or _named_endpoint(scheme) or ""
    endpoint = str(named).strip().rstrip("/").lower()
    # The names of buckets are unique in all regions, as each of them has an endpoint.
    is_amazon = scheme == "s3" and urlsplit(endpoint).netloc.partition(":")[0].endswith(_AMAZON)
    account = config.get("account_name") or os.environ.get(_ACCOUNT, "") if scheme in ("az", "abfs") else ""
    return "" if is_amazon else endpoint, str(account)


def _endpoint_of_environment(scheme: str) -> str | None:
    """Return the endpoint that the environment names, if it does not say itself whether plain HTTP is allowed."""
    _, prefix = _BY_SCHEME.get(scheme, ({}, ""))
    return None if f"{prefix}allow_http".upper() in os.environ else _named_endpoint(scheme)


def _named_endpoint(scheme: str) -> str | None:
    """Return the endpoint that the environment names."""
    named = next((name for name in _ENDPOINTS.get(scheme, ()) if os.environ.get(name)), None)
    return None if named is None else str(checked_value(named, "endpoint", os.environ[named]))


def _is_plain(endpoint: object) -> bool:
    return isinstance(endpoint, str) and endpoint.lower().startswith("http://")


def environment_of(scheme: str) -> list[tuple[str, str]]:
    """Return the variables of the environment that stores of a scheme read, and their values."""
    _, prefix = _BY_SCHEME.get(scheme, ({}, ""))
    return sorted((name, value) for name, value in os.environ.items() if prefix and name.startswith(prefix.upper()))


def check_environment(scheme: str, settings: StoreConfig) -> None:
    """Refuse variables with which obstore would panic, or fail at the first request.

    Raises
    ------
    InvalidArgumentError
        The variable of the endpoint is empty, or the endpoint is plain HTTP and a variable or an option forbids that.
    """
    endpoint = settings.config.get("endpoint") or settings.config.get("base_url")
    empty = next((name for name in _ENDPOINTS.get(scheme, ()) if os.environ.get(name, "-").strip() == ""), None)
    if endpoint is None and empty is not None:
        raise InvalidArgumentError(
            f"the variable {empty} of the environment is empty", hint="unset it, or let it name the URL of the store"
        )
    if "allow_http" in settings.client:
        named, allows = f"the storage option {settings.spelled.get('allow_http')!r}", settings.client["allow_http"]
    else:
        variable = f"{_BY_SCHEME.get(scheme, ({}, ''))[1]}allow_http".upper()
        named, allows = f"the variable {variable} of the environment", True
        if variable in os.environ:
            allows = checked_value(variable, "allow_http", os.environ[variable])
    if not allows and _is_plain(endpoint or _named_endpoint(scheme)):
        raise InvalidArgumentError(
            f"the endpoint of the store is plain HTTP, which {named} forbids",
            hint="name an endpoint of https://, or allow plain HTTP",
        )
