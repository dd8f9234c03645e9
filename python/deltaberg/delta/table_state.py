"""What a version of a Delta table says of the table as a whole: its protocol and its metadata, understood."""

from __future__ import annotations

from functools import cached_property

from deltaberg.delta.actions import Metadata, Protocol
from deltaberg.delta.features import ACTIVATING_PROPERTIES, reads_column_mapping, supported_features
from deltaberg.delta.schema import parse_schema
from deltaberg.delta.segment import LogDirectory
from deltaberg.errors import CorruptLogError, DeltabergError, SchemaError
from deltaberg.schema import Field, Struct

__all__ = ["TableState"]

_MAPPING_MODE = "delta.columnMapping.mode"
_MAPPING_MODES = ("none", "name", "id")


class TableState:
    """The columns, features and properties of a version."""

    log: LogDirectory
    version: int
    protocol: Protocol
    metadata: Metadata

    def check_mapping_mode(self) -> None:
        """Refuse a mode of column mapping that the protocol does not know."""
        if self.mapping_mode not in _MAPPING_MODES:
            raise CorruptLogError(f"{_MAPPING_MODE} is {self.mapping_mode!r}; none, name and id are known")

    @cached_property
    def mapping_mode(self) -> str:
        """How columns of files are found: ``none`` (by name), ``name`` (by physical name) or ``id``."""
        if not reads_column_mapping(self.protocol):
            return "none"
        return self.metadata.configuration.get(_MAPPING_MODE, "none")

    @cached_property
    def active_features(self) -> frozenset[str]:
        """The features that are supported, and that the metadata makes use of."""
        return frozenset(name for name in supported_features(self.protocol) if self._uses(name))

    def _uses(self, feature: str) -> bool:
        if feature == "columnMapping":
            return self.mapping_mode != "none"
        switch = ACTIVATING_PROPERTIES.get(feature)
        return switch is None or self.is_enabled(switch)

    @cached_property
    def schema(self) -> Struct:
        """The columns of the table."""
        text = self.metadata.schema_string
        if text is None:
            raise CorruptLogError(
                "metaData has no schemaString, which the protocol requires",
                table=str(self.log.root),
                version=self.version,
            )
        try:
            return parse_schema(text, self.mapping_mode)
        except DeltabergError as error:
            raise error.with_context(table=str(self.log.root), version=self.version) from None

    @cached_property
    def partition_fields(self) -> tuple[Field, ...]:
        """The columns by which the table is partitioned, in their order."""
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
        """Say whether a property is ``true``."""
        return self.metadata.configuration.get(name, "").strip().lower() == "true"
