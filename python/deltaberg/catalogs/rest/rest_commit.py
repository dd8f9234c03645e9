"""Commits to tables of a REST catalog, which makes the changes itself (Iceberg REST Open API specification).

It is sent what changes and what must still hold. A success counts if its answer shows the change: a gateway can answer
200 too. Of any other answer, and of a refusal that may follow from a request of ours that was carried out before, the
table itself tells what became of it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from uuid import UUID

from deltaberg.catalogs.names import Levels
from deltaberg.catalogs.outcome import unsettled
from deltaberg.catalogs.places import loaded_table, place_of
from deltaberg.catalogs.rest.rest_door import RestDoor
from deltaberg.catalogs.rest.session import json_object
from deltaberg.catalogs.rest.transport import Answer
from deltaberg.errors import (
    CommitConflictError,
    CommitUnknownError,
    CorruptMetadataError,
    DeltabergError,
    NamespaceNotFoundError,
    StorageError,
    TableExistsError,
    TableNotFoundError,
)
from deltaberg.iceberg.location.committer import Proposal, Trace, fate_by_snapshots, is_applied, is_applied_below
from deltaberg.iceberg.location.loaded import LoadedTable
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.metadata_json import metadata_of_json
from deltaberg.iceberg.metadata.sort_orders import encode_sort_order
from deltaberg.iceberg.metadata.specs import encode_spec
from deltaberg.iceberg.schema.json_members import optional
from deltaberg.iceberg.schema.schema import encode_schema
from deltaberg.iceberg.transaction.table_commit import commit_policy
from deltaberg.iceberg.updates.draft import Draft
from deltaberg.iceberg.updates.layout_updates import by_known_ids
from deltaberg.iceberg.updates.new_table import creation_updates
from deltaberg.iceberg.updates.requirements import check_requirements
from deltaberg.lossless_json import read_json
from deltaberg.storage.base import PutOutcome, PutResult
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.commit.commit import Fate

__all__ = ["RestAttempt", "RestCommitter", "key_of_request", "send_changes", "table_document"]

_IDEMPOTENCY_KEY = "Idempotency-Key"
_FORMAT_VERSION = "format-version"


def table_document(answer: Answer) -> Mapping[str, Any]:
    """Return the JSON object of an answer that holds a table, with the spelling of its numbers.

    Raises
    ------
    StorageError
        If the answer is something else.
    """
    document = json_object(answer, "the answer of the catalog", partial(read_json, plain=True))
    if not isinstance(document.get("metadata"), dict):
        raise StorageError(
            "the answer of the catalog holds no table: it has no metadata",
            hint="check that uri is the address of a REST catalog",
        )
    return document


@dataclass
class RestCommitter:
    """Commits to one table.

    Parameters
    ----------
    door
        The catalog.
    levels
        The name of the table.
    """

    door: RestDoor
    levels: Levels

    @property
    def applies_to_newer(self) -> bool:
        """Yes: the server makes the changes to the newest metadata that it has."""
        return True

    def load(self, cached: LoadedTable | None = None) -> LoadedTable | None:
        """Ask the catalog for the table; None if it has no such table. Metadata of a known file is not read again."""
        try:
            document = table_document(self.door.ask_for_table(self.levels, None))
        except TableNotFoundError:
            return None
        return self.loaded(document, self.door.store_of(self.levels, document), cached)

    def loaded(self, document: Mapping[str, Any], store: StoreSpec, cached: LoadedTable | None = None) -> LoadedTable:
        """Return the table in an answer."""
        recorded = optional(document, "metadata-location", str, "the catalog's answer")
        if cached is not None and recorded is not None and cached.file == place_of(recorded, None):
            return replace(cached, store=store)
        metadata = metadata_of_json(document["metadata"])
        return loaded_table(metadata, place_of(recorded or metadata.location, None), store, None)

    def stage(self, raw: Mapping[str, Any]) -> LoadedTable:
        """Let the catalog prepare a new table, which nobody sees yet. It may choose the location.

        What it prepares is no table, so that a request without an answer is repeated as long as there is none.

        Raises
        ------
        TableExistsError
            If there is a table of this name.
        CommitUnknownError
            If the catalog does not answer, and does not tell either whether there is such a table.
        StorageError
            If the catalog does not prepare the table. There is none.
        """
        metadata = metadata_of_json(dict(raw))
        body: dict[str, Any] = {
            "name": self.levels[-1],
            **({"location": metadata.location} if metadata.location else {}),
            "schema": encode_schema(metadata.current_schema),
            "partition-spec": encode_spec(metadata.specs[metadata.default_spec_id]),
            "write-order": encode_sort_order(metadata.sort_orders[metadata.default_sort_order_id]),
            "stage-create": True,
            "properties": {**metadata.properties, _FORMAT_VERSION: str(metadata.format_version)},
        }
        policy = commit_policy(metadata.properties)
        failure: DeltabergError | None = None
        for number in range(policy.sends):
            if number:
                policy.back_off(number)
            try:
                return self._staged(body)
            except TableExistsError:
                if failure is None:
                    raise
            except CommitUnknownError as error:
                failure = error
            made = self._made(metadata, failure)
            if made is not None:
                return made
        raise StorageError(
            f"the catalog did not prepare the table: {'it gives no answer' if failure is None else failure.message}",
            hint="no table was made; try again later",
            table=".".join(self.levels),
        ) from failure

    def _staged(self, body: Mapping[str, Any]) -> LoadedTable:
        path = self.door.table_path(self.levels).rpartition("/")[0]
        taken = {404: NamespaceNotFoundError, 409: TableExistsError}
        answer = self.door.session.change(path, body, meanings=taken)
        try:
            found = table_document(answer)
            return self.loaded(found, self.door.store_of(self.levels, found))
        except (StorageError, CorruptMetadataError) as error:
            raise unsettled(error.message, path=path, status=answer.status) from error

    def _made(self, prepared: TableMetadata, failure: DeltabergError) -> LoadedTable | None:
        """Return the table that a server has made which was to prepare it only; None if there is none.

        Raises
        ------
        TableExistsError
            If it is another table.
        """
        try:
            created = self.load()
        except DeltabergError as error:
            raise failure from error
        if created is None or _is_as_asked(created.metadata, prepared):
            return created
        raise TableExistsError("there is a table already", table=".".join(self.levels)) from failure

    def check(self, metadata: TableMetadata) -> None:
        """Refuse nothing: the server writes the metadata, and judges it."""

    def attempt(self, proposal: Proposal) -> RestAttempt:
        """Build the request."""
        base = proposal.base.metadata
        if proposal.is_new:
            updates = [*creation_updates(base.raw), *proposal.updates]
        else:
            updates = by_known_ids(proposal.updates, Draft(base, proposal.now_ms))
        body = {
            "identifier": {"namespace": list(self.levels[:-1]), "name": self.levels[-1]},
            "requirements": [requirement.to_json() for requirement in proposal.requirements],
            "updates": [update.to_json() for update in updates],
        }
        return RestAttempt(self, proposal, body, key_of_request(self.door))


def _is_as_asked(created: TableMetadata, prepared: TableMetadata) -> bool:
    """Return whether a table without rows is the one that a server was asked for; the server gives it its UUID."""

    def layout(metadata: TableMetadata) -> tuple[Any, ...]:
        spec, order = metadata.specs[metadata.default_spec_id], metadata.sort_orders[metadata.default_sort_order_id]
        return metadata.current_schema.struct, spec.fields, order.fields

    return (
        not created.snapshots
        and layout(created) == layout(prepared)
        and prepared.properties.items() <= created.properties.items()
        and prepared.location.rstrip("/") in ("", created.location.rstrip("/"))
    )


def key_of_request(door: RestDoor) -> dict[str, str]:
    """Return the header by which the server tells a new request that is repeated; none if it does not."""
    return {_IDEMPOTENCY_KEY: str(_new_key())} if door.config.takes_keys else {}


def send_changes(
    door: RestDoor, path: str, body: Mapping[str, Any], headers: Mapping[str, str], shows: Callable[[Answer], bool]
) -> PutResult:
    """Send changes of tables, and return the outcome.

    Parameters
    ----------
    shows
        Tells whether an answer shows that the changes were carried out.
    """
    try:
        answer = door.session.change(path, body, headers=headers, meanings={404: TableNotFoundError})
    except (CommitConflictError, TableExistsError) as error:
        return PutResult(PutOutcome.EXISTS, error)
    except CommitUnknownError as error:
        return PutResult(PutOutcome.UNKNOWN, error)
    if shows(answer):
        return PutResult(PutOutcome.WRITTEN)
    cause = StorageError("the catalog's answer does not show the change", path=path, status=answer.status)
    return PutResult(PutOutcome.UNKNOWN, cause)


def _new_key() -> UUID:
    """Return a UUID that begins with the time, of version 7 (RFC 9562)."""
    millis = time.time_ns() // 1_000_000
    number = (millis << 80) | (7 << 76) | (secrets.randbits(12) << 64) | (0b10 << 62) | secrets.randbits(62)
    return UUID(int=number)


@dataclass
class RestAttempt:
    """One request to change a table."""

    committer: RestCommitter
    proposal: Proposal
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    _may_arrive: bool = field(default=False, init=False)
    _is_refused: bool = field(default=False, init=False)
    #: The table as it was found with the change.
    _after: LoadedTable | None = field(default=None, init=False)

    @property
    def may_arrive(self) -> bool:
        """Whether a request without an answer may still arrive."""
        return self._may_arrive

    def note(self, outcome: PutOutcome) -> None:
        """Note the outcome of a request that holds the change."""
        self._may_arrive |= outcome is PutOutcome.UNKNOWN
        self._is_refused = outcome is PutOutcome.EXISTS

    @property
    def trace(self) -> Trace:
        """The snapshot, by which later metadata is recognized: the server names its metadata files by itself."""
        return Trace(self.proposal.snapshot_id, None, None)

    def send(self) -> PutResult:
        """Send the request."""
        door = self.committer.door
        result = send_changes(door, door.table_path(self.committer.levels), self.body, self.headers, self._is_shown_by)
        self.note(result.outcome)
        return result

    def _is_shown_by(self, answer: Answer) -> bool:
        try:
            shown = self.committer.loaded(table_document(answer), self.proposal.base.store)
        except DeltabergError:
            return False
        base = self.proposal.base.metadata
        metadata = shown.metadata
        # Servers may store a property in other words, and order what they are told.
        is_later = metadata.last_updated_ms >= base.last_updated_ms and metadata.raw != base.raw
        if not self._is_shown_in(metadata) and not (self._is_same_table(metadata) and self._is_free and is_later):
            return False
        self._after = shown
        return True

    @property
    def _is_free(self) -> bool:
        """Whether nothing tells the change from those of others: it adds neither a snapshot nor a table."""
        return self.proposal.snapshot_id is None and not self.proposal.is_new

    def _is_same_table(self, metadata: TableMetadata) -> bool:
        known, found = self.proposal.base.metadata.table_uuid, metadata.table_uuid
        return known is None or found is None or known.lower() == found.lower()

    def _is_shown_in(self, metadata: TableMetadata) -> bool:
        """Return whether metadata proves the change."""
        if self.proposal.snapshot_id is not None:
            return self.trace.is_in(metadata)
        if not self._is_same_table(metadata):
            return False
        if self.proposal.is_new:
            return True
        if not self._may_arrive:
            return is_applied(self.proposal.updates, metadata)
        return is_applied_below(self.proposal.updates, self.proposal.base.metadata, metadata)

    def confirm(self) -> Fate:
        """Return that the change is part of the table: the answer has shown it."""
        return Fate.OURS

    def look(self) -> Fate:
        """Return the outcome of the change, by loading the table.

        A refusal is final unless a request before it may still arrive.
        """
        newest, base = self.committer.load(), self.proposal.base
        is_final = self._is_refused and not self._may_arrive
        if newest is not None and self._is_shown_in(newest.metadata):
            self._after = newest
            return Fate.OURS
        if is_final:
            return Fate.LOST
        if newest is None:
            return Fate.ABSENT if self.proposal.is_new else Fate.HIDDEN
        metadata = newest.metadata
        if self.proposal.is_new:
            # A server that has made the table of its own accord has made it without the rows.
            return Fate.HIDDEN if self._is_same_table(metadata) else Fate.LOST
        if not self._is_same_table(metadata):
            raise StorageError(
                f"the catalog shows another table under the name: its table-uuid is {metadata.table_uuid}",
                table=".".join(self.committer.levels),
            )
        if metadata.raw == base.metadata.raw or (self._may_arrive and self._is_welcome(metadata)):
            return Fate.ABSENT
        if self.proposal.snapshot_id is not None:
            return fate_by_snapshots(self.proposal, metadata)
        # Such changes are idempotent, or what they require does not hold any more, so that they can be made again.
        return Fate.LOST

    def _is_welcome(self, metadata: TableMetadata) -> bool:
        """Return whether the server would carry out the request now, so that one still on its way is not lost."""
        base = self.proposal.base.metadata
        if self.proposal.snapshot_id is not None and metadata.last_sequence_number != base.last_sequence_number:
            return False
        try:
            check_requirements(metadata, self.proposal.requirements)
        except DeltabergError:
            return False
        return True

    def discard(self) -> None:
        """Do nothing: the server keeps its own files."""

    def finish(self) -> tuple[LoadedTable, list[str]]:
        """Return the table after the commit. If the catalog does not show it any more, return it as it was."""
        if self._after is not None:
            return self._after, []
        failure = "it was dropped"
        try:
            loaded = self.committer.load()
        except DeltabergError as error:
            failure = error.message
        else:
            if loaded is not None and self._is_same_table(loaded.metadata):
                return loaded, []
            if loaded is not None:
                failure = "the catalog shows another table under the name"
        return self.proposal.base, [f"the table could not be loaded after the commit: {failure}"]
