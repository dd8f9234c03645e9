"""Tables whose rows are looked for and changed by others than this machine."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, TypeVar

from deltaberg.signatures import public

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltaberg.table.rewrite.changed_rows import RowTasks

__all__ = ["SearchedTable"]

_Own = TypeVar("_Own", bound="SearchedTable")


@public
class SearchedTable:
    """A table whose transactions have rows looked for and changed by `RowTasks`."""

    #: What reads and writes files of the table to change rows; None for this machine.
    _row_tasks: RowTasks | None = None

    def on_spark(self: _Own, spark: SparkSession) -> _Own:  # noqa: PYI019 - typing.Self is younger than Python 3.10
        """Return the table as one that has Spark's tasks find and write the rows that an operation changes.

        They look for rows where more than 2 GiB of the needed columns must be looked at, and write the files that take
        the place of others where more than 2 GiB must be read for that; less is done here. Rows that a merge inserts
        are written here in any case. The object that this is called on stays as it is.

        Parameters
        ----------
        spark
            A session, either classic or of Spark Connect.

        Raises
        ------
        InvalidArgumentError
            The object is not a Spark session.

        Examples
        --------
        ::

            events = deltaberg.open_table("s3://bucket/events", "iceberg").on_spark(spark)
            events.delete("day < DATE '2020-01-01'")
            events.merge(updates, "target.id = source.id").when_matched_update_all().execute()
        """
        from deltaberg.spark import row_tasks

        found = copy.copy(self)
        found._row_tasks = row_tasks(spark)  # noqa: SLF001 - another object of this class
        return found
