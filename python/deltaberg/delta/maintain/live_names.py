"""The files that a version needs to be read: its data files, and the files of their deletion vectors."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.data.deletion_vectors import locate_vectors, unique_ids
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.errors import DeltabergError
from deltaberg.files.read.task import BITMAP, BitmapRef
from deltaberg.schema.arrow import as_array
from deltaberg.storage.location import PathResolver

__all__ = ["LiveNames"]

#: Bytes of a vector in its file that its size leaves out: its length and its checksum.
_FRAME = 8


@dataclass(frozen=True)
class LiveNames:
    """The names that the live files of a version have in the store.

    Parameters
    ----------
    files
        The live files, as `LiveFiles.table` has them.
    data
        The location of each data file.
    vectors
        Where the deletion vector of each file is, as `BITMAP` describes it; null where there is none.
    unplaced
        Why it is not known where a vector is, by the numbers of files.
    """

    files: pa.Table
    data: pa.StringArray
    vectors: pa.StructArray
    unplaced: dict[int, DeltabergError]

    @classmethod
    def of(cls, snapshot: Snapshot, resolver: PathResolver) -> LiveNames:
        """Return the names of a version.

        Raises
        ------
        UnsafePathError
            A path of a data file leads to where no file of the table may be.
        """
        files = snapshot.live.table
        data = as_array(resolver.locate(files.column("path")))
        descriptors = as_array(files.column("deletionVector"))
        try:
            return cls(files, data, locate_vectors(descriptors, resolver), {})
        except DeltabergError:
            return cls(files, data, *_one_by_one(descriptors, resolver))

    @property
    def vector_files(self) -> pa.StringArray:
        """The location of the file that holds the deletion vector of each file; null where there is none."""
        return pc.struct_field(self.vectors, "location")

    def vector(self, number: int) -> BitmapRef:
        """Return where the deletion vector of a file is."""
        return BitmapRef(**self.vectors[number].as_py())

    def end_of_vector(self, number: int) -> int:
        """Return how many bytes a file has at least that holds the deletion vector of a file."""
        found = self.vector(number)
        return (found.offset or 0) + found.size + _FRAME

    def keys(self, numbers: pa.Int64Array) -> list[tuple[str, str | None]]:
        """Return what files are recognized by in other versions: recorded paths, and ids of deletion vectors."""
        chosen = self.files.select(["path", "deletionVector"]).take(numbers)
        vectors = unique_ids(as_array(chosen.column("deletionVector"))).to_pylist()
        return list(zip(chosen.column("path").to_pylist(), vectors, strict=True))


def _one_by_one(
    descriptors: pa.StructArray, resolver: PathResolver
) -> tuple[pa.StructArray, dict[int, DeltabergError]]:
    found, errors = [], {}
    for number in range(len(descriptors)):
        try:
            found.append(locate_vectors(descriptors.slice(number, 1), resolver)[0].as_py())
        except DeltabergError as error:
            errors[number] = error
            found.append(None)
    return pa.array(found, BITMAP), errors
