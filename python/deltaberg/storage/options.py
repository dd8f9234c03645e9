"""Options of stores, in the spellings of deltalake (``AWS_*``) and of pyiceberg (``s3.*``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from deltaberg.storage.option_values import checked_value

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
    "s3.connect-timeout": "connect_timeout",
    "s3.request-timeout": "timeout",
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
_TIMEOUTS = frozenset({"connect_timeout", "pool_idle_timeout", "read_timeout", "timeout"})
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
_FAMILIES = ("adls.", "aws_", "azure_", "client.", "gcs.", "google_", "s3.")


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
    return spelled.startswith(_FAMILIES) or any(
        spelled in known for known in (_S3, _CLIENT, _RETRY, _PATH_STYLE, _PROFILE)
    )


def option_name(scheme: str, name: str) -> str:
    """Return obstore's name of an option for the stores of a scheme, however the caller spells it.

    Two options are ours: ``profile``, and ``path_style``, which is the opposite of obstore's.
    """
    spelled = name.lower()
    if spelled in _PROFILE:
        return "profile"
    if spelled in _PATH_STYLE:
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
    found = StoreConfig({}, {}, {}, None, {})
    for original, value in options.items():
        if value is None or _is_foreign(scheme, original.lower()):
            continue
        name = option_name(scheme, original)
        taken = checked_value(original, name, value)
        if name == "path_style":
            name, taken = "virtual_hosted_style_request", not taken
        found.spelled[name] = original
        if name == "profile":
            found = found._replace(profile=taken)
        elif name in _CLIENT or name in _TIMEOUTS:
            found.client[name] = taken
        elif name in _RETRY:
            found.retry[name] = taken
        else:
            found.config[name] = taken
    endpoint = found.config.get("endpoint") or found.config.get("base_url")
    if isinstance(endpoint, str) and endpoint.startswith("http://"):
        # The caller wrote http:// on purpose.
        found.client.setdefault("allow_http", True)
    return found
