"""Facts about the table in the protocol and metadata of a version: columns, partitioning, features, properties."""

from __future__ import annotations

from functools import cached_property

from deltaberg.delta.actions.table_actions import Metadata, Protocol
from deltaberg.delta.features import active_features
from deltaberg.delta.log.directory import LogDirectory
from deltaberg.delta.schema.column_mapping import mapping_mode
from deltaberg.delta.schema.schema import parse_schema
from deltaberg.errors import CorruptLogError, SchemaError, in_context
from deltaberg.schema.types import Field, Struct

__all__ = ["TableConfiguration"]


class TableConfiguration:
    """The columns, features and properties of a version."""

    log: LogDirectory
    version: int
    protocol: Protocol
    metadata: Metadata

    @cached_property
    def mapping_mode(self) -> str:
        """The way in which columns are found in files: ``none`` (by name), ``name`` (by physical name) or ``id``.

        Raises
        ------
        CorruptLogError
            If the property is none of these.
        """
        return mapping_mode(self.protocol, self.metadata.configuration)

    @cached_property
    def active_features(self) -> frozenset[str]:
        """The supported features that the metadata makes use of."""
        return active_features(self.protocol, self.metadata.configuration)

    @cached_property
    def schema(self) -> Struct:
        """The columns of the table.

        Raises
        ------
        CorruptLogError
            If the schema is missing or is not what the protocol says.
        UnsupportedFeatureError
            If a column has an unknown type.
        """
        text = self.metadata.schema_string
        if text is None:
            raise CorruptLogError(
                "metaData has no schemaString, which the protocol requires",
                table=str(self.log.root),
                version=self.version,
            )
        with in_context(table=str(self.log.root), version=self.version):
            return parse_schema(text, self.mapping_mode)

    @cached_property
    def partition_fields(self) -> tuple[Field, ...]:
        """The partition columns, in the order of the metadata."""
        fields = []
        for name in self.metadata.partition_columns:
            field = self.schema.get(name)
            if field is None:
                matches = [known for known in self.schema if known.name.lower() == name.lower()]
                if len(matches) != 1:
                    raise SchemaError(
                        f"the partition column {name!r} is not in the schema", table=str(self.log.root), column=name
                    )
                field = matches[0]
            fields.append(field)
        return tuple(fields)

    def is_enabled(self, name: str) -> bool:
        """Return whether a table property is ``true``."""
        return self.metadata.is_enabled(name)
