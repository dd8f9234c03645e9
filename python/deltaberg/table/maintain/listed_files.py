"""The listing of a folder in batches of columns, so that a million files take little memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import AuthenticationError, StorageError
from deltaberg.storage.base import LEFT_BEHIND, ObjectMeta, Storage
from deltaberg.storage.probe import time_of_store
from deltaberg.workers import in_chunks, map_in_order

__all__ = [
    "INNER_TABLE",
    "LISTED_FILES",
    "are_hidden",
    "as_listed",
    "earlier_clock",
    "find_inner_tables",
    "is_unicode",
    "later_clock",
    "list_files",
]

#: The columns of a listing. Paths are decoded, and relative to the folder; times are in milliseconds since 1970.
LISTED_FILES = pa.schema([("path", pa.string()), ("bytes", pa.int64()), ("modified", pa.int64())])
#: A part of a path that hides the file.
_HIDDEN_PART = r"(?:^|/)[_.]"
#: What killed writers of this library leave, whose parts hide nothing: files under temporary names, also of probes, and
#: those of tasks of Spark in the directory of one write, whose name is an id.
_LEFT_NAME = rf"(^|/)(?:{LEFT_BEHIND})$"
_LEFT_TASK = r"(?s)((?:^|/)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/)_temporary/.*"
#: A file of the metadata of another table in a directory below.
INNER_TABLE = r"(?s)^(?P<table>.+)/(?:_delta_log/|metadata/(?:[^/]*\.metadata\.json(?:\.gz)?|version-hint\.text)$)"
_AT_ONCE = 10_000
#: How many directories are asked about at a time, and from how many on the files are listed instead.
_ASKED_TOGETHER, _MOST_ASKED = 16, 2_000


def are_hidden(paths: pa.StringArray) -> pa.BooleanArray:
    """Return which paths have a part that hides the file, apart from what killed writers of this library leave.

    Examples
    --------
    >>> import pyarrow as pa
    >>> left = f"a/.deltaberg-{'0' * 32}.tmp"
    >>> are_hidden(pa.array(["a/b", "a/_b", ".deltaberg", left, f"_a/{left}"])).to_pylist()
    [False, True, True, False, True]
    """
    shown = pc.replace_substring_regex(paths, _LEFT_NAME, r"\1x")
    return pc.match_substring_regex(pc.replace_substring_regex(shown, _LEFT_TASK, r"\1x"), _HIDDEN_PART)


def list_files(
    store: Storage,
    folder: str,
    is_wanted: Callable[[pa.StringArray], pa.BooleanArray] | None = None,
    passed_over: Callable[[str], object] = lambda _: None,
) -> Iterator[pa.RecordBatch]:
    """List all files below a folder, at any depth. Names that are not Unicode are left out: no metadata can hold them.

    Parameters
    ----------
    is_wanted
        Is shown the paths of all files, relative to the folder and many at a time, and says which of the files are to
        come. A disk is not asked about the sizes of others.
    passed_over
        Is told of names that could not be listed, beside which others may be missing (`Storage.walk`).

    Raises
    ------
    StorageError
        If the store fails, even on its last page.
    """
    base = f"{folder.rstrip('/')}/" if folder else ""

    cut = len(base.encode())

    def wanted(paths: list[str]) -> list[bool]:
        named = _texts(paths)
        inside = pc.fill_null(pc.starts_with(named, base), False)
        if is_wanted is not None:
            chosen = is_wanted(pc.binary_replace_slice(named.filter(inside), 0, cut, b""))
            inside = pc.replace_with_mask(inside, inside, chosen)
        found: list[bool] = inside.to_pylist()
        return found

    for some in in_chunks(store.walk(folder, wanted, passed_over), _AT_ONCE):
        yield _batch(some, len(base))


def as_listed(objects: Sequence[ObjectMeta], folder: str) -> pa.RecordBatch:
    """Return objects below a folder as `LISTED_FILES` describes them, apart from those whose names are not Unicode."""
    base = f"{folder.rstrip('/')}/" if folder else ""
    return _batch([meta for meta in objects if meta.path.startswith(base) and is_unicode(meta.path)], len(base))


def _batch(objects: Sequence[ObjectMeta], cut: int) -> pa.RecordBatch:
    columns = [
        pa.array([meta.path[cut:] for meta in objects], pa.string()),
        pa.array([meta.size for meta in objects], pa.int64()),
        pa.array([meta.modified for meta in objects], pa.int64()),
    ]
    return pa.record_batch(columns, LISTED_FILES)


def _texts(paths: list[str]) -> pa.StringArray:
    """Return paths as an array, with null for those that are not Unicode."""
    try:
        return pa.array(paths, pa.string())
    except UnicodeEncodeError:
        return pa.array([path if is_unicode(path) else None for path in paths], pa.string())


def is_unicode(path: str) -> bool:
    """Return whether a name can be written as UTF-8."""
    return path.isascii() or not any("\ud800" <= character <= "\udfff" for character in path)


def earlier_clock(store: Storage, folder: str) -> int:
    """Return the time in milliseconds since 1970: of this machine or of the store, whichever is earlier.

    Ages of files are counted from the times that the store gives them. A clock of this machine that is ahead would make
    young files old. Where the store does not permit writing, nothing can be deleted either, and the clock of this
    machine has to do. Where it is full, the newest file that is directly in the folder shows a time that has passed.

    Raises
    ------
    StorageError
        If the store fails.
    """
    own = time.time_ns() // 1_000_000
    try:
        return min(own, time_of_store(store, folder))
    except AuthenticationError:
        return own
    except StorageError:
        return min([own, max((meta.modified for meta in store.list_from(folder)), default=0)])


def later_clock(store: Storage, folder: str) -> int:
    """Return the time in milliseconds since 1970: of this machine or of the store, whichever is later.

    A clock of this machine that is behind would make files young that a vacuum takes. A store that does not tell its
    time has no say.
    """
    own = time.time_ns() // 1_000_000
    try:
        return max(own, time_of_store(store, folder))
    except StorageError:
        return own


def find_inner_tables(
    store: Storage, root: str, folders: Iterable[str], is_table: Callable[[str], bool]
) -> frozenset[str]:
    """Return the directories that are tables, among some directories below one and those above them.

    Parameters
    ----------
    root
        The directory.
    folders
        Directories below it, relative to it.
    is_table
        Asks the store whether such a directory is a table.

    Examples
    --------
    >>> from deltaberg.storage.local import LocalStorage
    >>> sorted(find_inner_tables(LocalStorage(), "/t", ["a/b/c", "a/d"], lambda folder: folder in ("a", "a/b/c")))
    ['a', 'a/b/c']
    """
    asked = set[str]()
    for folder in folders:
        above = folder
        while above and above not in asked:
            asked.add(above)
            above = above.rpartition("/")[0]
    chosen = sorted(_listed(store, root) if len(asked) > _MOST_ASKED else asked)
    answers = map_in_order(_ASKED_TOGETHER, is_table, chosen)
    return frozenset(folder for folder, answer in zip(chosen, answers, strict=True) if answer)


def _listed(store: Storage, root: str) -> set[str]:
    """Return the directories below one that may be tables, by the names of all files."""
    tables = set[str]()

    def note(paths: pa.StringArray) -> pa.BooleanArray:
        inner = pc.struct_field(pc.extract_regex(paths, INNER_TABLE), "table").drop_null()
        tables.update(inner.unique().to_pylist())
        return pa.repeat(pa.scalar(False), len(paths))

    for _ in list_files(store, root, note):
        pass
    return tables
