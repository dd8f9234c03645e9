"""The options of ``frame.write.format("delta")``, as delta-spark spells them."""

from __future__ import annotations

import json

import pyarrow as pa

from deltaberg.delta.operations.create import log_of
from deltaberg.delta.operations.rows import RowOptions
from deltaberg.delta.operations.staged_write import StagedWrite, WriteRequest, stage_write
from deltaberg.errors import InvalidArgumentError
from deltaberg.spark.source.options import SourceOptions
from deltaberg.storage import parse_location
from deltaberg.table import OpenOptions

__all__ = ["DeltaWriteOptions"]

_OVERWRITE_MODES = {"static": False, "dynamic": True}


class DeltaWriteOptions(SourceOptions):
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

    def stage(self, columns: pa.Schema, *, overwrite: bool) -> StagedWrite:
        """Plan the write of rows with these columns."""
        path = self._path()
        root = parse_location(path)
        if root.scheme == "memory":
            raise InvalidArgumentError(
                "a table in memory exists only in one process", hint="write where the executors can write", table=path
            )
        request = WriteRequest(
            overwrite,
            RowOptions(schema_mode=self._schema_mode(overwrite), compression=self._options.get("compression")),
            where=self._options.get("replacewhere") or None,
            dynamic=self._dynamic(),
            partition_by=self._partition_by(),
            txn=self._txn(),
            user_metadata=self._options.get("usermetadata"),
            timezone=self._timezone,
        )
        self._check_overwrite(request)
        return stage_write(log_of(root, OpenOptions(storage_options=self._store)), columns, request)

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

    def _dynamic(self) -> bool:
        text = self._options.get("partitionoverwritemode", "static").strip().lower()
        if text not in _OVERWRITE_MODES:
            raise InvalidArgumentError(
                f"the option partitionOverwriteMode must be static or dynamic, not {text!r:.200}"
            )
        return _OVERWRITE_MODES[text]

    def _partition_by(self) -> tuple[str, ...] | None:
        text = self._options.get("partitionby")
        if text is None:
            return None
        if not text.lstrip().startswith("["):
            return tuple(name.strip() for name in text.split(",") if name.strip())
        try:
            names = json.loads(text)
        except (ValueError, RecursionError):
            names = None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise InvalidArgumentError(f"the option partitionBy must be a JSON list of names, not {text!r:.200}")
        return tuple(names)

    def _txn(self) -> tuple[str, int] | None:
        name = self._options.get("txnappid")
        if (name is None) != ("txnversion" not in self._options):
            raise InvalidArgumentError("the options txnAppId and txnVersion need each other")
        return None if name is None else (name, self._integer("txnVersion"))

    def _check_overwrite(self, request: WriteRequest) -> None:
        if request.overwrite:
            return
        for name in ("replaceWhere", "partitionOverwriteMode"):
            if name.lower() in self._options:
                raise InvalidArgumentError(
                    f"the option {name} applies only to overwrites", hint='use mode("overwrite")'
                )
