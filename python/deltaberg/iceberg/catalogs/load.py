"""Makes a catalog from its properties."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deltaberg.errors import InvalidArgumentError, UnsupportedFeatureError
from deltaberg.iceberg.catalogs.base import Catalog
from deltaberg.iceberg.catalogs.config import catalog_properties
from deltaberg.iceberg.catalogs.filesystem import FilesystemCatalog
from deltaberg.iceberg.catalogs.rest import RestCatalog
from deltaberg.iceberg.catalogs.sql import SqlCatalog
from deltaberg.storage import is_store_option

__all__ = ["load_catalog"]

_BY_SCHEME = {"http": "rest", "https": "rest", "sqlite": "sql", "postgresql": "sql", "thrift": "hive"}
#: What others know and this library does not have, with what can be done instead.
_REFUSED = {
    "glue": "Glue speaks the REST protocol too, but signs requests in a way that is not built",
    "hive": "a catalog of type rest can be put before a Hive metastore",
    "dynamodb": "open the table by its location with open_table",
    "unity": "Unity Catalog speaks the REST protocol too: type rest, with its address in uri",
    "bigquery": "open the table by its location with open_table",
    "in-memory": "use type sql with a file of SQLite in uri",
}


def load_catalog(name: str | None = None, **properties: Any) -> Catalog:
    """Make a catalog, to load tables from.

    Parameters
    ----------
    name
        The name of the catalog, which its configuration is found by; that of a SQL catalog stands in its rows. The
        default catalog of the configuration by default.
    **properties
        As pyiceberg spells them. They count before the environment variables ``PYICEBERG_CATALOG__<NAME>__<KEY>``, and
        those before the file ``.pyiceberg.yaml``. ``type`` is ``rest``, ``sql``, or ``hadoop`` (``filesystem`` means
        the same); it is found by ``uri`` where it is not given. Options of stores, as ``s3.endpoint``, are passed on.

    Raises
    ------
    InvalidArgumentError
        Where a property is missing or has a value that is not taken.
    UnsupportedFeatureError
        Where the type of catalog is known, but not built.
    MissingDependencyError
        Where a package is not installed that the type of catalog needs.

    Examples
    --------
    >>> import os
    >>> warehouse, name = os.path.split(iceberg_path)
    >>> catalog = load_catalog("local", type="hadoop", warehouse=warehouse)
    >>> catalog.load_table(name).scan(columns=["name"], limit=1).to_arrow().to_pylist()
    [{'name': 'a'}]
    """
    name, found = catalog_properties(name, properties)
    kind = _kind(name, found)
    store = {key: value for key, value in found.items() if is_store_option(key)}
    if kind in ("hadoop", "filesystem"):
        return FilesystemCatalog(name, _required(name, found, "warehouse"), store)
    if kind == "sql":
        return SqlCatalog(name, _required(name, found, "uri"), store)
    if kind == "rest":
        _required(name, found, "uri")
        return RestCatalog(name, found)
    if kind in _REFUSED:
        raise UnsupportedFeatureError(
            f"catalogs of type {kind} cannot be loaded yet", hint=_REFUSED[kind], catalog=name, feature=kind
        )
    raise InvalidArgumentError(
        f"there is no catalog type {kind!r}", hint="known are rest, sql, hadoop and filesystem", catalog=name
    )


def _kind(name: str, properties: Mapping[str, str]) -> str:
    if "py-catalog-impl" in properties or "catalog-impl" in properties:
        raise UnsupportedFeatureError("a catalog cannot be a class of other packages", catalog=name)
    if "type" in properties:
        return properties["type"].lower()
    scheme = properties.get("uri", "").partition(":")[0].partition("+")[0].lower()
    if scheme in _BY_SCHEME:
        return _BY_SCHEME[scheme]
    raise InvalidArgumentError(
        f"the type of catalog {name!r} is not known",
        hint=f"pass type and uri, or configure them in .pyiceberg.yaml or as PYICEBERG_CATALOG__{name.upper()}__URI",
    )


def _required(name: str, properties: Mapping[str, str], key: str) -> str:
    found = properties.get(key)
    if not found:
        raise InvalidArgumentError(
            f"the catalog has no property {key}",
            hint=f"pass {key}, or configure it in .pyiceberg.yaml or the environment",
            catalog=name,
        )
    return found
