"""The upgrade of a table to compatibility with Iceberg (Delta protocol, "IcebergCompatV1" and "IcebergCompatV2")."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from deltaberg.delta.alter.alter import Alteration, altered_snapshot
from deltaberg.delta.features import MAPPING_MODE
from deltaberg.delta.properties.protocols import features_of_properties, raised_protocol
from deltaberg.delta.schema.iceberg_compat import V1, V2
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.combinations import check_combinations
from deltaberg.table.maintain.compact_result import CompactedGroup, CompactResult
from deltaberg.table.maintain.purge import Purge

__all__ = ["CompatibilityUpgrade"]

_VECTORS = "delta.enableDeletionVectors"


@dataclass(frozen=True)
class CompatibilityUpgrade:
    """An upgrade to a version of the compatibility.

    No reader of the table may see deleted rows in between. So deletion vectors go before the feature comes, and the
    files that are left get what it asks of files after that. The next run goes on with one that was killed.

    Parameters
    ----------
    version
        1 or 2.
    newest
        What moves to the newest version, and returns it.
    alter
        What begins an alteration of the newest version.
    rewrite
        What writes files anew.
    """

    version: int
    newest: Callable[[], Snapshot]
    alter: Callable[[], Alteration]
    rewrite: Callable[[Purge], CompactResult]

    def run(self, *, dry_run: bool) -> CompactResult:
        """Upgrade the table, or say what that takes.

        Raises
        ------
        InvalidArgumentError
            The table cannot be compatible: a column has a type that the version lacks, and so on.
        CommitConflictError
            Another commit came first while a property was set.
        """
        table = self.newest()
        properties = self._properties(table)
        mapping = {name: value for name, value in properties.items() if name == MAPPING_MODE}
        mapped = altered_snapshot(self.alter().set(mapping))
        protocol = raised_protocol(features_of_properties(properties)[0], mapped.protocol)
        check_combinations(protocol, mapped.metadata.with_properties(properties), table)
        return CompactResult(tuple(self._groups(properties, dry_run=dry_run)), dry_run)

    def _groups(self, properties: dict[str, str], *, dry_run: bool) -> Iterator[CompactedGroup]:
        """Take the steps, and yield what became of each. After a conflict the rest is left."""
        off = {name: value for name, value in properties.items() if name == _VECTORS}
        yield from self._set(off, dry_run=dry_run)
        purged = self.rewrite("deletes").groups
        yield from purged
        if any(group.conflict for group in purged):
            return
        yield from self._set({name: value for name, value in properties.items() if name not in off}, dry_run=dry_run)
        if self.version > 1:
            yield from self.rewrite("compatibility").groups

    def _properties(self, table: Snapshot) -> dict[str, str]:
        """Return the properties that the table lacks."""
        own, other = (V1, V2) if self.version == 1 else (V2, V1)
        properties = {}
        if "deletionVectors" in table.active_features:
            properties[_VECTORS] = "false"
        if other in table.active_features:
            properties[_property(other)] = "false"
        if own not in table.active_features:
            properties[_property(own)] = "true"
        if table.mapping_mode == "none":
            properties[MAPPING_MODE] = "name"
        return properties

    def _set(self, properties: dict[str, str], *, dry_run: bool) -> Iterator[CompactedGroup]:
        if properties:
            commit = None if dry_run else self.alter().set(properties).commit()
            yield CompactedGroup(0, 0, commit, properties=properties)


def _property(feature: str) -> str:
    return f"delta.enable{feature[0].upper()}{feature[1:]}"
