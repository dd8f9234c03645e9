"""The verb that keeps a table of any format in order."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

from deltaberg.signatures import public
from deltaberg.table.arguments import checked_flag, checked_kind
from deltaberg.table.open.opening import OpenOptions

if TYPE_CHECKING:
    from deltaberg.choices import MaintenanceStep
    from deltaberg.table.maintain.maintenance import MaintenancePolicy, MaintenanceResult, Step

__all__ = ["MaintainedTable"]


@public
class MaintainedTable:
    """A table that can be maintained."""

    _options: OpenOptions

    @property
    @abstractmethod
    def location(self) -> str:
        """Where the table is."""

    @abstractmethod
    def _maintenance(self, policy: MaintenancePolicy) -> Mapping[MaintenanceStep, Step]:
        """Return the steps that tables of the format have, in the safe order."""

    def maintain(self, policy: MaintenancePolicy | None = None, *, dry_run: bool = True) -> MaintenanceResult:
        """Do what the table needs to stay in order, or find out what that is: step by step, in the safe order.

        ``compact`` puts small files together and drops deleted rows, as `compact` does. A clustered table is clustered;
        there, what was clustered before is written anew only if new files add at least half of its bytes to it.
        An Iceberg table has five more steps: ``convert_equality_deletes`` before that,
        ``rewrite_position_delete_files`` after it, ``rewrite_manifests`` that are small or cover the same partitions,
        ``expire_snapshots`` as its properties say, and ``remove_orphan_files`` that are more than three days old. A
        Delta table has three more: ``vacuum`` deletes files that no version within the retention needs, ``checkpoint``
        writes one after enough commits, and ``cleanup_metadata`` deletes entries of the log that are older than their
        retention, unless ``delta.enableExpiredLogCleanup`` is false.

        What is in order already is left alone, so that a second run makes no commit. A run that was interrupted can be
        repeated.

        Parameters
        ----------
        policy
            Which steps are taken, and from when on they are due.
        dry_run
            Only find out. Pass False to do it.

        Returns
        -------
        MaintenanceResult
            What became of each step, in numbers.

        Raises
        ------
        InvalidArgumentError
            The table was opened at a version, a snapshot, a timestamp or a tag.
        UnsupportedFeatureError
            Tables of the format have no such step, or the table needs what is not written.
        DeltabergError
            A step failed as its verb does. Those before it are done, as the fact ``maintained`` says.

        Examples
        --------
        >>> import deltaberg
        >>> import pyarrow as pa
        >>> for number in range(4, 10):
        ...     _ = table.append(pa.table({"id": [number], "name": ["x"]}))
        >>> table.maintain()["compact"].numbers["added_files"]
        1
        >>> done = table.maintain(deltaberg.MaintenancePolicy(max_deleted=0.2), dry_run=False)
        >>> done.is_due, table.maintain().is_due
        (True, False)
        """
        from deltaberg.table.maintain.maintenance import MaintenancePolicy, maintain_table

        chosen = MaintenancePolicy() if policy is None else policy
        checked_kind("policy", chosen, MaintenancePolicy, "pass a MaintenancePolicy")
        checked_flag("dry_run", dry_run)
        self._options.require_newest()
        return maintain_table(self._maintenance(chosen), chosen, dry_run=dry_run)
