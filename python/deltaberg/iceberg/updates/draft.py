"""A copy of table metadata while updates change it (Iceberg spec, "Table Metadata Fields").

Objects inside the JSON are replaced, never changed: the metadata that the copy was made of stays as it is, and what
nobody understands survives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from deltaberg.errors import ConstraintViolationError, InvalidArgumentError
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.metadata_json import metadata_of_json
from deltaberg.iceberg.metadata.snapshot_refs import MAIN, SnapshotRef, encode_ref
from deltaberg.iceberg.metadata.sort_orders import encode_sort_order
from deltaberg.iceberg.metadata.specs import FIRST_PARTITION_ID, PartitionSpec, encode_spec
from deltaberg.iceberg.metadata.statistics_files import read_statistics_file
from deltaberg.iceberg.metadata.versions import ROW_LINEAGE, highest_field_id
from deltaberg.iceberg.schema.schema import encode_schema

__all__ = ["LAST_ADDED", "Draft"]

#: What an update names instead of an id that the same change has just assigned.
LAST_ADDED = -1


class Draft:
    """Table metadata that is being changed.

    Parameters
    ----------
    before
        The metadata to start from. It is not changed.
    now_ms
        The time in milliseconds since 1970. Times in the metadata never run backwards: if this is earlier than one of
        them, the latest of them is used.
    """

    def __init__(self, before: TableMetadata, now_ms: int) -> None:
        self.before = before
        self.raw: dict[str, Any] = dict(before.raw)
        self.now_ms = now_ms
        #: The ids that the change assigned last, by the member that holds the objects.
        self.added: dict[str, int] = {}
        self._snapshots_removed = False
        self._log_begins = False
        if self.before.format_version == 1 or self.raw.get("schemas") is None:
            self._complete()

    def _complete(self) -> None:
        """Spell out what version 1, and early files of version 2, leave to the reader."""
        before, raw = self.before, self.raw
        first = before.current_schema
        if raw.get("schemas") is None:
            raw["schemas"] = [encode_schema(first) | {"schema-id": first.schema_id}]
        elif raw.get("current-schema-id") is None:
            kept = [part for part in raw["schemas"] if (part.get("schema-id") or 0) != first.schema_id]
            raw["schemas"] = [*kept, encode_schema(first) | {"schema-id": first.schema_id}]
        raw["current-schema-id"] = before.current_schema_id
        if raw.get("partition-specs") is None:
            # Fields that have no ids get the ones that readers assign.
            raw["partition-specs"] = [encode_spec(_with_ids(spec)) for spec in before.specs.values()]
        raw["default-spec-id"] = before.default_spec_id
        if raw.get("last-partition-id") is None:
            ids = [part.field_id for spec in before.specs.values() for part in spec.fields]
            raw["last-partition-id"] = max(ids, default=FIRST_PARTITION_ID - 1)
        if raw.get("last-column-id") is None:
            raw["last-column-id"] = max(highest_field_id(schema.struct) for schema in before.schemas.values())
        if not raw.get("sort-orders"):
            raw["sort-orders"] = [encode_sort_order(order) for order in before.sort_orders.values()]
        raw["default-sort-order-id"] = before.default_sort_order_id

    @property
    def version(self) -> int:
        """The format version."""
        return int(self.raw["format-version"])

    def listed(self, name: str) -> list[Mapping[str, Any]]:
        """Return the objects of a member that is a list; none if it is missing."""
        return list(self.raw.get(name) or [])

    def find(self, name: str, key: str, number: int) -> Mapping[str, Any] | None:
        """Return the object of a list with a number."""
        return next((part for part in self.listed(name) if (part.get(key) or 0) == number), None)

    def append(self, name: str, part: Mapping[str, Any]) -> None:
        """Add an object to a list."""
        self.raw[name] = [*self.listed(name), part]

    def keep(self, name: str, keeps: Callable[[Mapping[str, Any]], bool]) -> None:
        """Remove the objects of a list that are not to be kept; a list that becomes empty stays."""
        if self.raw.get(name) is not None:
            self.raw[name] = [part for part in self.listed(name) if keeps(part)]

    def add_numbered(
        self, name: str, key: str, part: Mapping[str, Any], same: Callable[[Mapping[str, Any]], bool], first: int = 0
    ) -> int:
        """Add an object with the next id, unless the list has the same one already, and return its id."""
        same_part = next((one for one in self.listed(name) if same(one)), None)
        if same_part is None:
            number = max((one.get(key) or 0 for one in self.listed(name)), default=first - 1) + 1
            number = max(number, first)
            self.append(name, {**part, key: number})
        else:
            number = same_part.get(key) or 0
        self.added[name] = number
        return number

    def choose(self, member: str, name: str, key: str, number: int, what: str) -> None:
        """Make an object of a list the current one; ``LAST_ADDED`` stands for the one that was added last."""
        if number == LAST_ADDED:
            if name not in self.added:
                raise InvalidArgumentError(f"no {what} was added that could become the current one")
            number = self.added[name]
        if self.find(name, key, number) is None:
            raise InvalidArgumentError(f"the table has no {what} {number}")
        self.raw[member] = number

    @property
    def current_snapshot_id(self) -> int | None:
        """The id of the current snapshot; None if there is none."""
        number = self.raw.get("current-snapshot-id")
        return None if number in (None, -1) else int(number)

    @property
    def refs(self) -> dict[str, Any]:
        """The references, with the main branch that a current snapshot implies."""
        refs = dict(self.raw.get("refs") or {})
        current = self.current_snapshot_id
        if current is not None and MAIN not in refs:
            refs[MAIN] = encode_ref(SnapshotRef(current, "branch"))
        return refs

    def set_current(self, number: int | None) -> None:
        """Set the current snapshot. Without one, the log begins anew."""
        if number is None:
            # Readers of the first two versions expect a number.
            self.raw["current-snapshot-id"] = None if self.version >= ROW_LINEAGE else -1
            self._log_begins = True
        else:
            self.raw["current-snapshot-id"] = number

    def remove_snapshots(self, numbers: Iterable[int]) -> None:
        """Remove snapshots, with the references to them and their statistics."""
        gone = set(numbers)
        if self.current_snapshot_id in gone:
            raise ConstraintViolationError("the current snapshot cannot be removed")
        self._snapshots_removed = True
        self.keep("snapshots", lambda part: part.get("snapshot-id") not in gone)
        for name in ("statistics", "partition-statistics"):
            self.keep(name, lambda part: read_statistics_file(part).snapshot_id not in gone)
        if self.raw.get("refs") is not None:
            self.raw["refs"] = {
                name: ref for name, ref in self.raw["refs"].items() if ref.get("snapshot-id") not in gone
            }

    def finish(self) -> TableMetadata:
        """Set the time and the snapshot log, and return the metadata."""
        raw = self.raw
        log = [] if self._log_begins else self.listed("snapshot-log")
        if self._snapshots_removed:
            log = _without_gaps(log, {part.get("snapshot-id") for part in self.listed("snapshots")})
        raw["last-updated-ms"] = moment = self._moment(log)
        current = self.current_snapshot_id
        if current is not None and current != (log[-1]["snapshot-id"] if log else self.before.current_snapshot_id):
            log.append({"snapshot-id": current, "timestamp-ms": moment})
        if log or raw.get("snapshot-log") is not None:
            raw["snapshot-log"] = log
        if self.version == 1:
            raw["schema"] = self.find("schemas", "schema-id", raw["current-schema-id"])
            spec = self.find("partition-specs", "spec-id", raw["default-spec-id"])
            raw["partition-spec"] = [] if spec is None else spec["fields"]
        else:
            raw.pop("schema", None)
            raw.pop("partition-spec", None)
        return metadata_of_json(raw, self.before)

    def _moment(self, log: list[Mapping[str, Any]]) -> int:
        old = self.before.snapshots
        new = [part for part in self.listed("snapshots") if part["snapshot-id"] not in old]
        times: list[int] = [part["timestamp-ms"] for part in (*log[-1:], *new)]
        # A snapshot becomes current at its own time, so that this time finds it.
        return max(self.before.last_updated_ms, *times, *(() if new else (self.now_ms,)))


def _with_ids(spec: PartitionSpec) -> PartitionSpec:
    """Return a spec whose fields spell out their ids."""
    fields = tuple(
        type(part)(
            part.source_ids, part.field_id, part.name, part.transform, dict(part.raw) | {"field-id": part.field_id}
        )
        for part in spec.fields
    )
    return PartitionSpec(spec.spec_id, fields, spec.raw)


def _without_gaps(log: list[Mapping[str, Any]], known: set[Any]) -> list[Mapping[str, Any]]:
    """Return the end of a snapshot log from which on it names no snapshot that is gone."""
    kept: list[Mapping[str, Any]] = []
    for entry in log:
        if entry["snapshot-id"] in known:
            kept.append(entry)
        else:
            kept = []
    return kept
