"""The paths that files of a log have below the root of the table (Delta protocol, "Data Files")."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.actions.log_action import find_actions
from deltaberg.delta.data.deletion_vectors import locate_vectors
from deltaberg.errors import UnsafePathError
from deltaberg.schema.arrow import as_array
from deltaberg.storage.location import PathResolver

__all__ = ["OwnPaths"]


class OwnPaths:
    """Finds which files that actions name are below the root of the table, where clean-up looks.

    Parameters
    ----------
    resolver
        The resolver of the table's root, without a map.
    """

    def __init__(self, resolver: PathResolver) -> None:
        self._resolver = resolver
        self._prefix = f"{str(resolver.root).rstrip('/')}/"
        self._real_root = os.path.join(os.path.realpath(resolver.root.path), "")
        #: What directories are in truth.
        self._real: dict[str, str] = {}

    def of_files(self, files: pa.Table) -> Iterator[pa.StringArray]:
        """Return the paths of data files, relative to the root and decoded, and those of their deletion vectors.

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
        yield self._below(self._located(files.column("path")))
        vectors = as_array(files.column("deletionVector"))
        if vectors.null_count < len(vectors):
            yield self._below(pc.struct_field(self._vectors(vectors), "location").drop_null())

    def of_changes(self, data: bytes) -> pa.StringArray:
        """Return the paths of the change data files that a log entry names."""
        paths = [action["path"] for _, _, action in find_actions(data, "cdc")]
        return self._below(self._located(pa.chunked_array([pa.array(paths, pa.string())])))

    def _vectors(self, descriptors: pa.StructArray) -> pa.StructArray:
        try:
            return locate_vectors(descriptors, self._resolver)
        except UnsafePathError:
            # Vectors in another store are named by absolute paths.
            kind, path = (pc.struct_field(descriptors, name) for name in ("storageType", "pathOrInlineDv"))
            absolute = pc.fill_null(pc.equal(kind, "p"), False)
            located = locate_vectors(descriptors.filter(pc.invert(absolute)), self._resolver)
            elsewhere = self._located(pa.chunked_array([path.filter(absolute)]))
            texts = pa.concat_arrays([pc.struct_field(located, "location"), as_array(elsewhere)])
            return pa.StructArray.from_arrays([texts], ["location"])

    def _located(self, paths: pa.ChunkedArray) -> pa.ChunkedArray:
        try:
            return self._resolver.locate(paths)
        except UnsafePathError:
            located = [self._text_of(path) for path in paths.to_pylist()]
            return pa.chunked_array([pa.array(located, pa.string()).drop_null()])

    def _text_of(self, recorded: str) -> str | None:
        try:
            return str(self._resolver.resolve(recorded))
        except UnsafePathError:
            absolute = self._resolver.absolute(recorded)
            if absolute is None or absolute.same_store(self._resolver.root):
                raise
            return None

    def _below(self, located: pa.ChunkedArray | pa.StringArray) -> pa.StringArray:
        texts = as_array(located) if isinstance(located, pa.ChunkedArray) else located
        inside = pc.starts_with(texts, self._prefix)
        own = pc.utf8_slice_codeunits(texts.filter(inside), len(self._prefix))
        if self._resolver.root.scheme == "file" and len(own) < len(texts):
            # A link may lead to the root, or from it, so that one file has several absolute paths.
            others = map(self._by_real_path, texts.filter(pc.invert(inside)).to_pylist())
            own = pa.concat_arrays([own, pa.array([path for path in others if path is not None], pa.string())])
        return own

    def _by_real_path(self, path: str) -> str | None:
        above, _, name = path.rpartition("/")
        if above not in self._real:
            self._real[above] = os.path.join(os.path.realpath(above), "")
        directory = self._real[above]
        return f"{directory[len(self._real_root) :]}{name}" if directory.startswith(self._real_root) else None
