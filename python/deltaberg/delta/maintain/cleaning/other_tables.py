"""Other tables that may have files in the directory of a Delta table: around it, below it, and one of Iceberg in it.

That one is mostly the same table, which UniForm, or a tool like XTable, offers to readers of Iceberg. A property of its
metadata says so, and stays if an Iceberg writer commits afterwards: what its branches and tags read stays in any case.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.log.names import LOG_DIRECTORY
from deltaberg.delta.maintain.own_paths import OwnPaths
from deltaberg.delta.schema.iceberg_compat import FORMATS, is_compatible
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.errors import InvalidArgumentError, ObjectNotFoundError, UnsafePathError, in_context
from deltaberg.files.avro.container import AvroFile
from deltaberg.lossless_json import read_json
from deltaberg.schema.arrow import as_array
from deltaberg.storage.base import ObjectMeta
from deltaberg.storage.location import PathResolver
from deltaberg.table.open.tables_there import SHOWN_FORMATS, tables_around
from deltaberg.workers import map_in_order

__all__ = ["OtherTables"]

_ICEBERG_FILES = re.compile(r"version-hint\.text|.*\.metadata\.json(?:\.gz)?", re.DOTALL)
#: Where an Iceberg table has its metadata, and the property by which UniForm marks that of a Delta table.
_METADATA, _OF_UNIFORM = "metadata/", "delta-version"
_MOST_METADATA = 1 << 28
_GZIP = b"\x1f\x8b"
_READERS = 16


def _field(name: str, kind: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, kind, nullable=False, metadata={"PARQUET:field_id": str(number)})


#: What is read of a manifest list, and of a manifest, by the ids of the specification ("Manifests").
_MANIFESTS = pa.schema([_field("manifest_path", pa.string(), 500)])
_FILE = pa.struct([_field("file_path", pa.string(), 100)])
_ENTRIES = pa.schema([_field("status", pa.int32(), 0), _field("data_file", _FILE, 2)])
_DELETED = 2


class OtherTables:
    """Looks for tables beside one, and for what they need.

    Parameters
    ----------
    snapshot
        The newest version of the table.
    own
        What finds the paths below its root.
    """

    def __init__(self, snapshot: Snapshot, own: OwnPaths) -> None:
        self._snapshot = snapshot
        self._own = own
        self._root = snapshot.log.root
        self._store = snapshot.log.storage
        #: A table whose directory the root is in, and which may have files here.
        self.around = next(tables_around(self._root.parent, snapshot.log.store), None)

    def check_none_around(self) -> None:
        """Refuse to delete all files of a directory that is in that of another table.

        Raises
        ------
        InvalidArgumentError
            There is such a table, which may have files here, such as those of a partition.
        """
        if self.around is not None:
            place, known = self.around
            raise InvalidArgumentError(
                f"the directory is in that of {SHOWN_FORMATS[known]}, {place}, which may have files in it; nothing was "
                "deleted",
                hint=f"if it has none, move this table out of it, and drop it there. Else delete {LOG_DIRECTORY} here, "
                "which leaves the files to that table",
                table=str(self._root),
            )

    def is_inner(self, folder: str) -> bool:
        """Return whether a directory of the table is another table."""
        has_log = self._store.has_objects(self._absolute(f"{folder}/{LOG_DIRECTORY}"))
        return has_log or bool(self._iceberg_files(folder))

    def iceberg_directory(self) -> str | None:
        """Return the directory that may hold metadata of an Iceberg table, if it does.

        Raises
        ------
        InvalidArgumentError
            It is metadata of another table, whose data files are none of the log.
        """
        if self._is_offered:
            return _METADATA
        found = self._newest
        if found is not None and (found[1] is None or _OF_UNIFORM not in _properties(found[1])):
            # The property of XTable is no proof: it stays where an Iceberg writer commits after a synchronization.
            raise self._of_iceberg(found[0], "is")
        return _METADATA if self._iceberg_files("") else None

    def check_known(self) -> None:
        """Refuse to delete all files where an Iceberg table in the directory has some that the log does not name.

        Raises
        ------
        InvalidArgumentError
            There are such files.
        """
        self.iceberg_directory()
        needed = list(self.needed())
        if not needed or self._newest is None:
            return
        in_log = [
            path
            for action in ("add", "remove")
            for files in self._snapshot.read_keys(action, list)
            for path in self._own.of_files(files)
        ]
        among = pa.chunked_array(in_log, pa.string())
        if not all(pc.all(pc.is_in(paths, value_set=among), min_count=0).as_py() for paths in needed):
            raise self._of_iceberg(self._newest[0], "was written for this table, but is now")

    def needed(self) -> Iterator[pa.StringArray]:
        """Yield the paths, relative to the root, of the files that branches and tags of the Iceberg table read.

        Raises
        ------
        CorruptAvroError
            A manifest, or a list of them, is damaged.
        """
        document = None if self._newest is None else self._newest[1]
        if document is None:
            return
        refs = document.get("refs")
        heads = [document.get("current-snapshot-id")]
        heads += [one.get("snapshot-id") for one in _objects(list(refs.values()) if isinstance(refs, dict) else [])]
        manifests: dict[str, None] = {}
        for snapshot in _objects(document.get("snapshots")):
            if snapshot.get("snapshot-id") in heads:
                manifests |= dict.fromkeys(self._manifests_of(snapshot))
        yield from map_in_order(_READERS, self._files_of, manifests)

    @property
    def _is_offered(self) -> bool:
        """Whether the table itself says that engines offer it as one of Iceberg."""
        formats = self._snapshot.metadata.configuration.get(FORMATS, "").lower()
        return "iceberg" in formats or is_compatible(self._snapshot.active_features)

    @cached_property
    def _newest(self) -> tuple[ObjectMeta, dict[str, Any] | None] | None:
        """The newest metadata file of an Iceberg table in the directory, with what it holds; None if nobody knows."""
        named = [meta for meta in self._iceberg_files("") if not meta.path.endswith(".text")]
        newest = max(named, key=lambda meta: (meta.modified, meta.path), default=None)
        if newest is None:
            return None
        data = self._store.get(newest.path, _MOST_METADATA)
        return (newest, _document(data)) if data.startswith((b"{", _GZIP)) else None

    def _manifests_of(self, snapshot: dict[str, Any]) -> list[str]:
        named = snapshot.get("manifest-list")
        if isinstance(named, str):
            data = self._fetch(named)
            with in_context(table=str(self._root), file=named):
                paths: list[str] = [] if data is None else _read(data, _MANIFESTS).column(0).to_pylist()
            return paths
        found = snapshot.get("manifests")
        return [path for path in found if isinstance(path, str)] if isinstance(found, list) else []

    def _files_of(self, manifest: str) -> pa.StringArray:
        data = self._fetch(manifest)
        if data is None:
            return pa.array([], pa.string())
        with in_context(table=str(self._root), file=manifest):
            entries = _read(data, _ENTRIES)
        live = entries.filter(pc.not_equal(entries.column("status"), _DELETED))
        return self._own.of_plain(pc.struct_field(as_array(live.column("data_file")), "file_path").to_pylist())

    def _fetch(self, recorded: str) -> bytes | None:
        """Return the bytes of a file; None if it is gone, or elsewhere, so that nobody reads the table by it."""
        with suppress(ObjectNotFoundError, UnsafePathError):
            place = PathResolver(self._root, encoded=False).resolve(recorded)
            return self._store.get(place.path, _MOST_METADATA)
        return None

    def _iceberg_files(self, folder: str) -> list[ObjectMeta]:
        """List the files by which a directory of the table is that of an Iceberg table."""
        listed = self._store.list_from(self._absolute(f"{folder}/{_METADATA}" if folder else _METADATA).rstrip("/"))
        return [meta for meta in listed if _ICEBERG_FILES.fullmatch(meta.path.rpartition("/")[2])]

    def _absolute(self, path: str) -> str:
        return self._root.join(path).path

    def _of_iceberg(self, newest: ObjectMeta, what: str) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"{newest.path} {what} metadata of an Iceberg table in the same directory, which needs files that the log "
            "does not name; nothing was deleted",
            hint="if nobody needs that table any more, delete its metadata files. If a tool such as XTable made "
            "them of this table, delete them, and have it make them again. Else clone one of the two to a "
            "directory of its own, and drop it here without its files",
            table=str(self._root),
        )


def _document(data: bytes) -> dict[str, Any] | None:
    """Return what a metadata file holds; None if that is no metadata."""
    try:
        text = zlib.decompressobj(wbits=31).decompress(data, _MOST_METADATA) if data.startswith(_GZIP) else data
        document = read_json(text.decode(), plain=True)
    except (ValueError, RecursionError, zlib.error):
        return None
    return document if isinstance(document, dict) else None


def _properties(document: dict[str, Any]) -> dict[str, Any]:
    properties = document.get("properties")
    return properties if isinstance(properties, dict) else {}


def _objects(found: Any) -> list[dict[str, Any]]:
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _read(data: bytes, columns: pa.Schema) -> pa.Table:
    return AvroFile(data).read_by_id(columns)
