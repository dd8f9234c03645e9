"""Where the paths that metadata records lead."""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

import pyarrow as pa

from deltaberg.errors import InvalidArgumentError

__all__ = ["locate_paths"]


def locate_paths(paths: pa.StringArray, prefix: str, base: str, encoded: bool) -> pa.StringArray:
    """Return the locations of names below the table: decoded, in canonical form, and joined.

    Empty segments and ``.`` are left out. A path that is not such a name, that contains ``..`` or does not decode to
    UTF-8, becomes null: the caller resolves or refuses it.

    Parameters
    ----------
    paths
        Paths as metadata records them.
    prefix
        What stands in front of names; empty where they are relative paths.
    base
        The location of the table, with what separates it from names.
    encoded
        Whether paths are URIs, in which characters are escaped.
    """
    if paths.type != pa.string():
        raise InvalidArgumentError("Cast error: an array of strings was expected")
    names = (_name(path, prefix, encoded) for path in paths.to_pylist())
    return pa.array([None if name is None else base + name for name in names], pa.string())


def _name(path: str | None, prefix: str, encoded: bool) -> str | None:
    if path is None or not path.startswith(prefix):
        return None
    name = path[len(prefix) :]
    if not prefix and _may_be_absolute(name):
        return None
    if encoded and "%" in name:
        try:
            name = unquote_to_bytes(name).decode()
        except UnicodeDecodeError:
            return None
        # Only once it is decoded, it may look like a prefix of a location map.
        if not prefix and _may_be_absolute(name):
            return None
    segments = [segment for segment in name.split("/") if segment not in ("", ".")]
    return None if ".." in segments else "/".join(segments) or None


def _may_be_absolute(path: str) -> bool:
    """Return whether a path begins with a slash, or perhaps with a scheme."""
    path = path.removeprefix("./")
    return path.startswith("/") or path.partition(":")[2].startswith("/")
