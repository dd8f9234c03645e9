"""Where the paths recorded in Iceberg's metadata lead. They are not URIs: nothing in them is decoded."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.storage import PathResolver

__all__ = ["locate_paths"]

#: A name below the table, to see where the others are.
_NAME = "name"


def locate_paths(paths: pa.StringArray, resolver: PathResolver, location: str) -> pa.StringArray:
    """Return where recorded paths lead, as the resolver says.

    Nearly all of them are plain names below the table, which are resolved all at once.

    Parameters
    ----------
    location
        The location of the table as its metadata records it.
    """
    prefix = location.rstrip("/") + "/"
    plain = _plain(paths, prefix)
    if not resolver.is_uniform(prefix) or not pc.any(plain, min_count=0).as_py():
        return _resolved(paths, resolver)
    root = str(resolver.resolve(f"{prefix}{_NAME}")).removesuffix(_NAME)
    located = paths
    if root != prefix:
        located = pc.binary_replace_slice(paths, start=0, stop=len(prefix.encode()), replacement=root)
    if pc.all(plain, min_count=0).as_py():
        return located
    others = _resolved(paths.filter(pc.invert(plain)), resolver)
    return pc.replace_with_mask(located, pc.invert(plain), others)


def _resolved(paths: pa.StringArray, resolver: PathResolver) -> pa.StringArray:
    return pa.array([str(resolver.resolve(path)) for path in paths.to_pylist()], pa.string())


def _plain(paths: pa.StringArray, prefix: str) -> pa.BooleanArray:
    """Return which paths begin with the prefix, and have no dots and no empty segments that would be resolved."""
    plain = pc.starts_with(paths, prefix).fill_null(False)
    below = pc.binary_replace_slice(paths, start=0, stop=len(prefix.encode()), replacement="/")
    # Searching all text at once is much faster than searching each path, and nearly always enough.
    text = _text(below)
    if b"/." in text or b"//" in text:
        plain = pc.and_(plain, pc.invert(pc.match_substring_regex(below, r"/\.{0,2}(/|$)")))
    return plain


def _text(paths: pa.StringArray) -> bytes:
    """Return the bytes of all paths, concatenated."""
    if not len(paths):
        return b""
    _, offsets, data = paths.buffers()
    ends = pa.Array.from_buffers(pa.int32(), len(paths) + 1, [None, offsets], offset=paths.offset)
    first, last = ends[0].as_py(), ends[-1].as_py()
    found: bytes = data.slice(first, last - first).to_pybytes() if last > first else b""
    return found
