"""Tables whose rows are looked for by others than this machine, before they are changed."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, TypeVar

from deltaberg.table.rewrite.match import RowSearch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SearchedTable"]

_Own = TypeVar("_Own", bound="SearchedTable")


class SearchedTable:
    """A table whose transactions look for rows by a `RowSearch`."""

    #: What reads the files of the table to find rows; None for this machine.
    _search: RowSearch | None = None

    def on_spark(self: _Own, spark: SparkSession) -> _Own:  # noqa: PYI019 - typing.Self is younger than Python 3.10
        """Return the table as one that has Spark's tasks look for the rows that `delete`, `update` and `merge` change.

        They do so where more than 2 GiB of the needed columns must be looked at; less is read here. Rows are written
        here in any case. The object that this is called on stays as it is.

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
        from deltaberg.spark import row_search

        found = copy.copy(self)
        found._search = row_search(spark)  # noqa: SLF001 - another object of this class
        return found
