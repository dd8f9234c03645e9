"""Position delete files are joined, and what they say of files that are gone is dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.iceberg.change.hidden_rows import hide_anew, position_lists, positions_in
from deltaberg.iceberg.maintain.rewriting.delete_rewrite import DeleteRewrite
from deltaberg.iceberg.manifests.fields import POSITION_DELETES
from deltaberg.iceberg.metadata.versions import VECTORS_SINCE
from deltaberg.iceberg.rows.file_options import delete_file_options
from deltaberg.iceberg.rows.strategies import has_deletes_by_file
from deltaberg.iceberg.transaction.pending import DeleteKey
from deltaberg.schema.arrow import as_array
from deltaberg.table.change.positions import RowPositions, positions_of
from deltaberg.table.maintain.packing import PackedFile, Packing, pack_files
from deltaberg.table.read.plan import file_numbers

__all__ = ["PositionRewrite"]


class PositionRewrite(DeleteRewrite):
    """Joins small position delete files; in a table that has deletion vectors, these take the place of all of them.

    Delete files and vectors that apply to no data file are removed.
    """

    name = "rewrite position delete files"

    @cached_property
    def _all_lists(self) -> list[list[int]]:
        """The position delete files of each file."""
        return position_lists(self.source, self.files)

    @cached_property
    def lists(self) -> list[list[int]]:
        """The position delete files of each file that are rewritten."""
        return [[number for number in found if number in self._joined] for found in self._all_lists]

    @cached_property
    def removed(self) -> frozenset[int]:
        """The delete files to remove: rewritten or dangling ones."""
        return self._joined | self._dangling

    def write(self, keys: list[DeleteKey]) -> RowPositions:
        """Write the positions of live files anew."""
        rows = self._rows()
        hide_anew(self.transaction, rows, keys, self.request.options)
        return rows

    def _rows(self) -> RowPositions:
        """Return the rows of live files that the joined files delete."""
        rows = RowPositions()
        mask = pa.array(list(map(bool, self.lists)), pa.bool_())
        files, lists = self.files.filter(mask), [found for found in self.lists if found]
        paths, numbers = files.column("path").to_pylist(), file_numbers(files).to_pylist()
        for path, number, bitmaps in zip(paths, numbers, positions_in(self.source, files, lists), strict=True):
            for bitmap in bitmaps:
                positions = positions_of(bitmap, file=path)
                rows.add(pa.repeat(pa.scalar(number, pa.int64()), len(positions)), positions.cast(pa.int64()))
        return rows

    @cached_property
    def _used(self) -> set[int]:
        """The position delete files that apply to a data file, as far as metadata tells."""
        return {number for found in self._all_lists for number in found}

    @cached_property
    def _dangling(self) -> frozenset[int]:
        """The position delete files and vectors that apply to no data file, as metadata tells."""
        if self.request.where is not None:
            return frozenset()
        vectors = as_array(self.files.column("deletion_vector")).drop_null().to_pylist()
        live = {(vector["location"], vector["offset"]) for vector in vectors}
        columns = (self.deletes.column(name).to_pylist() for name in ("content", "file_path", "content_offset"))
        return frozenset(
            number
            for number, (content, path, offset) in enumerate(zip(*columns, strict=True))
            if content == POSITION_DELETES and number not in self._used and (path, offset) not in live
        )

    @cached_property
    def _joined(self) -> frozenset[int]:
        """The position delete files that are rewritten."""
        metadata = self.transaction.metadata
        if metadata.format_version >= VECTORS_SINCE:
            return self.settled(self._all_lists, set(self._used))
        size = delete_file_options(metadata, self.request.options).target_size
        packing = Packing(size, self.request.min_files, takes_all=self.request.rewrite_all)
        candidates = self._used if self.request.rewrite_all else self._candidates()
        sizes = self.deletes.column("file_size_in_bytes").to_pylist()
        packed = [
            PackedFile(number, partition, sizes[number])
            for number, partition in enumerate(self._partitions())
            if number in candidates
        ]
        joined = {file.row for one in pack_files(packed, packing) for file in one}
        return self.settled(self._all_lists, joined)

    def _candidates(self) -> set[int]:
        """Return the delete files that the granularity of the table leaves something to join of.

        Where each one is to be about one data file, that are those of which a data file has several, or that are about
        several data files.
        """
        if not has_deletes_by_file(self.transaction.metadata.properties):
            return set(self._used)
        deletes = self.source.deletes
        paths = set(self.files.column("path").to_pylist())
        named = pc.coalesce(as_array(deletes.table.column("referenced_data_file")), deletes.only_paths).to_pylist()
        shared = {number for number in self._used if named[number] not in paths}
        counts = Counter(named[number] for number in self._used - shared)
        return shared | {number for number in self._used - shared if counts[named[number]] > 1}

    def _partitions(self) -> Iterator[Hashable]:
        """Return what is equal for delete files of a partition, by their numbers."""
        for part in self.source.deletes.entries:
            yield from ((part.spec.spec_id, key) for key in part.keys)
