"""Clients of obstore, made from what callers say about a store."""

from __future__ import annotations

from typing import Any

from deltaberg.errors import InvalidArgumentError, MissingDependencyError
from deltaberg.storage.location import Location
from deltaberg.storage.options import StoreConfig, StoreOptions, store_config

__all__ = ["memory_store", "open_client"]

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
    MissingDependencyError
        If a package is not installed that an option needs.
    """
    from obstore.store import AzureStore, GCSStore, S3Store

    settings = store_config(location.scheme, options)
    common: dict[str, Any] = {"config": settings.config}
    if settings.client:
        common["client_options"] = settings.client
    retries = settings.retry if repeat else {**settings.retry, "max_retries": 0}
    if retries:
        common["retry_config"] = retries
    if location.scheme == "memory":
        return memory_store(location.authority)
    if location.scheme == "s3":
        return S3Store(location.authority, **common, **_profile(settings))
    if location.scheme == "gs":
        return GCSStore(location.authority, **common)
    if location.scheme in ("az", "abfs"):
        container, at, host = location.authority.partition("@")
        if at:
            # Hadoop's form: container@account.host.
            settings.config.setdefault("account_name", host.partition(".")[0])
        return AzureStore(container, **common)
    raise InvalidArgumentError(f"there is no store for {location.scheme}://")


def _profile(settings: StoreConfig) -> dict[str, Any]:
    """Return credentials of a profile in the shared AWS files, which boto3 reads."""
    if settings.profile is None:
        return {}
    try:
        import boto3
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError as error:
        raise MissingDependencyError("an AWS profile needs boto3", hint="pip install boto3") from error
    session = boto3.session.Session(profile_name=settings.profile)
    if session.region_name and "region" not in settings.config:
        settings.config["region"] = session.region_name
    return {"credential_provider": Boto3CredentialProvider(session)}


def memory_store(name: str) -> Any:
    """Return the store in memory of this name; it is created on first use and lives as long as the process."""
    from obstore.store import MemoryStore

    return _memory_stores.setdefault(name, MemoryStore())
