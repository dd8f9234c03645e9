"""Where the paths lead that Iceberg's metadata records. They are no URIs: nothing in them is decoded."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.storage import PathResolver

__all__ = ["locate_paths"]


def locate_paths(paths: pa.StringArray, resolver: PathResolver, location: str) -> pa.StringArray:
    """Give where recorded paths lead; nearly all are plain names below the table, which need no thought each."""
    prefix = location.rstrip("/") + "/"
    plain = _plain(paths, prefix)
    if not pc.any(plain, min_count=0).as_py():
        return pa.array([str(resolver.resolve(path)) for path in paths.to_pylist()], pa.string())
    sample = paths.filter(plain)[0].as_py()
    root = str(resolver.resolve(sample)).removesuffix(sample[len(prefix) :])
    located = paths
    if root != prefix:
        located = pc.binary_replace_slice(paths, start=0, stop=len(prefix.encode()), replacement=root)
    if pc.all(plain, min_count=0).as_py():
        return located
    others = [str(resolver.resolve(path)) for path in paths.filter(pc.invert(plain)).to_pylist()]
    return pc.replace_with_mask(located, pc.invert(plain), pa.array(others, pa.string()))


def _plain(paths: pa.StringArray, prefix: str) -> pa.BooleanArray:
    """Say which paths begin with the prefix and do not climb out of it.

    Nothing else in a path has a meaning of its own: object stores count empty parts and dots as names.
    """
    plain = pc.starts_with(paths, prefix).fill_null(False)
    # A look at all text at once is much faster than one at each path, and nearly always enough.
    if b"/.." in _text(paths):
        plain = pc.and_(plain, pc.invert(pc.match_substring(paths, "/..")))
    return plain


def _text(paths: pa.StringArray) -> bytes:
    """Give the bytes of all paths, one behind the other."""
    if not len(paths):
        return b""
    _, offsets, data = paths.buffers()
    ends = pa.Array.from_buffers(pa.int32(), len(paths) + 1, [None, offsets], offset=paths.offset)
    first, last = ends[0].as_py(), ends[-1].as_py()
    found: bytes = data.slice(first, last - first).to_pybytes() if last > first else b""
    return found
