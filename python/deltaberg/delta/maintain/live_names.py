"""The files that a version needs to be read: its data files, and the files of their deletion vectors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.delta.data.deletion_vectors import locate_vectors, unique_ids
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.errors import DeltabergError
from deltaberg.files.read.task import BITMAP, BitmapRef
from deltaberg.kernels.results import DELETION_VECTOR
from deltaberg.schema.arrow import as_array, count_up
from deltaberg.storage.location import PathResolver

__all__ = ["LiveNames"]

#: Bytes of a vector in its file that its size leaves out: its length and its checksum.
_FRAME = 8


@dataclass(frozen=True)
class LiveNames:
    """The names that the live files of a version have in the store.

    Files are known by their numbers, and vectors by their places in ``vectors``.

    Parameters
    ----------
    data
        The locations of the data files.
    places
        The number of each file among these locations, which is another one behind two files of one location.
    sizes
        The size of each data file, as recorded.
    with_vectors
        The files that have deletion vectors, ascending.
    vectors
        Where each of their vectors is, as `BITMAP` describes it; null where that is not known.
    vector_ids
        What tells each vector from others.
    unplaced
        Why it is not known where a vector is.
    """

    data: kernels.PathSet
    places: pa.Int64Array
    sizes: pa.Int64Array
    with_vectors: pa.Int64Array
    vectors: pa.StructArray
    vector_ids: pa.StringArray
    unplaced: dict[int, DeltabergError]

    @classmethod
    def of(cls, snapshot: Snapshot, resolver: PathResolver) -> LiveNames:
        """Return the names of a version. Files have the order of `Snapshot.live`, where that was read before.

        Raises
        ------
        UnsafePathError
            A path of a data file leads to where no file of the table may be.
        """
        live: LiveNames = snapshot.read_keys("add", lambda tables: cls._of(tables, resolver))
        if len(live.data) == len(live.sizes):
            return live

        def places(tables: Iterator[pa.Table]) -> pa.Int64Array:
            return pa.concat_arrays([live.data.numbers(_located(table, resolver)) for table in tables])

        return replace(live, places=snapshot.read_keys("add", places))

    @classmethod
    def _of(cls, tables: Iterator[pa.Table], resolver: PathResolver) -> LiveNames:
        sizes, rows, deleted = [pa.array([], pa.int64())], [pa.array([], pa.int64())], [pa.array([], DELETION_VECTOR)]

        def located() -> Iterator[pa.StringArray]:
            count = 0
            for table in tables:
                vectors = as_array(table.column("deletionVector"))
                if vectors.null_count < len(vectors):
                    rows.append(count_up(count, len(table)).filter(vectors.is_valid()))
                    deleted.append(vectors.drop_null())
                sizes.append(as_array(table.column("size")))
                count += len(table)
                yield _located(table, resolver)

        data, descriptors = kernels.PathSet(located()), pa.concat_arrays(deleted)
        unplaced: dict[int, DeltabergError] = {}
        try:
            vectors = locate_vectors(descriptors, resolver)
        except DeltabergError:
            vectors, unplaced = _one_by_one(descriptors, resolver)
        recorded = pa.concat_arrays(sizes)
        places, ids = count_up(0, len(recorded)), unique_ids(descriptors)
        return cls(data, places, recorded, pa.concat_arrays(rows), vectors, ids, unplaced)

    @property
    def vector_files(self) -> pa.StringArray:
        """The location of the file that holds each deletion vector; null where it is in the log, or not known."""
        return pc.struct_field(self.vectors, "location")

    def location(self, file: int) -> str:
        """Return where a data file is."""
        return self.locations(pa.array([file], pa.int64()))[0]

    def locations(self, files: pa.Int64Array) -> list[str]:
        """Return where some data files are."""
        found: list[str] = self.data.texts(self.places.take(files)).to_pylist()
        return found

    def files_at(self, locations: pa.Array) -> pa.Int64Array:
        """Return the data files at some locations."""
        numbers = self.data.numbers(locations).drop_null()
        return (
            pc.indices_nonzero(pc.is_in(self.places, value_set=numbers)).cast(pa.int64()) if len(numbers) else numbers
        )

    def vector(self, number: int) -> BitmapRef:
        """Return where a deletion vector is."""
        return BitmapRef(**self.vectors[number].as_py())

    def end_of_vector(self, number: int) -> int:
        """Return how many bytes a file has at least that holds a deletion vector."""
        found = self.vector(number)
        return (found.offset or 0) + found.size + _FRAME

    def keys(self, files: pa.Int64Array) -> list[tuple[str, str | None]]:
        """Return what files are recognized by in other versions: locations, and ids of deletion vectors."""
        places = pc.index_in(files, value_set=self.with_vectors)
        return list(zip(self.locations(files), self.vector_ids.take(places).to_pylist(), strict=True))


def _located(table: pa.Table, resolver: PathResolver) -> pa.StringArray:
    return as_array(resolver.locate(table.column("path")))


def _one_by_one(
    descriptors: pa.StructArray, resolver: PathResolver
) -> tuple[pa.StructArray, dict[int, DeltabergError]]:
    located, errors = [], {}
    for number in range(len(descriptors)):
        try:
            located.append(locate_vectors(descriptors.slice(number, 1), resolver)[0].as_py())
        except DeltabergError as error:
            errors[number] = error
            located.append(None)
    return pa.array(located, BITMAP), errors
