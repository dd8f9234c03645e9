"""Deleting single rows of data files, which stay (Iceberg spec, "Row-level Deletes").

Tables of version 3 get deletion vectors, those of version 2 position delete files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import InvalidArgumentError, UnsupportedFeatureError
from deltaberg.expressions.tree.tree import TRUE
from deltaberg.files.read.bitmaps import deletion_bitmaps
from deltaberg.files.read.task import tasks_of
from deltaberg.iceberg.change.write_deletes import write_positions_of, write_vectors_of
from deltaberg.iceberg.deletes.write_positions import DeletedRows
from deltaberg.iceberg.manifests.fields import POSITION_DELETES, ManifestPart
from deltaberg.iceberg.manifests.metrics import entry_numbers, manifests_of
from deltaberg.iceberg.manifests.reader import Entries
from deltaberg.iceberg.metadata.versions import ROW_DELETES_SINCE, VECTORS_SINCE
from deltaberg.iceberg.partition.transforms import Unknown, parse_transform
from deltaberg.iceberg.rows.strategies import has_deletes_by_file
from deltaberg.iceberg.scan.file_table import FURTHER_FIELDS
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.iceberg.transaction.pending import DeleteKey
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.schema.arrow import as_array, with_columns
from deltaberg.schema.types import Struct
from deltaberg.table.change.positions import RowPositions, positions_of
from deltaberg.table.read.plan import Plan, file_numbers, split_files
from deltaberg.table.rows.row_options import RowOptions
from deltaberg.workers import map_in_order

__all__ = [
    "HiddenRows",
    "deleted_positions",
    "hide_anew",
    "hide_rows",
    "position_lists",
    "positions_in",
    "remove_deletes",
]

_WHOLE_FILE = 1 << 62
#: How many data files are asked first whether delete files name them.
_FIRST_FILES = 16
#: Concurrent requests to a remote store.
_REQUESTS = 16


@dataclass(frozen=True)
class HiddenRows:
    """The outcome of hiding rows of data files.

    Parameters
    ----------
    vectors_added, vectors_removed
        The deletion vectors that were written, and the earlier ones that they replace.
    delete_files_added, delete_files_removed
        Likewise, delete files of other kinds.
    """

    vectors_added: int = 0
    vectors_removed: int = 0
    delete_files_added: int = 0
    delete_files_removed: int = 0


def hide_rows(
    transaction: Transaction, rows: RowPositions, options: RowOptions | None = None, *, replaces: bool = False
) -> HiddenRows:
    """Delete rows of data files of the snapshot that a transaction is planned on, without writing the files anew.

    The transaction gets the files that delete the rows, and claims that the data files stay, and that nobody else gives
    them a deletion vector.

    Parameters
    ----------
    transaction
        The transaction, in one of its operations.
    rows
        The rows, by the numbers that files have in a plan of the transaction's source.
    options
        What the caller says of delete files; None for what the table says.
    replaces
        Whether others take the place of the rows: then nobody else may have deleted rows of these files meanwhile.

    Raises
    ------
    UnsupportedFeatureError
        The table has version 1, which has no deletes of rows.
    InvalidArgumentError
        A property of the table has no valid value, or the transaction has removed one of the files.
    StorageError
        The store fails.
    """
    metadata = transaction.metadata
    if metadata.format_version < ROW_DELETES_SINCE:
        raise UnsupportedFeatureError(
            "tables of version 1 have no deletes of single rows",
            hint="write files anew (copy-on-write), or set format-version to 2",
            feature="row-level deletes",
        )
    if not rows.numbers:
        return HiddenRows()
    targets = _Targets(transaction.source, rows)
    gone = set(targets.paths) & transaction.pending.removed
    if gone:
        raise InvalidArgumentError("the rows to delete are in a file that the transaction has removed", file=min(gone))
    if metadata.format_version >= VECTORS_SINCE:
        done = _hide_by_vectors(transaction, targets, rows)
    else:
        done = _hide_by_delete_files(transaction, targets, rows, options)
    transaction.claims.hidden.update(zip(targets.paths, targets.manifest_paths, strict=True))
    if replaces:
        transaction.check_moves()
        transaction.claims.moved.update(targets.paths)
    return done


def hide_anew(
    transaction: Transaction, rows: RowPositions, replaced: Collection[DeleteKey], options: RowOptions | None = None
) -> None:
    """Write the deletes of rows anew, in place of delete files of the snapshot that a transaction is planned on.

    The transaction gets the files that delete the rows, and claims what `hide_rows` has it claim.

    Parameters
    ----------
    transaction
        The transaction, in one of its operations.
    rows
        All rows that the replaced files delete, by the numbers that data files have in a plan of its source.
    replaced
        The delete files that are removed.
    options
        As for `hide_rows`.
    """
    source = transaction.source
    if rows.numbers:
        targets = _Targets(source, rows)
        if transaction.metadata.format_version >= VECTORS_SINCE:
            _hide_by_vectors(transaction, targets, rows)
        else:
            _write_delete_files(transaction, targets, rows, options)
        transaction.claims.hidden.update(zip(targets.paths, targets.manifest_paths, strict=True))
    remove_deletes(transaction, source, replaced)


class _Targets:
    """The data files of which rows are deleted, in the order of their manifests."""

    def __init__(self, source: IcebergSource, rows: RowPositions) -> None:
        self.source = source
        wanted = pa.array(rows.numbers, pa.int64())
        held = manifests_of(source.manifests, wanted)
        found = source.reader.read(held.to_pylist(), ManifestPart(rest=FURTHER_FIELDS))
        self.entries = [part.filter(pc.is_in(entry_numbers(part.table), value_set=wanted)) for part in found]
        for part in self.entries:
            _check_transforms(part)
        files = source.file_table(self.entries)
        self.files = files
        self.numbers: list[int] = file_numbers(files).to_pylist()
        self.paths: list[str] = files.column("path").to_pylist()
        names = dict(zip(held.column("number").to_pylist(), held.column("manifest_path").to_pylist(), strict=True))
        self.manifest_paths = [
            names[number] for part in self.entries for number in part.table.column("manifest").to_pylist()
        ]

    def by_spec(self) -> Iterable[tuple[Entries, range]]:
        """Return the files of each spec that there are, with their places among all."""
        start = 0
        for part in self.entries:
            if len(part.table):
                yield part, range(start, start + len(part.table))
            start += len(part.table)


def _check_transforms(part: Entries) -> None:
    """Refuse to write delete files whose partition values are not understood."""
    for field in part.spec.fields:
        if isinstance(parse_transform(field.transform), Unknown) and len(part.table):
            raise UnsupportedFeatureError(
                f"rows cannot be deleted from files that are partitioned by {field.transform!r}",
                hint="a newer version of this library may know it",
                feature=field.transform,
            )


def _told(transaction: Transaction, rows: RowPositions, number: int) -> pa.UInt64Array:
    """Return the rows of a file that are about to be written, and tell how many files that are."""
    transaction.tell(1)
    return rows.positions(number)


def _partition_values(part: Entries, places: Sequence[int] | None = None) -> pa.StructArray:
    values = as_array(part.table.column("partition"))
    return values if places is None else values.take(pa.array(places, pa.int64()))


# Deletion vectors


def _hide_by_vectors(transaction: Transaction, targets: _Targets, rows: RowPositions) -> HiddenRows:
    pending = transaction.pending
    own = [[pending.hidden[path]] if path in pending.hidden else [] for path in targets.paths]
    new = _with_bitmaps(targets, rows, own)
    lists = position_lists(targets.source, targets.files)
    whole = _with_bitmaps(targets, new, positions_in(targets.source, targets.files, lists))
    removed = _superseded(targets)
    pending.drop_deletes_of(targets.paths)
    for number, path in zip(targets.numbers, targets.paths, strict=True):
        pending.hidden[path] = new.bitmap(number)
    for part, places in targets.by_spec():
        positions = ((targets.paths[at], _told(transaction, whole, targets.numbers[at])) for at in places)
        values = _partition_values(part)
        transaction.add_entries(write_vectors_of(transaction, part.spec, part.partition, values, positions))
    remove_deletes(transaction, targets.source, removed)
    vectors = sum(offset is not None for _, offset in removed)
    return HiddenRows(len(targets.paths), vectors, 0, len(removed) - vectors)


def remove_deletes(transaction: Transaction, source: IcebergSource, keys: Collection[DeleteKey]) -> None:
    """Remove delete files of the snapshot that a transaction is planned on.

    The transaction claims of those that may be about several data files that no others are added meanwhile to which
    they apply.

    Parameters
    ----------
    source
        The rows of the snapshot.
    """
    if not keys:
        return
    deletes = source.deletes.table
    paths = pa.array(sorted({path for path, _ in keys}), pa.string())
    gone = deletes.filter(pc.is_in(deletes.column("file_path"), value_set=paths))
    transaction.remove_deletes(keys, manifests_of(source.manifests, entry_numbers(gone)))
    shared = gone.filter(pc.is_null(gone.column("referenced_data_file")))
    transaction.claims.unneeded.update(shared.column("file_path").to_pylist())


def _with_bitmaps(targets: _Targets, rows: RowPositions, bitmaps: Iterable[Iterable[bytes]]) -> RowPositions:
    """Return rows of files with those of some bitmaps of each file."""
    whole = RowPositions()
    for number, path, found in zip(targets.numbers, targets.paths, bitmaps, strict=True):
        for positions in (rows.positions(number), *(positions_of(bitmap, file=path) for bitmap in found)):
            whole.add(pa.repeat(pa.scalar(number, pa.int64()), len(positions)), positions.cast(pa.int64()))
    return whole


def _superseded(targets: _Targets) -> list[DeleteKey]:
    """Return the vectors and the position delete files that nothing needs once the files have new vectors."""
    files = targets.files
    vectors = as_array(files.column("deletion_vector"))
    keys: list[DeleteKey] = [(vector["location"], vector["offset"]) for vector in vectors.drop_null().to_pylist()]
    lists = position_lists(targets.source, files)
    used = {number for numbers in lists for number in numbers}
    if not used:
        return keys
    table = targets.source.deletes.table
    others = _other_users(targets, used)
    paths = table.column("file_path").take(pa.array(sorted(used), pa.int64())).to_pylist()
    return keys + [(path, None) for number, path in zip(sorted(used), paths, strict=True) if number not in others]


def position_lists(source: IcebergSource, files: pa.Table) -> list[list[int]]:
    """Return the numbers of the position delete files that may delete rows of each file of a file table."""
    if "delete_files" not in files.column_names:
        return [[]] * len(files)
    contents = source.deletes.table.column("content").to_pylist()
    lists = files.column("delete_files").to_pylist()
    return [[number for number in numbers or () if contents[number] == POSITION_DELETES] for numbers in lists]


def _other_users(targets: _Targets, numbers: set[int]) -> set[int]:
    """Return which position delete files delete rows of further data files, which have no deletion vectors."""
    source = targets.source
    files = source.select_files(TRUE).files
    others = files.filter(pc.invert(pc.is_in(files.column("path"), value_set=pa.array(targets.paths, pa.string()))))
    needed: set[int] = set()
    size = _FIRST_FILES
    while (undecided := numbers - needed) and len(others := _with_any(others, undecided)):
        needed |= _named_for(source, others.slice(0, size), undecided)
        # Mostly, the first file of a partition decides. Few delete files are asked about all files.
        others, size = others.slice(size), 4 * size
    return needed


def _with_any(files: pa.Table, numbers: set[int]) -> pa.Table:
    """Return the files of a file table that some of the delete files with these numbers may delete rows of."""
    lists = as_array(files.column("delete_files"))
    wanted = pc.is_in(pc.list_flatten(lists), value_set=pa.array(numbers, pa.int32()))
    return files.take(pc.list_parent_indices(lists).filter(wanted).unique())


def _named_for(source: IcebergSource, files: pa.Table, numbers: set[int]) -> set[int]:
    """Return which of some position delete files name rows of data files: those of the partition need not be named."""
    lists = [[number for number in own if number in numbers] for own in files.column("delete_files").to_pylist()]
    named: set[int] = set()
    for at, bitmaps in enumerate(positions_in(source, files, lists)):
        open_numbers = [number for number in lists[at] if number not in named]
        if bitmaps and open_numbers:
            alike = files.take(pa.repeat(pa.scalar(at), len(open_numbers)))
            by_number = positions_in(source, alike, [[number] for number in open_numbers])
            named.update(number for number, own in zip(open_numbers, by_number, strict=True) if own)
    return named


def positions_in(source: IcebergSource, files: pa.Table, lists: Sequence[Sequence[int]]) -> list[list[bytes]]:
    """Return the bitmaps of the rows of each file that certain position delete files delete, by their numbers."""
    if "delete_files" not in files.column_names:
        return [[] for _ in range(len(files))]
    chosen = with_columns(files, delete_files=pa.array(lists, pa.list_(pa.int32())))
    plan = Plan(source, TRUE, chosen, pa.repeat(False, len(files)))
    batch = split_files(plan, _WHOLE_FILE, Struct(()))
    # Each vector is a request of its own.
    threads = 1 if source.resolver.root.scheme == "file" else _REQUESTS
    read = partial(deletion_bitmaps, store=source.store, resolver=source.resolver)
    return map_in_order(threads, read, tasks_of(batch))


def deleted_positions(source: IcebergSource, files: pa.Table) -> list[pa.UInt64Array]:
    """Return the rows of files that vectors and position delete files delete, ascending."""
    deleted = []
    paths = files.column("path").to_pylist()
    for path, bitmaps in zip(paths, positions_in(source, files, position_lists(source, files)), strict=True):
        rows = RowPositions()
        for bitmap in bitmaps:
            positions = positions_of(bitmap, file=path)
            rows.add(pa.repeat(pa.scalar(0, pa.int64()), len(positions)), positions.cast(pa.int64()))
        deleted.append(rows.positions(0))
    return deleted


# Position delete files


def _hide_by_delete_files(
    transaction: Transaction, targets: _Targets, rows: RowPositions, options: RowOptions | None
) -> HiddenRows:
    own = _own_lists(targets) if has_deletes_by_file(transaction.metadata.properties) else [[] for _ in targets.paths]
    # The new files also delete what earlier ones do that they replace.
    replaced = any(own)
    whole = _with_bitmaps(targets, rows, positions_in(targets.source, targets.files, own)) if replaced else rows
    count = _write_delete_files(transaction, targets, whole, options)
    table = targets.source.deletes.table if replaced else None
    numbers = sorted({number for numbers in own for number in numbers})
    removed = [] if table is None else table.column("file_path").take(pa.array(numbers, pa.int64())).to_pylist()
    remove_deletes(transaction, targets.source, [(path, None) for path in removed])
    return HiddenRows(delete_files_added=count, delete_files_removed=len(removed))


def _write_delete_files(
    transaction: Transaction, targets: _Targets, rows: RowPositions, options: RowOptions | None
) -> int:
    """Write position delete files of rows, and return how many."""
    is_by_file = has_deletes_by_file(transaction.metadata.properties)
    count = 0
    for part, places in targets.by_spec():
        written = partial(_told, transaction, rows)
        deleted, firsts = _grouped(part, places, targets, written, by_file=is_by_file)
        values = _partition_values(part, firsts)
        made = write_positions_of(transaction, part.spec, part.partition, values, deleted, options)
        transaction.add_entries(made)
        count += len(made.entries)
    return count


def _own_lists(targets: _Targets) -> list[list[int]]:
    """Return the numbers of the position delete files that are about each file alone.

    They are replaced by the new ones, as by iceberg-spark, so that the delete files of a data file do not add up.
    """
    lists = position_lists(targets.source, targets.files)
    if not any(lists):
        return lists
    deletes = targets.source.deletes
    named = pc.coalesce(as_array(deletes.table.column("referenced_data_file")), deletes.only_paths).to_pylist()
    return [
        [number for number in numbers if named[number] == path]
        for path, numbers in zip(targets.paths, lists, strict=True)
    ]


def _grouped(
    part: Entries, places: range, targets: _Targets, written: Callable[[int], pa.UInt64Array], *, by_file: bool
) -> tuple[list[DeletedRows], list[int]]:
    """Return the rows of the files of a spec, in groups, and the place of the first file of each group in the spec."""
    keys = part.keys
    groups: dict[Hashable, int] = {}
    firsts: list[int] = []
    deleted = []
    for at, place in enumerate(places):
        key: Hashable = place if by_file else keys[at]
        if key not in groups:
            groups[key] = len(firsts)
            firsts.append(at)
        deleted.append(DeletedRows(targets.paths[place], groups[key], partial(written, targets.numbers[place])))
    return deleted, firsts
