"""A join of streamed rows with stored ones: by keys where the condition has equalities, and pair by pair where not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.errors import ConstraintViolationError, TooLargeError
from deltaberg.schema.arrow import as_batch, count_up
from deltaberg.table.merge.join_partitions import partition_numbers, split_by_number
from deltaberg.table.merge.stored_rows import StoredRows
from deltaberg.table.write.spool import Spool

__all__ = ["JoinKeys", "JoinMemory", "Joined", "RowJoin"]

#: Computes a column of the rows of a batch.
Compute = Callable[[pa.RecordBatch], pa.Array]

#: Pairs that are looked at together at most.
_PAIRS = 1 << 18
#: Bytes that a row needs in an index of keys, besides its key.
_INDEX_ROW = 64
#: Rows of one batch must be less than 2 GiB of text.
_MOST_MEMORY = 1 << 30
_MOST_BITS = 12


class JoinKeys(NamedTuple):
    """The keys of both sides of a join, which must be equal.

    Parameters
    ----------
    left, right
        Compute the keys of rows of both sides, of the same types.
    null_safe
        For each key whether a null equals a null.
    """

    left: Sequence[Compute]
    right: Sequence[Compute]
    null_safe: Sequence[bool]


@dataclass(frozen=True)
class JoinMemory:
    """How much memory a join may take, approximately.

    Parameters
    ----------
    limit
        Bytes of rows and keys in memory.
    directory
        Where rows are stored beyond that; None for the system's directory of temporary files.
    """

    limit: int = 512 << 20
    directory: str | None = None


class Joined(NamedTuple):
    """Rows of the left side with what they join.

    Parameters
    ----------
    left
        Rows of the left side.
    numbers
        For each pair, the number of its row in ``left``, in ascending order.
    pairs
        The pairs: the columns of the left side, and those of the right side.
    alone
        The numbers of rows in ``left`` that join nothing at all; None if that is not known yet, or not asked for.
    """

    left: pa.RecordBatch
    numbers: pa.Array
    pairs: pa.RecordBatch
    alone: pa.Array | None


class RowJoin:
    """Finds the pairs of rows for which keys are equal and a condition is true.

    The right side is indexed in memory if it fits. Otherwise both sides are divided by a hash of their keys
    and stored on disk. Rows with the same key must fit into memory.

    Parameters
    ----------
    right
        The rows of the right side.
    width
        How many columns of the left side come before those of the right side in pairs. What follows them are columns
        of the left side that pairs do not have.
    left_schema
        The schema of the left side.
    keys
        What must be equal; None if no equality is demanded.
    condition
        What else must be true of a pair; None if nothing is.
    memory
        How much memory may be taken.
    wants_rest
        Whether rows of the right side that join nothing are asked for.
    wants_alone
        Whether rows of the left side that join nothing are asked for.
    unique_right
        Whether rows of the right side with the same key are refused.

    Examples
    --------
    >>> right = StoredRows(pa.schema([("k", pa.int64()), ("v", pa.string())]), 1 << 20)
    >>> right.add(pa.record_batch({"k": [2, 3], "v": ["two", "three"]}))
    >>> keys = JoinKeys([lambda rows: rows["id"]], [lambda rows: rows["k"]], [False])
    >>> left = pa.record_batch({"id": [1, 2]})
    >>> with RowJoin(right, 1, left.schema, keys) as join:
    ...     [(found.pairs.to_pylist(), found.alone.to_pylist()) for found in join.pairs([left])]
    ...     [rows.to_pylist() for rows in join.rest()]
    [([{'id': 2, 'k': 2, 'v': 'two'}], [0])]
    [[{'k': 3, 'v': 'three'}]]
    """

    def __init__(
        self,
        right: StoredRows,
        width: int,
        left_schema: pa.Schema,
        keys: JoinKeys | None = None,
        condition: Compute | None = None,
        memory: JoinMemory | None = None,
        *,
        wants_rest: bool = True,
        wants_alone: bool = True,
        unique_right: bool = False,
    ) -> None:
        self._right = right
        self._width = width
        #: The schema of the left side.
        self.left_schema = left_schema
        self._keys = keys
        self._condition = condition
        self._memory = memory or JoinMemory()
        self._wants_rest = wants_rest
        self._wants_alone = wants_alone
        self._unique_right = unique_right
        self._rest = StoredRows(right.schema, self._memory.limit // 2, self._memory.directory)
        self.schema = pa.schema([*list(left_schema)[:width], *right.schema])

    def __enter__(self) -> RowJoin:  # noqa: PYI034 - typing.Self is younger than Python 3.10
        return self

    def __exit__(self, *_: object) -> None:
        self._rest.close()

    def pairs(self, left: Iterable[pa.RecordBatch]) -> Iterator[Joined]:
        """Return the pairs of rows that join. Each batch of the left side is returned at least once.

        Raises
        ------
        StorageError
            Rows cannot be stored on disk.
        ConstraintViolationError
            Rows of the right side have the same key although that is refused.
        """
        if self._keys is None:
            yield from self._all_pairs(left)
        elif self._needed() <= self._limit:
            yield from self._join(self._part(self._right.whole(), self._keys), left)
        else:
            yield from self._divided(left, self._keys)

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Return the rows of the right side that joined nothing, once all pairs were taken. They can be read again."""
        return self._rest.batches()

    @property
    def _limit(self) -> int:
        return min(self._memory.limit, _MOST_MEMORY)

    def _needed(self) -> int:
        return 2 * self._right.nbytes + _INDEX_ROW * self._right.count

    def _part(self, rows: pa.RecordBatch, keys: JoinKeys) -> _Part:
        part = _Part(rows, keys, self._wants_rest)
        if self._unique_right and not part.is_unique:
            raise ConstraintViolationError(
                "several rows of the source have the same key", hint="leave one row for each key"
            )
        return part

    def _join(self, part: _Part, left: Iterable[pa.RecordBatch]) -> Iterator[Joined]:
        for batch in left:
            yield from self._with_part(part, batch)
        for rows in part.rest():
            self._rest.add(rows)

    def _with_part(self, part: _Part, batch: pa.RecordBatch) -> Iterator[Joined]:
        for start, found in part.slices(batch):
            yield from self._of_slice(part, batch.slice(start, len(found)), found)

    def _of_slice(self, part: _Part, piece: pa.RecordBatch, keys: pa.Array) -> Iterator[Joined]:
        numbers, others = part.pairs_of(keys)
        try:
            numbers, others, pairs = self._checked(piece, numbers, part.rows, others)
        except TooLargeError:
            if len(keys) <= 1:
                raise
            middle = len(keys) // 2
            for start, own in ((0, keys.slice(0, middle)), (middle, keys.slice(middle))):
                yield from self._of_slice(part, piece.slice(start, len(own)), own)
            return
        part.note(others)
        # The pairs of a row are together, so that what is alone is known at once.
        yield Joined(piece, numbers, pairs, self._alone(piece.num_rows, [numbers]))

    def _checked(
        self, left: pa.RecordBatch, numbers: pa.Array, right: pa.RecordBatch, others: pa.Array
    ) -> tuple[pa.Array, pa.Array, pa.RecordBatch]:
        """Return the pairs for which the condition is true.

        Raises
        ------
        TooLargeError
            A column of the pairs has more than 2 GiB of text or bytes.
        """
        try:
            taken = [left.select(range(self._width)).take(numbers), right.take(others)]
        except pa.ArrowInvalid as error:
            raise TooLargeError(
                f"{len(numbers)} pairs of rows have more than 2 GiB of text or bytes in one column",
                hint="leave out columns that are not needed",
            ) from error
        pairs = pa.RecordBatch.from_arrays([column for side in taken for column in side.columns], schema=self.schema)
        if self._condition is None or not pairs.num_rows:
            return numbers, others, pairs
        mask = pc.fill_null(self._condition(pairs), fill_value=False)
        if mask.true_count == len(mask):
            return numbers, others, pairs
        return numbers.filter(mask), others.filter(mask), pairs.filter(mask)

    # Beyond memory

    def _divided(self, left: Iterable[pa.RecordBatch], keys: JoinKeys) -> Iterator[Joined]:
        """Join the rows of equal hashes part by part."""
        # Parts are not of equal size.
        bits = min(max((2 * self._needed() // self._limit).bit_length(), 1), _MOST_BITS)
        chunk, directory = max(self._limit // 4, 1), self._memory.directory
        with Spool(self._right.schema, chunk, directory) as rights, Spool(self.left_schema, chunk, directory) as lefts:
            for spool, batches, computes in ((rights, self._right.batches(), keys.right), (lefts, left, keys.left)):
                for batch in batches:
                    numbers = partition_numbers([compute(batch) for compute in computes], bits)
                    for number, rows in split_by_number(batch, numbers):
                        spool.add(number, rows)
            for right_rows, left_rows in _aligned(rights.partitions(), lefts.partitions()):
                rows = as_batch(list(right_rows), self._right.schema)
                yield from self._join(self._part(rows, keys), left_rows)

    def _all_pairs(self, left: Iterable[pa.RecordBatch]) -> Iterator[Joined]:
        """Look at every pair of rows."""
        joined: list[pa.Array] = []
        for batch in left:
            matched: list[pa.Array] = []
            for first, right in self._numbered():
                step = max(_PAIRS // right.num_rows, 1)
                for start in range(0, batch.num_rows, step):
                    piece = batch.slice(start, step)
                    numbers, others = _product(piece.num_rows, right.num_rows)
                    numbers, others, pairs = self._checked(piece, numbers, right, others)
                    if pairs.num_rows:
                        numbers = pc.add(numbers, start)
                        matched.append(pc.unique(numbers))
                        if self._wants_rest:
                            joined.append(pc.add(pc.unique(others), first))
                            joined = [pc.unique(pa.concat_arrays(joined))]
                        yield Joined(batch, numbers, pairs, None)
            yield Joined(batch, _NO_NUMBERS, as_batch([], self.schema), self._alone(batch.num_rows, matched))
        if self._wants_rest:
            known = _bitmap(joined)
            for first, right in self._numbered():
                self._rest.add(right.filter(kernels.keep_mask(known, first, right.num_rows)))

    def _alone(self, rows: int, parts: list[pa.Array]) -> pa.Array | None:
        """Return the numbers of rows that are in no pair."""
        if not self._wants_alone:
            return None
        every = count_up(0, rows)
        found = pa.concat_arrays(parts) if parts else _NO_NUMBERS
        return every.filter(pc.invert(pc.is_in(every, value_set=found)))

    def _numbered(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Return the rows of the right side in small batches, each with the number of its first row."""
        first = 0
        for batch in self._right.batches():
            for start in range(0, batch.num_rows, _PAIRS):
                piece = batch.slice(start, _PAIRS)
                yield first, piece
                first += piece.num_rows


_NO_NUMBERS = pa.array([], pa.int64())


class _Part:
    """Rows of the right side in memory, with an index of their keys."""

    def __init__(self, rows: pa.RecordBatch, keys: JoinKeys, wants_rest: bool) -> None:
        self.rows = rows
        self._left = keys.left
        made = [compute(rows) for compute in keys.right]
        names = [str(number) for number in range(len(made))]
        batch = pa.RecordBatch.from_arrays(made, names=names)
        self._names = names
        self._index = kernels.index_keys(batch, list(keys.null_safe))
        #: For each row, the rows of the same key, kept with the first of them; None if all keys differ.
        self._groups = _groups(kernels.find_keys(self._index, batch))
        self._wants_rest = wants_rest
        self._joined: list[pa.Array] = []
        self._noted = 0

    @property
    def is_unique(self) -> bool:
        """Whether no two rows have the same key."""
        return self._groups is None

    def slices(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.Array]]:
        """Return the rows of a batch in pieces that have few pairs: where each begins, and the keys of its rows."""
        made = [compute(batch) for compute in self._left]
        keys = kernels.find_keys(self._index, pa.RecordBatch.from_arrays(made, names=self._names))
        if self._groups is None:
            yield 0, keys
            return
        counts = pc.fill_null(pc.list_value_length(self._groups.take(keys)), 0)
        totals = pc.cumulative_sum(counts)
        if not len(keys) or totals[-1].as_py() <= _PAIRS:
            yield 0, keys
            return
        pieces = pc.run_end_encode(pc.divide(totals, pa.scalar(_PAIRS, totals.type))).run_ends.to_pylist()
        for start, stop in zip([0, *pieces], pieces, strict=False):
            yield start, keys.slice(start, stop - start)

    def pairs_of(self, found: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Return the pairs of rows whose keys are given: their numbers from 0 on, and those of the right side."""
        if self._groups is None:
            return pc.indices_nonzero(found.is_valid()).cast(pa.int64()), found.drop_null()
        lists = self._groups.take(found)
        return pc.list_parent_indices(lists).cast(pa.int64()), pc.list_flatten(lists)

    def note(self, others: pa.Array) -> None:
        """Remember rows of the right side that joined."""
        if self._wants_rest and len(others):
            self._joined.append(others)
            self._noted += len(others)
            if self._noted > 4 * self.rows.num_rows + _PAIRS:
                self._joined = [pc.unique(pa.concat_arrays(self._joined))]
                self._noted = len(self._joined[0])

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Return the rows that joined nothing."""
        if self._wants_rest and self.rows.num_rows:
            rest = self.rows.filter(kernels.keep_mask(_bitmap(self._joined), 0, self.rows.num_rows))
            for start in range(0, rest.num_rows, _PAIRS):
                yield rest.slice(start, _PAIRS)


def _groups(first: pa.Int64Array) -> pa.ListArray | None:
    """Return, for the first row of each key, all rows of the key; None if no key has two rows."""
    first_rows = first.drop_null()
    numbers = pc.indices_nonzero(first.is_valid()).cast(pa.int64())
    if first_rows.equals(numbers):
        return None
    order = pc.sort_indices(first_rows)
    rows, owners = numbers.take(order), first_rows.take(order)
    runs = pc.run_end_encode(owners, run_end_type=pa.int64())
    ends = runs.run_ends
    lengths = pc.subtract(ends, pa.concat_arrays([pa.array([0], pa.int64()), ends.slice(0, max(len(ends) - 1, 0))]))
    # A row that is not the first of its key has an empty list.
    places = pc.index_in(count_up(0, len(first)), value_set=runs.values)
    counts = pc.fill_null(lengths.take(places), 0)
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(counts)])
    return pa.LargeListArray.from_arrays(offsets, rows)


def _bitmap(parts: list[pa.Array]) -> bytes:
    numbers = pc.unique(pa.concat_arrays(parts)) if parts else _NO_NUMBERS
    ascending = numbers.take(pc.sort_indices(numbers)).cast(pa.uint64())
    bitmap, _ = kernels.unframe_bitmap(kernels.encode_bitmap(ascending, "delta-inline"), "delta-inline")
    return bitmap


def _product(left: int, right: int) -> tuple[pa.Array, pa.Array]:
    """Return the numbers of the rows of all pairs, in the order of the left side."""
    every = count_up(0, left * right)
    width = pa.scalar(right, pa.int64())
    numbers = pc.divide(every, width)
    return numbers, pc.subtract(every, pc.multiply(numbers, width))


def _aligned(
    rights: Iterator[tuple[int, Iterator[pa.RecordBatch]]], lefts: Iterator[tuple[int, Iterator[pa.RecordBatch]]]
) -> Iterator[tuple[list[pa.RecordBatch], Iterator[pa.RecordBatch]]]:
    """Return the rows of both sides by partition; a side may lack one."""
    right, left = next(rights, None), next(lefts, None)
    while right is not None or left is not None:
        number = min(side[0] for side in (right, left) if side is not None)
        right_rows = list(right[1]) if right is not None and right[0] == number else []
        left_rows = left[1] if left is not None and left[0] == number else iter(())
        yield right_rows, left_rows
        if right is not None and right[0] == number:
            right = next(rights, None)
        if left is not None and left[0] == number:
            left = next(lefts, None)
