"""The options of ``frame.write.format("delta")``, as delta-spark spells them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import pyarrow as pa

from deltaberg.delta.place import DeltaPlace
from deltaberg.delta.staged_write import StagedWrite, stage_write
from deltaberg.errors import InvalidArgumentError
from deltaberg.spark.source.options import FEWER_TASKS, IN_CATALOG, NOT_IN_CATALOG, WriteOptions
from deltaberg.table.rows.row_options import RowOptions
from deltaberg.table.transaction.write_request import WriteRequest

__all__ = ["DeltaWriteOptions"]


class DeltaWriteOptions(WriteOptions):
    """The options of writing a Delta table."""

    format = "delta"
    own = ("mergeSchema", "overwriteSchema", "replaceWhere", "compression")
    overwrite_mode = "partitionOverwriteMode"
    others: ClassVar[Mapping[str, str]] = {
        "optimizewrite": FEWER_TASKS,
        "withschemaevolution": "use mergeSchema",
        "overwrite-mode": "use partitionOverwriteMode",
        "compression-codec": "use compression",
        IN_CATALOG: NOT_IN_CATALOG,
        "clusterby": "create the table by deltaberg.create_table with cluster_by, and append to it",
    }

    def _request(self, request: WriteRequest) -> WriteRequest:
        self._check_overwrite(request.overwrite, "replaceWhere")
        mode = self._schema_mode(request.overwrite)
        rows = RowOptions(schema_mode=mode, compression=self._options.get("compression"))
        return replace(request, rows=rows, where=self._options.get("replacewhere") or None)

    def _stage(self, place: DeltaPlace, columns: pa.Schema, request: WriteRequest) -> StagedWrite:
        return stage_write(place.log, columns, request)

    def _schema_mode(self, overwrite: bool) -> str | None:
        self._exclude("mergeSchema", "overwriteSchema")
        if self._flag("overwriteSchema"):
            if not overwrite:
                raise InvalidArgumentError(
                    "the option overwriteSchema applies only to overwrites",
                    hint='use mode("overwrite"), for a stream outputMode("complete"), or mergeSchema',
                )
            return "overwrite"
        return "merge" if self._flag("mergeSchema") else None
