"""How a clone names the files of its source: where they are, or as copies of its own."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.delta.data.deletion_vectors import locate_vectors
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.errors import InvalidArgumentError
from deltaberg.schema.arrow import as_array
from deltaberg.storage.base import is_temporary
from deltaberg.storage.location import Location, PathResolver, decode_path, parse_location
from deltaberg.table.maintain.cloning.copies import COPY_NAME, CopyNames, name_of_copy
from deltaberg.table.maintain.cloning.file_copy import FileCopy

__all__ = ["ClonedFile", "CopiedFiles", "Naming", "SourceFiles", "is_copy"]

#: What a copy of a file of deletion vectors is called, whose name is given by the format, in a directory of that clone.
_VECTOR_COPY = re.compile(r"copied[0-9a-f]+/deletion_vector_[0-9a-f-]{36}\.bin", re.ASCII)
_ENCODED_ID = 20
#: What absolute paths have codes for. Other letters stay as they are, as Hadoop spells them: where delta-spark deletes
#: rows by vectors, it compares these texts with its own.
_ESCAPED = re.compile(r"[^A-Za-z0-9_\-!.~'()*,;:$&+=/@\x80-\U0010ffff]")


class ClonedFile(NamedTuple):
    """How a clone records a file: its path, and the descriptor of its deletion vector."""

    path: str
    vector: dict[str, Any] | None

    @property
    def key(self) -> tuple[str, str, int | None]:
        """The key by which the file is recognized among live files."""
        vector = self.vector or {}
        # An inline vector and one of a file never look alike: one has an offset.
        return self.path, vector.get("pathOrInlineDv", ""), vector.get("offset")


class Naming(Protocol):
    """Names the files of the source in the clone."""

    def name(self, files: pa.Table) -> list[ClonedFile]:
        """Return how the clone records live files of the source, in their order."""


def _located(files: pa.Table, resolver: PathResolver) -> Iterable[tuple[str, str, int, dict[str, Any] | None, str]]:
    """Return the recorded path, the location and the size of files, and their vectors with the locations of those."""
    descriptors = as_array(files.column("deletionVector"))
    vectors = pc.struct_field(locate_vectors(descriptors, resolver), "location")
    columns = (files.column("path"), resolver.locate(files.column("path")), files.column("size"), descriptors, vectors)
    return zip(*(column.to_pylist() for column in columns), strict=True)


@dataclass(frozen=True)
class SourceFiles:
    """Names the files where they are, by absolute paths.

    Parameters
    ----------
    source
        The resolver of the source.
    root
        The directory of the clone.
    """

    source: PathResolver
    root: Location

    def name(self, files: pa.Table) -> list[ClonedFile]:
        """Return how the clone records live files of the source.

        Raises
        ------
        InvalidArgumentError
            A file is in the directory of the clone, which would take it for its own.
        """
        cloned = []
        for _, location, _, vector, vector_location in _located(files, self.source):
            named = None if vector is None else _without_nulls(vector)
            if named is not None and vector_location is not None:
                named |= {"storageType": "p", "pathOrInlineDv": self._absolute(vector_location)}
            cloned.append(ClonedFile(self._absolute(location), named))
        return cloned

    def _absolute(self, location: str) -> str:
        place = parse_location(location)
        if f"{place.path}/".startswith(f"{self.root.path}/"):
            raise InvalidArgumentError(
                "a file of the table is in the directory of the clone, which would delete it as its own",
                hint="choose another directory, or make a deep clone",
                path=location,
            )
        scheme = "file:" if place.scheme == "file" else f"{place.scheme}://{place.authority}/"
        return scheme + _ESCAPED.sub(lambda found: quote(found[0]), place.path)


@dataclass
class CopiedFiles:
    """Names copies of the files, and says which of them are to be made.

    A name tells which file it is a copy of, and which clone made it, by the version that it was to become. So no
    version before has named a copy of this name, and no vacuum that goes by the log can mean to delete it.

    Parameters
    ----------
    source, source_id
        The resolver and the id of the source.
    root
        The directory of the clone.
    base
        The newest version of the clone; None if there is none.
    generation
        The version that the clone becomes at the earliest.
    partition
        How many directories of a path show partition values at most.
    """

    source: PathResolver
    source_id: str
    root: Location
    base: Snapshot | None
    generation: int
    partition: int
    #: The copies to be made, by their locations.
    copies: dict[str, FileCopy] = field(default_factory=dict, init=False)
    _data: dict[str, str] = field(default_factory=dict, init=False)
    _vectors: dict[str, str] = field(default_factory=dict, init=False)
    _names: CopyNames = field(init=False)
    #: What makes other directories of those that must not be used.
    _other: dict[str, str] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._names = CopyNames(self.source_id, self.generation)
        if self.base is None:
            return
        files, own = self.base.live.table, PathResolver(self.base.log.root)
        for path in files.column("path").to_pylist():
            copied = COPY_NAME.fullmatch(path.rpartition("/")[2])
            # A shallow clone has files of others, which may be copies of theirs.
            if copied is not None and own.absolute(path) is None:
                self._data[copied["key"]] = path
        for vector in files.column("deletionVector").drop_null().to_pylist():
            text = vector["pathOrInlineDv"]
            if vector["storageType"] == "u" and text.startswith("copied"):
                self._vectors[text[-_ENCODED_ID:]] = text

    def avoid(self, targets: Iterable[str]) -> None:
        """Give copies other names than these locations; those that were named before are named again by `name`."""
        for target in targets:
            self._other[target] = uuid.uuid4().hex[:8]
            self._names.avoid([target.rpartition("/")[2]])
        self.copies.clear()

    def name(self, files: pa.Table) -> list[ClonedFile]:
        """Return how the clone records live files of the source."""
        cloned = []
        for path, location, size, vector, vector_location in _located(files, self.source):
            named = None if vector is None else _without_nulls(vector)
            if named is not None and vector_location is not None:
                recorded = f"{named['storageType']}{named['pathOrInlineDv']}"
                named |= {"storageType": "u", "pathOrInlineDv": self._vector(recorded, vector_location)}
            cloned.append(ClonedFile(self._file(path, location, size), named))
        return cloned

    def _file(self, recorded: str, location: str, size: int) -> str:
        known = self._data.get(self._names.key(recorded))
        if known is not None:
            return known
        made = f"{self._folder(recorded.rpartition('/')[0])}{self._names.of(recorded)}"
        target = str(self.root.join(decode_path(made)))
        self.copies[target] = FileCopy(location, target, size)
        return made

    def _folder(self, recorded: str) -> str:
        """Return the directory of a copy, spelled as its source spells it: some engines read partition values there."""
        parts = recorded.split("/") if recorded else []
        if self.source.absolute(f"{recorded}/x") is not None:
            parts = parts[-self.partition :] if self.partition else []
            parts = parts if all("=" in part for part in parts) else []
        return "".join(f"{part}/" for part in parts) if all(part not in ("", ".") for part in parts) else ""

    def _vector(self, recorded: str, location: str) -> str:
        identity = name_of_copy(self.source_id, recorded)
        encoded = kernels.z85_encode(identity.bytes)
        known = self._vectors.get(encoded)
        if known is not None:
            return known
        folder = f"copied{self.generation:x}"
        target = str(self.root.join(f"{folder}/deletion_vector_{identity}.bin"))
        if target in self._other:
            folder += self._other[target]
            target = str(self.root.join(f"{folder}/deletion_vector_{identity}.bin"))
        self.copies[target] = FileCopy(location, target, None)
        return f"{folder}{encoded}"


def is_copy(path: str) -> bool:
    """Return whether a file below a clone may be what an interrupted clone left there."""
    name = path.rpartition("/")[2]
    return is_temporary(name) or bool(COPY_NAME.fullmatch(name) or _VECTOR_COPY.fullmatch(path))


def _without_nulls(descriptor: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in descriptor.items() if value is not None}
