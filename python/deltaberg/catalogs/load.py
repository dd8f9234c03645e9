"""Loading a catalog by its properties."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deltaberg.catalogs.base import Catalog
from deltaberg.catalogs.config import catalog_properties
from deltaberg.catalogs.filesystem import FilesystemCatalog
from deltaberg.catalogs.sql.sql_engine import open_engine
from deltaberg.errors import InvalidArgumentError, UnsupportedFeatureError
from deltaberg.hints import shown_value, verbatim
from deltaberg.signatures import public
from deltaberg.storage.options.options import is_store_option

__all__ = ["load_catalog"]

_BY_SCHEME = {
    "http": "rest",
    "https": "rest",
    **dict.fromkeys(("sqlite", "postgresql", "postgres", "mysql", "mariadb"), "sql"),
    "thrift": "hive",
}
_BY_LOCATION = "open the table by its location, without a catalog"
#: Types of other libraries that are not supported here, and what can be done instead.
_REFUSED = {
    "glue": "Glue has a REST endpoint, but requires signed requests, which are not supported",
    "hive": "put a REST catalog in front of the Hive metastore",
    "dynamodb": _BY_LOCATION,
    "unity": "Unity Catalog has a REST endpoint, which is a catalog of the type rest⟦: pass ⟪type='rest'⟫ and ⟪uri⟫⟧",
    "bigquery": _BY_LOCATION,
    "in-memory": "use a catalog of the type sql in an SQLite file⟦: pass ⟪type='sql'⟫ and ⟪uri⟫⟧",
}


@public
def load_catalog(name: str | None = None, **properties: Any) -> Catalog:
    """Return a catalog, from which tables can be loaded.

    Parameters
    ----------
    name
        The name of the catalog, by which its configuration is found. A SQL catalog also has it in its rows. By default,
        the default catalog of the configuration.
    **properties
        As pyiceberg spells them. They take precedence over the environment variables
        ``PYICEBERG_CATALOG__<NAME>__<KEY>``, and those over the file ``.pyiceberg.yaml``. ``type`` is ``rest``,
        ``sql``, or ``hadoop`` (or ``filesystem``, which is the same). If it is missing, ``uri`` tells the type.
        Options of stores, such as ``s3.endpoint``, are passed on to them.

    Raises
    ------
    InvalidArgumentError
        If a property is missing, or has a value that is not valid.
    UnsupportedFeatureError
        If the type of catalog is known, but not supported.
    MissingDependencyError
        If a package that the type of catalog needs is not installed.

    Examples
    --------
    >>> import os
    >>> warehouse, name = os.path.split(iceberg_path)
    >>> catalog = load_catalog("local", type="hadoop", warehouse=warehouse)
    >>> catalog.load_table(name).scan(columns=["name"], limit=1).to_arrow().to_pylist()
    [{'name': 'a'}]
    """
    if name is not None and not isinstance(name, str):
        raise InvalidArgumentError(
            f"the name of a catalog is of type {type(name).__name__}", hint="pass a string, and properties by keyword"
        )
    if name is not None and "://" in name:
        # It is not shown: addresses can hold passwords.
        raise InvalidArgumentError(
            "the name of a catalog is an address",
            hint="choose a name, and configure the address as its uri⟦, or pass it as ⟪uri⟫⟧",
        )
    name, settings = catalog_properties(name, properties)
    kind = _kind(name, settings)
    _check_address(name, kind, settings)
    store = {key: value for key, value in settings.items() if is_store_option(key)}
    if kind in ("hadoop", "filesystem"):
        return FilesystemCatalog(name, _required(name, settings, "warehouse"), store)
    if kind == "sql":
        engine = open_engine(_required(name, settings, "uri"))
        from deltaberg.catalogs.sql_catalog import SqlCatalog

        return SqlCatalog(name, engine, store, settings.get("warehouse"))
    if kind == "rest":
        _required(name, settings, "uri")
        from deltaberg.catalogs.rest_catalog import RestCatalog

        return RestCatalog(name, settings)
    if kind in _REFUSED:
        raise UnsupportedFeatureError(
            f"catalogs of type {kind} are not supported", hint=_REFUSED[kind], catalog=name, feature=kind
        )
    raise InvalidArgumentError(
        f"there is no catalog type {shown_value(kind)}", hint="known are rest, sql, hadoop and filesystem", catalog=name
    )


def _kind(name: str, properties: Mapping[str, str]) -> str:
    if "py-catalog-impl" in properties or "catalog-impl" in properties:
        raise UnsupportedFeatureError("classes of other packages cannot be used as catalogs", catalog=name)
    if "type" in properties:
        return properties["type"].lower()
    kind = _kind_of_address(properties.get("uri", ""))
    if kind is not None:
        return kind
    misplaced = _kind_of_address(properties.get("warehouse", ""))
    if misplaced is not None:
        raise _misplaced(name, misplaced)
    raise InvalidArgumentError(
        f"the type of the catalog {name!r} is not known",
        hint="⟦pass ⟪type⟫ and ⟪uri⟫, or ⟧configure its type and uri in .pyiceberg.yaml or as "
        f"PYICEBERG_CATALOG__{verbatim(name.upper())}__URI",
    )


def _kind_of_address(text: str) -> str | None:
    scheme, separator, _ = text.partition(":")
    return _BY_SCHEME.get(scheme.partition("+")[0].lower()) if separator else None


def _check_address(name: str, kind: str, properties: Mapping[str, str]) -> None:
    """Refuse an address that belongs to another type of catalog, or to another property."""
    if kind in ("hadoop", "filesystem"):
        misplaced = _kind_of_address(properties.get("warehouse", ""))
        if misplaced is not None:
            raise _misplaced(name, misplaced)
    found = _kind_of_address(properties.get("uri", ""))
    if kind in ("rest", "sql") and found is not None and found != kind:
        raise InvalidArgumentError(
            f"the property uri is the address of a catalog of type {found}, not {kind}",
            hint=f"⟦pass ⟪type={found!r}⟫, or ⟧leave type out",
            catalog=name,
        )


def _misplaced(name: str, kind: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"the property warehouse is the address of a catalog of type {kind}",
        hint=f"it is the uri of a catalog⟦: pass it as ⟪uri⟫, with ⟪type={kind!r}⟫⟧; a warehouse is a directory or a"
        " bucket",
        catalog=name,
    )


def _required(name: str, properties: Mapping[str, str], key: str) -> str:
    setting = properties.get(key)
    if not setting:
        raise InvalidArgumentError(
            f"the catalog has no property {key}",
            hint=f"⟦pass ⟪{key}⟫, or ⟧configure it in .pyiceberg.yaml or the environment",
            catalog=name,
        )
    return setting
