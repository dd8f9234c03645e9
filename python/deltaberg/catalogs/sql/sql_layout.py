"""The tables of a SQL catalog, as Java's JdbcCatalog and pyiceberg's SqlCatalog lay them out."""

from __future__ import annotations

import sqlalchemy as sa

__all__ = ["NAMESPACES", "TABLES", "make_layout"]

_NAME, _VALUE = sa.String(255), sa.String(1000)
_LAYOUT = sa.MetaData()

TABLES = sa.Table(
    "iceberg_tables",
    _LAYOUT,
    sa.Column("catalog_name", _NAME, primary_key=True),
    sa.Column("table_namespace", _NAME, primary_key=True),
    sa.Column("table_name", _NAME, primary_key=True),
    sa.Column("metadata_location", _VALUE),
    sa.Column("previous_metadata_location", _VALUE),
    # ``TABLE`` or ``VIEW``; databases of the older layout lack it.
    sa.Column("iceberg_type", sa.String(5)),
)
NAMESPACES = sa.Table(
    "iceberg_namespace_properties",
    _LAYOUT,
    sa.Column("catalog_name", _NAME, primary_key=True),
    sa.Column("namespace", _NAME, primary_key=True),
    sa.Column("property_key", _NAME, primary_key=True),
    sa.Column("property_value", _VALUE, nullable=False),
)


def make_layout(connection: sa.Connection) -> None:
    """Make the tables of the catalog that the database lacks."""
    _LAYOUT.create_all(connection)
    connection.commit()
