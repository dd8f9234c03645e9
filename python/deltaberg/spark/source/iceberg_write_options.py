"""The options of ``frame.write.format("iceberg")``, as iceberg-spark spells them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import pyarrow as pa

from deltaberg.errors import InvalidArgumentError, SchemaError, in_words
from deltaberg.iceberg.place import IcebergPlace
from deltaberg.iceberg.staged_write import StagedWrite, stage_write
from deltaberg.spark.source.options import FEWER_TASKS, IN_CATALOG, WriteOptions, in_shared_store
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.open.opening import OpenOptions
from deltaberg.table.rows.row_options import RowOptions
from deltaberg.table.transaction.write_request import WriteRequest

__all__ = ["IcebergWriteOptions"]

_FORMATS = ("parquet", "orc", "avro")
_ANY_MOVE = (
    "Spark lets no Python source move rows between tasks: repartition the frame, or use append of an IcebergTable"
)
#: Options that ask for what is done anyway, the values that do, and what to do instead of the others.
_AS_IT_IS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "fanout-enabled": (("true", "false"), "leave it out"),
    "distribution-mode": (("none",), _ANY_MOVE),
    "check-nullability": (("true",), "nulls in columns that must not be null are always refused"),
    "check-ordering": (("false",), "columns are found by name, in any order"),
    # With "snapshot", iceberg-spark also replaces the rows that others have appended meanwhile.
    "isolation-level": (
        ("serializable",),
        "an overwrite fails if others append rows meanwhile that it would have to replace: repeat it then",
    ),
    # These writes hide no rows.
    "delete-granularity": (("file", "partition"), "leave it out"),
}
_REPLACING = 'deltaberg.open_table(path).overwrite(frame, schema_mode="overwrite")'
#: Options of iceberg-spark that are not obeyed, and what to do instead.
_REFUSED: Mapping[str, str] = {
    "output-spec-id": "rows go to the newest partitioning, which alter().partition_by() sets",
    "validate-from-snapshot-id": "overwrites are checked against what is committed after they were planned",
    "use-table-distribution-and-ordering": f"{_ANY_MOVE}; the rows of each file are sorted by the order of the table",
    "advisory-partition-size": _ANY_MOVE,
    "shred-variants": "leave it out",
    "rewritten-file-scan-task-set-id": "write compacted files by compact() of an IcebergTable",
}


class IcebergWriteOptions(WriteOptions):
    """The options of writing an Iceberg table."""

    format = "iceberg"
    own = (
        "merge-schema",
        "mergeSchema",
        "write-format",
        "target-file-size-bytes",
        "compression-codec",
        "compression-level",
        "compression-strategy",
        *_AS_IT_IS,
        *_REFUSED,
        IN_CATALOG,
    )
    overwrite_mode = "overwrite-mode"
    others: ClassVar[Mapping[str, str]] = {
        "optimizewrite": FEWER_TASKS,
        "withschemaevolution": "use merge-schema",
        "overwriteschema": f"use {_REPLACING}",
        "replacewhere": 'use deltaberg.open_table(path).overwrite(frame, where="…")',
        "partitionoverwritemode": "use overwrite-mode",
        "compression": "use compression-codec",
    }

    def _request(self, request: WriteRequest) -> WriteRequest:
        for name, (words, hint) in _AS_IT_IS.items():
            self._chosen(name, words, hint)
        for name, hint in _REFUSED.items():
            if name in self._options:
                raise InvalidArgumentError(f'format("iceberg") does not obey the option {name}', hint=hint)
        self._exclude("merge-schema", "mergeSchema")
        merges = self._flag("merge-schema") or self._flag("mergeSchema")
        size = self._integer("target-file-size-bytes") if "target-file-size-bytes" in self._options else None
        rows = RowOptions("merge" if merges else None, target_file_size=size)
        return replace(request, rows=rows, write_properties=self._properties())

    def store(self) -> StoreSpec:
        """Return what opens the stores of the table, which may be what its catalog gives for a while."""
        named = self._named()
        return super().store() if named is None else named.load().store

    def _place(self) -> IcebergPlace:
        named = self._named()
        if named is None:
            found: IcebergPlace = super()._place()
            return found
        return IcebergPlace(named, in_shared_store(named.location()), OpenOptions())

    def _stage(self, place: IcebergPlace, columns: pa.Schema, request: WriteRequest) -> StagedWrite:
        try:
            return stage_write(place.pointer, place.location, columns, request)
        except SchemaError as error:
            # As in iceberg-spark, no option replaces columns.
            in_words(error, {'schema_mode="overwrite"': _REPLACING}.get)
            raise

    def _properties(self) -> dict[str, str]:
        """Return the properties of the table that the options override for this write."""
        properties = {}
        form = self._chosen("write-format", _FORMATS)
        if form is not None:
            properties["write.format.default"] = form
        if "compression-strategy" in self._options:
            properties["write.orc.compression-strategy"] = self._options["compression-strategy"]
        for name in ("compression-codec", "compression-level"):
            if name in self._options:
                properties.update({f"write.{each}.{name}": self._options[name] for each in _FORMATS})
        return properties
