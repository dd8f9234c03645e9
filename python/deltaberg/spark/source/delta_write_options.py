"""The options of ``frame.write.format("delta")``, as delta-spark spells them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pyarrow as pa

from deltaberg.api.place import place_to_write
from deltaberg.delta.operations.create import log_of
from deltaberg.delta.operations.rows import RowOptions
from deltaberg.delta.operations.staged_write import StagedWrite, WriteRequest, stage_write
from deltaberg.errors import InvalidArgumentError
from deltaberg.spark.source.options import WriteOptions
from deltaberg.storage import parse_location
from deltaberg.table import OpenOptions

__all__ = ["DeltaWriteOptions"]


class DeltaWriteOptions(WriteOptions):
    """The options of writing a Delta table."""

    format = "delta"
    own = (
        "mergeSchema",
        "overwriteSchema",
        "replaceWhere",
        "partitionOverwriteMode",
        "partitionBy",
        "txnAppId",
        "txnVersion",
        "userMetadata",
        "compression",
    )
    others: ClassVar[Mapping[str, str]] = {
        "overwrite-mode": "use partitionOverwriteMode",
        "compression-codec": "use compression",
        "branch": "a Delta table has no branches",
        "clusterby": "create the table by deltaberg.create_table with cluster_by, and append to it",
    }

    def stage(self, columns: pa.Schema, *, overwrite: bool) -> StagedWrite:
        """Plan the write of rows with these columns."""
        path = self._path_to_write()
        # It refuses a place where there is a table of the other format.
        options = OpenOptions(storage_options=self._store)
        root = parse_location(place_to_write(path, "delta", None, options).location)
        request = WriteRequest(
            overwrite,
            RowOptions(schema_mode=self._schema_mode(overwrite), compression=self._options.get("compression")),
            where=self._options.get("replacewhere") or None,
            dynamic=self._chosen("partitionOverwriteMode", ("static", "dynamic")) == "dynamic",
            needs_partitions=False,
            partition_by=self._partition_by(),
            txn=self._txn(),
            user_metadata=self._options.get("usermetadata"),
            timezone=self._timezone,
        )
        self._check_overwrite(overwrite, "replaceWhere", "partitionOverwriteMode")
        return stage_write(log_of(root, options), columns, request)

    def _schema_mode(self, overwrite: bool) -> str | None:
        self._exclude("mergeSchema", "overwriteSchema")
        if self._flag("overwriteSchema"):
            if not overwrite:
                raise InvalidArgumentError(
                    "the option overwriteSchema applies only to overwrites",
                    hint='use mode("overwrite"), or mergeSchema',
                )
            return "overwrite"
        return "merge" if self._flag("mergeSchema") else None

    def _txn(self) -> tuple[str, int] | None:
        name = self._options.get("txnappid")
        if (name is None) != ("txnversion" not in self._options):
            raise InvalidArgumentError("the options txnAppId and txnVersion need each other")
        return None if name is None else (name, self._integer("txnVersion"))
