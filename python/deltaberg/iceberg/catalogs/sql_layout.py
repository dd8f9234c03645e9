"""The tables of a SQL catalog, as Java's JdbcCatalog and pyiceberg's SqlCatalog lay them out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlalchemy as sa

__all__ = ["NAMESPACES", "TABLES", "make_layout", "namespace_properties"]

TABLES = "iceberg_tables"
NAMESPACES = "iceberg_namespace_properties"
_NAME = 255
_VALUE = 1000
#: ``TABLE`` or ``VIEW``.
_KIND = 5


def make_layout(connection: sa.Connection) -> None:
    """Make the tables of the catalog that the database lacks."""
    import sqlalchemy as sa

    layout = sa.MetaData()
    key: dict[str, Any] = {"primary_key": True, "nullable": False}
    sa.Table(
        TABLES,
        layout,
        sa.Column("catalog_name", sa.String(_NAME), **key),
        sa.Column("table_namespace", sa.String(_NAME), **key),
        sa.Column("table_name", sa.String(_NAME), **key),
        sa.Column("metadata_location", sa.String(_VALUE)),
        sa.Column("previous_metadata_location", sa.String(_VALUE)),
        sa.Column("iceberg_type", sa.String(_KIND)),
    )
    sa.Table(
        NAMESPACES,
        layout,
        sa.Column("catalog_name", sa.String(_NAME), **key),
        sa.Column("namespace", sa.String(_NAME), **key),
        sa.Column("property_key", sa.String(_NAME), **key),
        sa.Column("property_value", sa.String(_VALUE), nullable=False),
    )
    layout.create_all(connection)
    connection.commit()


def namespace_properties() -> sa.TableClause:
    """Return the table of the properties of namespaces."""
    import sqlalchemy as sa

    names = ("catalog_name", "namespace", "property_key", "property_value")
    return sa.table(NAMESPACES, *(sa.column(name) for name in names))
