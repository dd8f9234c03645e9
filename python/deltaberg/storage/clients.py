"""Clients of obstore, made from what callers say about a store."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from datetime import timezone
from typing import Any

from deltaberg.errors import (
    AuthenticationError,
    DeltabergError,
    InvalidArgumentError,
    MissingDependencyError,
    first_line,
    without_secrets,
)
from deltaberg.storage.answers import lacks_credentials
from deltaberg.storage.location import Location
from deltaberg.storage.options.names import unknown_option
from deltaberg.storage.options.options import StoreConfig, StoreOptions, check_environment, store_config
from deltaberg.storage.options.values import is_shown, not_taken

__all__ = ["memory_store", "open_client"]

#: The variable that names the token of a web identity.
_IDENTITY = "AWS_WEB_IDENTITY_TOKEN_FILE"
#: How obstore names an option that it does not know.
_NAMED = re.compile("key: '([^']*)'")
#: Stores in memory live as long as the process, by name.
_memory_stores: dict[str, Any] = {}


def open_client(location: Location, options: StoreOptions, *, repeat: bool = True) -> Any:
    """Return a client of obstore.

    Parameters
    ----------
    location
        Which bucket or container.
    options
        How it is reached.
    repeat
        Whether the client sends requests again that failed.

    Raises
    ------
    InvalidArgumentError
        If an option has a value that is not taken.
    AuthenticationError
        If an AWS profile gives no credentials.
    MissingDependencyError
        If a package is not installed that an option needs.
    """
    if location.scheme == "memory":
        return memory_store(location.authority)
    from obstore.exceptions import UnknownConfigurationKeyError

    settings = store_config(location.scheme, options)
    check_environment(location.scheme, settings)
    try:
        return _client(location, settings, repeat=repeat)
    except DeltabergError:
        raise
    except UnknownConfigurationKeyError as error:
        named = _NAMED.search(str(error))
        if named is None:
            raise
        # A wrong option may be a secret that lost its name.
        raise unknown_option(location.scheme, settings.spelled.get(named[1], named[1])) from None
    except Exception as error:
        refused = None if lacks_credentials(error) else _refused_option(location, settings)
        if refused is None:
            if not _quotes_secret(settings, error):
                raise
            raise InvalidArgumentError(
                "the store does not take the values of several storage options",
                hint=f"check {', '.join(sorted(settings.spelled.values()))}",
            ) from None
        value = {**settings.config, **settings.client}[refused]
        ours = not_taken(settings.spelled[refused], refused, value, because=first_line(error))
        # obstore quotes values, in more than one way.
        raise ours from (without_secrets(error) if is_shown(refused, value) else None)


def _client(location: Location, settings: StoreConfig, *, repeat: bool) -> Any:
    from obstore.store import AzureStore, GCSStore, S3Store

    common: dict[str, Any] = {"config": dict(settings.config)}
    if settings.client:
        common["client_options"] = settings.client
    retries = settings.retry if repeat else {**settings.retry, "max_retries": 0}
    if retries:
        common["retry_config"] = retries
    if location.scheme == "s3":
        return S3Store(location.authority, **common, **_provider(settings, common["config"]))
    if location.scheme == "gs":
        return GCSStore(location.authority, **common)
    if location.scheme in ("az", "abfs"):
        container, at, host = location.authority.partition("@")
        if at:
            # Hadoop's form: container@account.host.
            common["config"].setdefault("account_name", host.partition(".")[0])
        return AzureStore(container, **common)
    raise InvalidArgumentError(f"there is no store for {location.scheme}://")


def _provider(settings: StoreConfig, config: dict[str, Any]) -> dict[str, Any]:
    """Return the credentials of a role, or of a profile in the shared AWS files, which boto3 gets, and add the region.

    obstore itself takes on a role by a web identity only, and leaves it aside otherwise.
    """
    has_identity = "web_identity_token_file" in config or _IDENTITY in os.environ
    role = None if has_identity else config.pop("role_arn", None)
    if settings.profile is None and role is None:
        return {}
    what = "role" if settings.profile is None else f"profile {settings.profile!r}"
    try:
        import boto3
        from botocore.exceptions import BotoCoreError, ProfileNotFound
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError as error:
        raise MissingDependencyError(f"the AWS {what} needs boto3", hint="pip install boto3") from error
    try:
        session = boto3.session.Session(
            profile_name=settings.profile,
            aws_access_key_id=config.get("access_key_id"),
            aws_secret_access_key=config.get("secret_access_key"),
            aws_session_token=config.get("session_token"),
            # boto3 itself reads AWS_DEFAULT_REGION alone.
            region_name=config.get("region") or os.environ.get("AWS_REGION") or None,
        )
        provider = Boto3CredentialProvider(session) if role is None else _Role(session, role, config)
    except ProfileNotFound as error:
        raise not_taken(settings.spelled["profile"], "profile", settings.profile) from error
    except (BotoCoreError, ValueError) as error:
        raise AuthenticationError(
            f"the AWS {what} gives no credentials: {first_line(error)}",
            hint="check the shared AWS files",
        ) from error
    if session.region_name:
        config.setdefault("region", session.region_name)
    return {"credential_provider": provider}


class _Role:
    """Takes on a role, as often as the credentials of it expire."""

    def __init__(self, session: Any, role: str, config: dict[str, Any]) -> None:
        self._session = session
        self._asked = {"RoleArn": role, "RoleSessionName": config.pop("role_session_name", "deltaberg")}
        self._endpoint = config.pop("sts_endpoint", None)
        for name in ("access_key_id", "secret_access_key", "session_token"):
            config.pop(name, None)

    def __call__(self) -> dict[str, Any]:
        credentials = self._session.client("sts", endpoint_url=self._endpoint).assume_role(**self._asked)["Credentials"]
        return {
            "access_key_id": credentials["AccessKeyId"],
            "secret_access_key": credentials["SecretAccessKey"],
            "token": credentials["SessionToken"],
            "expires_at": credentials["Expiration"].astimezone(timezone.utc),
        }


def _refused_option(location: Location, settings: StoreConfig) -> str | None:
    """Return the option without which a client can be made; None if there is no such option.

    obstore does not say which option it refuses.
    """
    names = (*settings.config, *settings.client)
    for name in names:
        with suppress(Exception):
            _client(location, settings.without(name), repeat=True)
            return name
    # Several are refused, of which one is named. Without the name of the account, all others are in vain.
    for order in (names, names[::-1]):
        left = settings
        for name in order:
            left = left.without(name)
            with suppress(Exception):
                _client(location, left, repeat=True)
                return name
    return None


def _quotes_secret(settings: StoreConfig, error: Exception) -> bool:
    """Return whether obstore quotes a value that no message may show, as it is or escaped."""
    said = str(error)
    plain = said.replace("\\", "")
    values = (
        value if isinstance(value, str) else str(value)
        for name, value in (*settings.config.items(), *settings.client.items())
        if not is_shown(name, value)
    )
    return any(value in said or json.dumps(value)[1:-1].replace("\\", "") in plain for value in values if value)


def memory_store(name: str) -> Any:
    """Return the store in memory of this name; it is created on first use and lives as long as the process."""
    from obstore.store import MemoryStore

    return _memory_stores.setdefault(name, MemoryStore())
