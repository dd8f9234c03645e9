"""The paths that files of a log have below the root of the table, in every spelling by which a store lists them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.actions.log_action import find_actions
from deltaberg.delta.data.deletion_vectors import locate_vectors
from deltaberg.errors import CorruptLogError, UnsafePathError
from deltaberg.schema.arrow import as_array
from deltaberg.storage.location import PathResolver

__all__ = ["OwnPaths"]

#: What a listing never has in a path, though a path that is recorded may have it.
_LOOSE = r"(?:^|/)(?:\.?/|\.?$)"
_NAME = "[^/]*$"
#: How many files are located at a time, so that little memory is needed beside that of the paths.
_TOGETHER = 1 << 16


class OwnPaths:
    """Finds which files that actions name are below the root of the table, where clean-up looks.

    Parameters
    ----------
    resolver
        The resolver of the table's root, without a map.
    """

    def __init__(self, resolver: PathResolver) -> None:
        self._resolver = resolver
        self._plain = PathResolver(resolver.root, encoded=False)
        self._prefix = f"{str(resolver.root).rstrip('/')}/"
        self._is_local = resolver.root.scheme == "file"
        self._real_root = os.path.join(os.path.realpath(resolver.root.path), "")
        #: What directories are in truth.
        self._real: dict[str, str] = {}
        #: The names of the links in directories below the root.
        self._linked: dict[str, frozenset[str]] = {}
        #: The names, without directories, of files that are recorded as being elsewhere.
        self.elsewhere: set[str] = set()

    def of_files(self, files: pa.Table) -> Iterator[pa.StringArray]:
        """Return the paths of data files, relative to the root and decoded, and those of their deletion vectors.

        Files elsewhere are left out, and their names are added to `elsewhere`: where a table was moved, or its store
        has several names, they may be those below the root.

        Parameters
        ----------
        files
            Files as actions record them, with the columns ``path`` and ``deletionVector``.

        Raises
        ------
        CorruptTableError
            A descriptor of a deletion vector names no place.
        UnsafePathError
            A path contains ``..``, so that nobody knows which file it names.
        """
        for batch in files.select(["path", "deletionVector"]).to_batches(max_chunksize=_TOGETHER):
            paths, vectors = batch.columns
            yield self._below(self._located(pa.chunked_array([paths])))
            if vectors.null_count < len(vectors):
                yield from self._of_vectors(vectors.drop_null())

    def of_changes(self, data: bytes) -> pa.StringArray:
        """Return the paths of the change data files that a log entry names.

        Raises
        ------
        CorruptLogError
            A path is not Unicode.
        """
        paths = [action["path"] for _, _, action in find_actions(data, "cdc")]
        try:
            recorded = pa.chunked_array([pa.array(paths, pa.string())])
        except UnicodeEncodeError as error:
            raise CorruptLogError("the path of a change data file is not Unicode") from error
        return self._below(self._located(recorded))

    def of_plain(self, paths: Iterable[str]) -> pa.StringArray:
        """Return the paths of files, which are not encoded, as `of_files` does."""
        places = (self._plain.absolute(path) or self._plain.root.join(path) for path in paths)
        return self._below(pa.array(map(str, places), pa.string()))

    def own_path(self, path: str) -> str | None:
        """Return a plain path, relative or absolute, relative to the root; None if it is elsewhere."""
        place = self._plain.absolute(path)
        if place is None:
            return _tight(path)
        text = str(place)
        return _tight(text[len(self._prefix) :]) if text.startswith(self._prefix) else None

    def _of_vectors(self, descriptors: pa.StructArray) -> Iterator[pa.StringArray]:
        try:
            yield self._below(pc.struct_field(locate_vectors(descriptors, self._resolver), "location").drop_null())
        except UnsafePathError:
            # Those in other stores are named by absolute paths.
            kind, path = (pc.struct_field(descriptors, name) for name in ("storageType", "pathOrInlineDv"))
            absolute = pc.fill_null(pc.equal(kind, "p"), False)
            located = locate_vectors(descriptors.filter(pc.invert(absolute)), self._resolver)
            yield self._below(pc.struct_field(located, "location").drop_null())
            yield self._below(self._located(pa.chunked_array([path.filter(absolute)])))

    def _located(self, paths: pa.ChunkedArray) -> pa.StringArray:
        try:
            return as_array(self._resolver.locate(paths))
        except UnsafePathError:
            located = [self._text_of(path) for path in paths.to_pylist()]
            return pa.array(located, pa.string()).drop_null()

    def _text_of(self, recorded: str) -> str | None:
        try:
            return str(self._resolver.resolve(recorded))
        except UnsafePathError:
            absolute = self._resolver.absolute(recorded)
            if absolute is None or absolute.same_store(self._resolver.root):
                raise
            self.elsewhere.add(absolute.path.rpartition("/")[2])
            return None

    def _below(self, texts: pa.StringArray) -> pa.StringArray:
        """Return locations relative to the root, in each spelling by which a listing may show the files."""
        inside = pc.starts_with(texts, self._prefix)
        is_whole = inside.true_count == len(texts)
        # As bytes the beginning is cut off in a third of the time.
        cut = len(self._prefix.encode())
        own = pc.binary_replace_slice(texts if is_whole else texts.filter(inside), 0, cut, b"")
        loose = own.filter(pc.match_substring_regex(own, _LOOSE)).to_pylist()
        others = [] if is_whole else texts.filter(pc.invert(inside)).to_pylist()
        self.elsewhere.update(path.rpartition("/")[2] for path in others)
        more = {_tight(path) for path in loose}
        if self._is_local:
            # A link may lead to the root, from it, or from one place in it to another.
            more.update(self._by_real_paths(others))
            more.update(self._by_real_paths(f"{self._prefix}{path}" for path in self._of_linked(own)))
        return pa.concat_arrays([own, pa.array(sorted(more), pa.string())]) if more else own

    def _of_linked(self, own: pa.StringArray) -> list[str]:
        """Return the paths below the root that a link may lead to or from."""
        folders = pc.replace_substring_regex(own, _NAME, "")
        linked = [folder for folder in folders.unique().to_pylist() if self._is_linked(folder)]
        found: list[str] = own.filter(pc.is_in(folders, pa.array(linked, pa.string()))).to_pylist() if linked else []
        return found

    def _is_linked(self, folder: str) -> bool:
        """Return whether a directory below the root is behind a link, or holds links."""
        return self._is_moved(folder) or bool(self._links(folder))

    def _is_moved(self, folder: str) -> bool:
        above, _, name = folder.rstrip("/").rpartition("/")
        return bool(name) and (name in self._links(f"{above}/") or self._is_moved(above))

    def _links(self, folder: str) -> frozenset[str]:
        """Return the names of the links in a directory. To read its names takes less time than to look at each file."""
        if folder not in self._linked:
            try:
                with os.scandir(f"{self._prefix}{folder}") as entries:
                    found = frozenset(entry.name for entry in entries if entry.is_symlink())
            except OSError:
                # Each of its files is looked at by itself.
                found = frozenset({""})
            self._linked[folder] = found
        return self._linked[folder]

    def _by_real_paths(self, paths: Iterable[str]) -> Iterator[str]:
        for path in paths:
            above, _, name = path.rpartition("/")
            if above not in self._real:
                self._real[above] = os.path.join(os.path.realpath(above), "")
            for real in (f"{self._real[above]}{name}", os.path.realpath(path) if os.path.islink(path) else path):
                if real != path and real.startswith(self._real_root):
                    yield real[len(self._real_root) :]


def _tight(path: str) -> str:
    """Return a path without empty parts and dots, as stores list it."""
    return "/".join(part for part in path.split("/") if part not in ("", "."))
