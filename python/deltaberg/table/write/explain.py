"""The road of a write, named beforehand and without writing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from deltaberg.errors import ArgumentNameError
from deltaberg.signatures import public

if TYPE_CHECKING:
    from deltaberg.table.write.rows import WriteRoad

__all__ = ["ExplainedTable"]


@public
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
        from deltaberg.table.write.asked_rows import AskedRows

        rows = AskedRows(data)
        # Nothing is put, so that the store need not be probed, which would write an object.
        transaction = self.transaction(unsafe_single_writer=True)
        try:
            transaction.append(rows, **options)
        except ArgumentNameError as error:
            message = error.message.replace("append()", "explain_append()", 1)
            raise ArgumentNameError(message, hint=error.hint) from None
        finally:
            transaction.abort()
        return rows.found
