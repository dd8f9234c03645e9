"""The rows of a table without a scan in between: all of them, the first ones, or how many there are."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deltaberg.signatures import public
from deltaberg.table.read.scan import Scan

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

__all__ = ["ReadableTable"]


@public
class ReadableTable:
    """What a table gives of its rows. `scan` of the table reads some of the rows and columns."""

    @abstractmethod
    def scan(self) -> Scan:
        """Return a scan of all rows and columns."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows through the Arrow PyCapsule interface: DuckDB, Polars and others take a table as it is."""
        return self.scan().__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pa.Table:
        """Return all rows as one Arrow table, as `Scan.to_arrow` does.

        Examples
        --------
        >>> table.to_arrow()["id"].to_pylist()
        [1, 2, 3]
        """
        return self.scan().to_arrow()

    def to_pandas(self, **options: Any) -> pd.DataFrame:
        """Return all rows as a pandas DataFrame; options and errors are those of `Scan.to_pandas`."""
        return self.scan().to_pandas(**options)

    def to_polars(self) -> pl.DataFrame:
        """Return all rows as a Polars DataFrame."""
        return self.scan().to_polars()

    def count(self) -> int:
        """Count the rows, by metadata where that is exact.

        Examples
        --------
        >>> table.count()
        3
        """
        return self.scan().count()

    def head(self, n: int = 5) -> pa.Table:
        """Return at most ``n`` rows as an Arrow table, as `Scan.head` does.

        Examples
        --------
        >>> table.head(2)["id"].to_pylist()
        [1, 2]
        """
        return self.scan().head(n)
