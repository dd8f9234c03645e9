"""What all requests to a REST catalog share: its session, its configuration, its paths and the stores of its tables."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from deltaberg.catalogs.names import Levels
from deltaberg.catalogs.rest.session import RestSession, json_object, of_protocol, read_settings, session_of
from deltaberg.catalogs.rest.transport import Answer, same_origin
from deltaberg.catalogs.rest.vended import RestVendor, read_vended, server_config
from deltaberg.errors import CorruptMetadataError, NamespaceNotFoundError, TableNotFoundError, UnsafePathError
from deltaberg.iceberg.schema.json_members import optional, strings
from deltaberg.storage.options.options import is_store_option, option_name
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.property_values import number_of

__all__ = ["RestDoor"]

_CREDENTIALS = "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials"


class RestConfig(NamedTuple):
    """The configuration that the catalog returns first: where its paths begin, and what it supports."""

    root: str
    separator: str
    page_size: int | None
    endpoints: frozenset[str]
    stores: dict[str, str]
    takes_keys: bool


class RestDoor:
    """The way to a REST catalog.

    Parameters
    ----------
    name
        The name of the catalog, for messages.
    properties
        The properties of the catalog.

    Raises
    ------
    InvalidArgumentError
        A property has a value that is not valid.
    """

    def __init__(self, name: str, properties: Mapping[str, str]) -> None:
        self.name = name
        self.settings = read_settings(properties)
        self._properties = dict(properties)
        self._own = {key: value for key, value in properties.items() if is_store_option(key)}

    @property
    def session(self) -> RestSession:
        """The session of this process with the server."""
        return session_of(self.settings)

    @cached_property
    def config(self) -> RestConfig:
        """The answer of the server to ``/v1/config``."""
        warehouse = self._properties.get("warehouse")
        answer = self.session.get("v1/config", {"warehouse": warehouse} if warehouse else None)
        configuration = json_object(answer, "the configuration of the catalog")
        with of_protocol("v1/config"):
            defaults, overrides = (
                strings({part: _without_nulls(configuration.get(part))}, part, "the configuration")
                for part in ("defaults", "overrides")
            )
        if "uri" in overrides and not same_origin(overrides["uri"], self.settings.uri):
            raise UnsafePathError(
                f"the catalog redirects its clients to another server: {overrides['uri']:.200}",
                hint="pass that address as uri, if you trust it",
                catalog=self.name,
            )
        merged = {**defaults, **self._properties, **overrides}
        prefix = merged.get("prefix", "").strip("/")
        if ".." in prefix.split("/"):
            raise CorruptMetadataError("the prefix of the catalog's paths contains '..'", catalog=self.name)
        root = f"v1/{quote(prefix, safe='/%:@=,')}/" if prefix else "v1/"
        known = {option_name(scheme, key) for key in self._own for scheme in ("s3", "gs", "az")}
        stores = {
            key: value
            for key, value in server_config(defaults, "defaults").items()
            if not known & {option_name(scheme, key) for scheme in ("s3", "gs", "az")}
        }
        endpoints = optional(configuration, "endpoints", list, "the configuration") or []
        return RestConfig(
            root,
            unquote(merged.get("namespace-separator", "%1F")),
            number_of(merged, "rest-page-size", 0) or None,
            frozenset(entry for entry in endpoints if isinstance(entry, str)),
            {**stores, **server_config(overrides, "overrides")},
            bool(configuration.get("idempotency-key-lifetime")),
        )

    def joined(self, levels: Levels) -> str:
        """Return the text that stands for a namespace in queries."""
        return self.config.separator.join(levels)

    def namespace_path(self, levels: Levels) -> str:
        """Return the path of a namespace."""
        return f"{self.config.root}namespaces/{_part(self.joined(levels))}"

    def table_path(self, levels: Levels) -> str:
        """Return the path of a table."""
        return f"{self.namespace_path(levels[:-1])}/tables/{_part(levels[-1])}"

    def ask_for_table(self, levels: Levels, tag: str | None, query: Mapping[str, str] | None = None) -> Answer:
        """Request a table. With an entity tag, the answer may be that the table has not changed."""
        headers = {"If-None-Match": tag} if tag else None
        try:
            return self.session.get(self.table_path(levels), query, headers, missing=TableNotFoundError)
        except NamespaceNotFoundError as error:
            raise TableNotFoundError(error.message, **error.context) from None

    def store_of(self, levels: Levels, answer: Mapping[str, Any]) -> StoreSpec:
        """Return the description of the stores that hold a table."""
        config = self.config
        vended = read_vended(answer, config.stores)
        if not any(options for _, options in vended.by_prefix):
            return StoreSpec(self._own)
        path = self.table_path(levels)
        query: tuple[tuple[str, str], ...] = (("snapshots", "refs"),)
        if _CREDENTIALS in config.endpoints:
            path, query = f"{path}/credentials", ()
        own, shared = tuple(sorted(self._own.items())), tuple(sorted(config.stores.items()))
        return StoreSpec(self._own, RestVendor(self.settings, path, query, own, shared, vended))


def _without_nulls(values: Any) -> Any:
    return {name: value for name, value in values.items() if value is not None} if isinstance(values, dict) else values


def _part(name: str) -> str:
    """Return a name as one part of a path.

    Clients and proxies take dots alone for steps in the path: what drops a table named ``..`` would drop its namespace.
    """
    return name.replace(".", "%2E") if name in (".", "..") else quote(name, safe="")
