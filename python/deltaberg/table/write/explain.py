"""The road of a write, named beforehand and without writing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import pyarrow as pa

from deltaberg.storage import Location, StoreSpec
from deltaberg.table.write.rows import LOCAL_ROAD, Rows, WriteRoad, open_rows
from deltaberg.table.write.spec import WriteSpec

__all__ = ["ExplainedTable"]


class _AskedRows:
    """Rows that note the road which they would take, in place of being written."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self.found = LOCAL_ROAD

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return self._rows.schema

    def road(self, spec: WriteSpec, root: Location) -> WriteRoad:
        """Return the road that the rows would take."""
        self.found = self._rows.road(spec, root)
        return self.found

    def write(self, spec: WriteSpec, store: StoreSpec, root: Location) -> pa.Table:
        """Check that the columns fit those of the table, and return no file."""
        spec.conformer(self.schema)
        return spec.no_files()


class ExplainedTable(ABC):
    """A table that says how rows would come into its files."""

    @abstractmethod
    def transaction(self, *, unsafe_single_writer: bool = False) -> Any:
        """Begin a transaction on this version of the table."""

    def explain_append(self, data: Any, **options: Any) -> WriteRoad:
        """Return the road that the rows of an append would take to data files, without writing anything.

        It is the one that ``road`` and ``why_not_native`` of the result of `append` name. On Spark the table, its
        columns and the arguments decide it, so that no job is started. An overwrite of all rows that keeps the columns
        takes the same road.

        Parameters
        ----------
        data
            The rows, as for `append`. Only their columns are looked at, but an iterator loses its first batch.
        **options
            The other arguments of `append` of a transaction, such as ``schema_mode`` and ``compression``.

        Returns
        -------
        WriteRoad
            ``name`` is ``local``, or for a Spark DataFrame ``native``, ``arrow`` or ``fused``. ``why_not_native`` says
            why Spark's own writer would not write the rows of a DataFrame.

        Raises
        ------
        SchemaError
            The rows do not fit the columns. The other errors are those of `append`, but for those of its commit.

        Examples
        --------
        >>> import pyarrow as pa
        >>> table.explain_append(pa.table({"id": [4], "name": ["d"]})).name
        'local'

        With rows of Spark::

            table.explain_append(spark.table("orders")).why_not_native
        """
        rows = _AskedRows(open_rows(data))
        # Nothing is put, so that the store need not be probed, which would write an object.
        transaction = self.transaction(unsafe_single_writer=True)
        try:
            transaction.append(rows, **options)
        finally:
            transaction.abort()
        return rows.found
