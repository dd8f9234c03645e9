"""Tables of a server with the REST protocol (Iceberg REST Open API specification)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from deltaberg.catalogs.base import Catalog, checked_changes
from deltaberg.catalogs.names import Identifier, Levels, identifier_levels, namespace_levels
from deltaberg.catalogs.outcome import carried_out, unsettled
from deltaberg.catalogs.places import check_at_its_place, loaded_table, place_of
from deltaberg.catalogs.rest.rest_commit import RestCommitter, table_document
from deltaberg.catalogs.rest.rest_door import RestDoor
from deltaberg.catalogs.rest.rest_transaction import SeveralTables
from deltaberg.catalogs.rest.session import Meanings, json_object, of_protocol
from deltaberg.catalogs.rest.transport import Answer
from deltaberg.errors import (
    CommitConflictError,
    CommitUnknownError,
    ConstraintViolationError,
    CorruptMetadataError,
    DeltabergError,
    InvalidArgumentError,
    NamespaceNotFoundError,
    StorageError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
    in_context,
)
from deltaberg.hints import shown_value
from deltaberg.iceberg.location.committer import Committer
from deltaberg.iceberg.location.pointer import LoadedTable, TablePointer
from deltaberg.iceberg.maintain.cleaning.snapshot_retention import check_collected
from deltaberg.iceberg.metadata.metadata_json import metadata_of_json
from deltaberg.iceberg.schema.json_members import objects, optional, required, strings, text
from deltaberg.iceberg.table import IcebergTable
from deltaberg.signatures import public
from deltaberg.storage.location import LocationMap
from deltaberg.table.arguments import checked_text
from deltaberg.table.commit.commit import CommitPolicy
from deltaberg.table.maintain.cleanup import DropRequest

__all__ = ["RestCatalog"]

#: The largest number of pages in one listing, how many of them in a row may bring no new name, how many bytes they may
#: have, and how many timeouts they may take. A catalog with more is taken to be broken.
_MOST_PAGES, _MOST_IDLE, _MOST_BYTES, _MOST_TIMEOUTS = 10_000, 200, 1 << 28, 10
#: So many pages may be nearly empty; behind them, a page has ten names on average, or as many as it is
#: asked for where these are fewer.
_SMALL_PAGES, _NAMES = 200, 10
_EXISTS = "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}"
_SEVERAL = "POST /v1/{prefix}/transactions/commit"
_WHAT = "the catalog's answer"

# Tests put their own in place of it.
_monotonic = time.monotonic


@public
class RestCatalog(Catalog):
    """The tables of a server.

    Parameters
    ----------
    name
        The name of the catalog, for messages.
    properties
        ``uri``, and other settings: ``warehouse``, ``credential``, ``token``, ``scope``, ``header.*`` ...

    Raises
    ------
    InvalidArgumentError
        If a property has a value that is not valid.
    """

    def __init__(self, name: str, properties: Mapping[str, str]) -> None:
        self.name = name
        self._door = RestDoor(name, properties)

    def __repr__(self) -> str:
        return f"RestCatalog({self.name!r}, uri={self._door.settings.uri!r})"

    def list_namespaces(self, namespace: Identifier = ()) -> list[Levels]:
        """List the namespaces directly below one."""
        levels = namespace_levels(namespace)
        query = {"parent": self._door.joined(levels)} if levels else {}

        def names(page: Mapping[str, Any]) -> Iterable[Levels]:
            return map(_levels, required(page, "namespaces", list, _WHAT))

        return self._listed(f"{self._door.config.root}namespaces", query, names)

    def list_tables(self, namespace: Identifier) -> list[Levels]:
        """List the tables of a namespace."""
        levels = namespace_levels(namespace)

        def names(page: Mapping[str, Any]) -> Iterable[Levels]:
            required(page, "identifiers", list, _WHAT)
            entries = objects(page, "identifiers", _WHAT)
            return ((*_levels(entry.get("namespace")), text(entry, "name", "a table")) for entry in entries)

        return self._listed(f"{self._door.namespace_path(levels)}/tables", {}, names)

    def table_exists(self, identifier: Identifier) -> bool:
        """Return whether the catalog has the table."""
        levels = identifier_levels(identifier)
        if _EXISTS in self._door.config.endpoints:
            try:
                if self._door.session.get(self._door.table_path(levels), method="HEAD").status == 204:
                    return True
            except StorageError as error:
                if error.context.get("status") != 404:
                    raise
            # An answer without a body may be a gateway's, which knows nothing of tables.
        return self._found(levels) is not None

    def _found(self, levels: Levels) -> Mapping[str, Any] | None:
        """Return the answer that holds a table; None if the catalog does not have the table."""
        try:
            return table_document(self._door.ask_for_table(levels, None, {"snapshots": "refs"}))
        except TableNotFoundError:
            return None

    def _default_location(self, identifier: Identifier) -> str:
        """Return an empty text: the server chooses where a table goes."""
        identifier_levels(identifier)
        return ""

    def _drop(self, levels: Levels, asked: DropRequest) -> None:
        if asked.locations or asked.on_spark is not None:
            raise self._refused("the server deletes the files of a table, and is not told of directories or of tasks")
        if asked.purge:
            # Servers differ in whether they look at the property.
            with in_context(table=".".join(levels)):
                check_collected(self._pointer(levels, None).load().metadata)
        if asked.dry_run:
            self._check_exists(levels)
            return
        self._change(
            "DELETE",
            self._door.table_path(levels),
            query={"purgeRequested": "true" if asked.purge else "false"},
            meanings={404: TableNotFoundError},
            is_done=lambda: self._found(levels) is None,
        )

    def rename_table(self, from_identifier: Identifier, to_identifier: Identifier) -> IcebergTable:
        """Rename a table, and return it opened."""
        old, new = identifier_levels(from_identifier), identifier_levels(to_identifier)
        names = [{"namespace": list(levels[:-1]), "name": levels[-1]} for levels in (old, new)]
        # By this alone, the table is told from another one that has the new name.
        known = self._found(old)

        def is_done() -> bool:
            found = self._found(new)
            return found is not None and known is not None and _is_same(found, known) and self._found(old) is None

        self._change(
            "POST",
            f"{self._door.config.root}tables/rename",
            {"source": names[0], "destination": names[1]},
            meanings={404: TableNotFoundError, 409: TableExistsError},
            is_done=is_done,
            # Where a gateway sends the request twice, the second one runs into the first.
            doubts=(CommitUnknownError, CommitConflictError, TableExistsError, TableNotFoundError),
        )
        return self._opened(new, "the table was renamed")

    def register_table(self, identifier: Identifier, metadata_location: str) -> IcebergTable:
        """Enter a table that exists into the catalog, and open it."""
        checked_text("metadata_location", metadata_location, "pass the location of a metadata file")
        levels = identifier_levels(identifier)
        place = place_of(metadata_location, None)

        def shows(found: Mapping[str, Any] | None) -> bool:
            recorded = None if found is None else optional(found, "metadata-location", str, _WHAT)
            return recorded is not None and place_of(recorded, None) == place

        self._change(
            "POST",
            f"{self._door.namespace_path(levels[:-1])}/register",
            {"name": levels[-1], "metadata-location": metadata_location},
            meanings={404: NamespaceNotFoundError, 409: TableExistsError},
            is_answer=lambda answer: shows(table_document(answer)),
            is_done=lambda: shows(self._found(levels)),
        )
        return self._opened(levels, "the table was registered")

    def create_namespace(self, namespace: Identifier, properties: Mapping[str, str] | None = None) -> None:
        """Create a namespace."""
        levels = namespace_levels(namespace)
        _, settings = checked_changes((), properties)
        try:
            self._change(
                "POST",
                f"{self._door.config.root}namespaces",
                {"namespace": list(levels), "properties": settings},
                meanings={404: NamespaceNotFoundError, 409: TableExistsError},
                is_answer=lambda answer: json_object(answer, _WHAT).get("namespace") == list(levels),
                is_done=lambda: settings.items() <= self.load_namespace_properties(levels).items(),
            )
        except TableExistsError as error:
            raise InvalidArgumentError(
                "there is a namespace of this name already", namespace=".".join(levels), catalog=self.name
            ) from error

    def drop_namespace(self, namespace: Identifier) -> None:
        """Remove a namespace that holds nothing."""
        levels = namespace_levels(namespace)

        def is_done() -> bool:
            try:
                self.load_namespace_properties(levels)
            except NamespaceNotFoundError:
                return True
            return False

        self._change(
            "DELETE",
            self._door.namespace_path(levels),
            meanings={404: NamespaceNotFoundError, 409: ConstraintViolationError},
            is_done=is_done,
        )

    def load_namespace_properties(self, namespace: Identifier) -> dict[str, str]:
        """Return the properties of a namespace."""
        path = self._door.namespace_path(namespace_levels(namespace))
        found = json_object(self._door.session.get(path, missing=NamespaceNotFoundError), _WHAT)
        with of_protocol(path):
            # Without its name, the answer is not about a namespace.
            _levels(found.get("namespace"))
            return strings(found, "properties", _WHAT)

    def update_namespace_properties(
        self, namespace: Identifier, removals: Iterable[str] | None = None, updates: Mapping[str, str] | None = None
    ) -> None:
        """Remove properties of a namespace, and set others."""
        levels = namespace_levels(namespace)
        gone, new = checked_changes(removals, updates)

        def is_answer(answer: Answer) -> bool:
            document = json_object(answer, _WHAT)
            return all(isinstance(document.get(name), list) for name in ("updated", "removed"))

        def is_done() -> bool:
            properties = self.load_namespace_properties(levels)
            return new.items() <= properties.items() and not gone & properties.keys()

        self._change(
            "POST",
            f"{self._door.namespace_path(levels)}/properties",
            {"removals": sorted(gone), "updates": new},
            meanings={404: NamespaceNotFoundError},
            is_answer=is_answer,
            is_done=is_done,
        )

    def _change(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        meanings: Meanings,
        is_done: Callable[[], bool],
        is_answer: Callable[[Answer], bool] = lambda answer: answer.status == 204,
        query: Mapping[str, str] | None = None,
        doubts: tuple[type[DeltabergError], ...] = (CommitUnknownError, CommitConflictError),
    ) -> None:
        """Send a change, and look at the catalog if the answer does not tell whether it was carried out.

        Parameters
        ----------
        is_answer
            Tells whether a success is the one that the protocol has for this change; by default, an empty one.
        is_done
            Looks whether the catalog is as it has to be after the change.
        doubts
            What is raised, though the change may have been carried out.
        """

        def send() -> None:
            answer = self._door.session.change(path, body, method=method, query=query, meanings=meanings)
            with suppress(StorageError, CorruptMetadataError):
                if is_answer(answer):
                    return
            raise unsettled("its answer is not one of the protocol", path=path, status=answer.status)

        carried_out(send, is_done, doubts)

    def transaction(self, *, policy: CommitPolicy | None = None) -> SeveralTables:
        """Begin a transaction of several tables. See `Catalog.transaction`."""
        known = self._door.config.endpoints
        if known and _SEVERAL not in known:
            raise UnsupportedFeatureError(
                "the server has no transactions of several tables",
                hint="commit to one table after the other",
                catalog=self.name,
                feature=_SEVERAL,
            )
        return SeveralTables(self._door, self.load_table, f"{self._door.config.root}transactions/commit", policy)

    def _listed(
        self, path: str, query: Mapping[str, str], names: Callable[[Mapping[str, Any]], Iterable[Levels]]
    ) -> list[Levels]:
        """Return the names on all pages of a listing, sorted."""
        size_of_page = self._door.config.page_size
        asked = {**query, "pageToken": "", **({"pageSize": str(size_of_page)} if size_of_page else {})}
        until = _monotonic() + _MOST_TIMEOUTS * self._door.settings.transport.timeout
        listed: set[Levels] = set()
        tokens, idle, size = {""}, 0, 0
        for pages in range(1, _MOST_PAGES + 1):
            missing = NamespaceNotFoundError if query or path.endswith("/tables") else None
            answer = self._door.session.get(path, asked, missing=missing)
            page = json_object(answer, _WHAT)
            before = len(listed)
            with of_protocol(path):
                listed.update(names(page))
                token = optional(page, "next-page-token", str, _WHAT)
            if not token:
                return sorted(listed)
            idle = 0 if len(listed) > before else idle + 1
            size += len(answer.body)
            is_sparse = pages > _SMALL_PAGES + len(listed) // min(_NAMES, size_of_page or _NAMES)
            if token in tokens or idle > _MOST_IDLE or is_sparse or size > _MOST_BYTES or _monotonic() > until:
                break
            tokens.add(token)
            asked["pageToken"] = token
        raise StorageError(
            f"the catalog's listing does not end: it has {len(listed)} names on {pages} pages so far",
            hint="set rest-page-size to let each page hold more names, or ask who runs the catalog",
            catalog=self.name,
            path=path,
        )

    def _pointer(self, levels: Levels, location_map: LocationMap | str | None) -> TablePointer:
        return RestPointer(self._door, levels, location_map)


class RestPointer:
    """A table of a REST catalog, which returns the metadata along with the location."""

    def __init__(self, door: RestDoor, levels: Levels, location_map: LocationMap | str | None) -> None:
        self._door = door
        self._levels = levels
        self._map = location_map
        #: The table as it was loaded last, and its entity tag.
        self._last: tuple[LoadedTable | None, str | None] = (None, None)

    def __getstate__(self) -> dict[str, Any]:
        # What travels to Spark's processes does not grow with the table, nor hold the keys that the catalog has lent.
        return {**vars(self), "_last": (None, None)}

    def load(self, cached: LoadedTable | None = None) -> LoadedTable:
        """Ask the catalog. Nothing is read where it answers that the table has not changed."""
        last, tag = self._last
        answer = self._door.ask_for_table(self._levels, tag if cached is not None and cached is last else None)
        if answer.status == 304:
            if cached is None:
                raise StorageError("the catalog answers 304 (not modified) to a request without an entity tag")
            return cached
        # The metadata inside keeps the spelling of its numbers.
        document = table_document(answer)
        recorded = optional(document, "metadata-location", str, _WHAT)
        if recorded and cached is not None and cached.file == place_of(recorded, self._map):
            self._last = (cached, answer.headers.get("ETag"))
            return cached
        metadata = metadata_of_json(document["metadata"])
        file = place_of(recorded or metadata.location, self._map)
        loaded = loaded_table(metadata, file, self._door.store_of(self._levels, document), self._map)
        self._last = (loaded, answer.headers.get("ETag"))
        return loaded

    def committer(self, *, unsafe_single_writer: bool = False) -> Committer:
        """Return the committer that commits to the table through the catalog.

        Raises
        ------
        InvalidArgumentError
            If the table is read by a location map, which no other reader has.
        """
        check_at_its_place(self._map)
        return RestCommitter(self._door, self._levels)


def _is_same(found: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    """Return whether two answers hold the same table: by its UUID, or its location where it has none."""
    one, other = found["metadata"], known["metadata"]
    told = next((name for name in ("table-uuid", "location") if one.get(name) or other.get(name)), None)
    return told is not None and bool(one.get(told) == other.get(told))


def _levels(value: Any) -> Levels:
    """Read the levels of a namespace."""
    if not isinstance(value, list) or not value or not all(isinstance(level, str) and level for level in value):
        raise CorruptMetadataError(f"{shown_value(value)} in the catalog's answer is not a namespace")
    return tuple(value)
