"""The progress of applications, such as streams, so that no batch of rows is in a table twice.

The specification has no place for it. A property of the table holds the version that an application has come to: the
expiry of snapshots leaves it alone. The snapshot repeats it under the keys that streams of iceberg-spark look for.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote

from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.snapshot_refs import MAIN
from deltaberg.iceberg.metadata.snapshots import Snapshot
from deltaberg.iceberg.updates.updates import SetProperties
from deltaberg.table.property_values import number_of
from deltaberg.whole_numbers import whole_number

__all__ = ["ApplicationProgress"]

#: The property of a table, before the name of the application; for branches but main, before that of the branch.
_PROPERTY, _OF_BRANCH = "deltaberg.stream.", "deltaberg.stream-in-branch."
#: The keys of iceberg-spark in the summaries of snapshots.
_QUERY, _EPOCH = "spark.sql.streaming.queryId", "spark.sql.streaming.epochId"


class ApplicationProgress(NamedTuple):
    """An application, the version that it has come to, such as the id of a batch, and the branch that gets its rows."""

    application: str
    version: int
    branch: str = MAIN

    def is_recorded(self, metadata: TableMetadata, snapshot: Snapshot | None) -> bool:
        """Return whether the table has this version, or a later one.

        Parameters
        ----------
        snapshot
            The newest snapshot of the branch that gets the rows. It and those before it may be of iceberg-spark, which
            records the batches of a stream in summaries alone.

        Raises
        ------
        InvalidArgumentError
            The property of the application is no number.
        """
        if number_of(metadata.properties, self._property, -1, -1) >= self.version:
            return True
        for found in () if snapshot is None else metadata.ancestors(snapshot):
            if (found.summary or {}).get(_QUERY) == self.application:
                # The newest of a query has the greatest number.
                epoch = whole_number((found.summary or {}).get(_EPOCH, ""), 0)
                return epoch is not None and epoch >= self.version
        return False

    @property
    def update(self) -> SetProperties:
        """The change of the table that records it."""
        return SetProperties({self._property: str(self.version)})

    @property
    def summary(self) -> dict[str, str]:
        """What the summary of the snapshot says of it."""
        return {_QUERY: self.application, _EPOCH: str(self.version)}

    @property
    def _property(self) -> str:
        if self.branch == MAIN:
            return f"{_PROPERTY}{self.application}"
        # The same rows may go to several branches. Without escapes, other names could make the same property.
        return f"{_OF_BRANCH}{quote(self.branch, safe='')}:{self.application}"
