"""Which writer rows would take, without writing them: this process or Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.write.sources import LOCAL_ROAD, WriteRoad, open_rows
from deltaberg.table.write.spec import WriteSpec

__all__ = ["AskedRows"]


class AskedRows:
    """Rows that note the road which they would take, in place of being written."""

    def __init__(self, data: Any) -> None:
        self._rows = open_rows(data)
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
