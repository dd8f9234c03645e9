"""Keys by which Spark finds what is known of a file: hashes of the file's name or path, as its metadata spells them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from deltaberg.spark.hashes import xxhash64
from deltaberg.storage.location import Location, parse_location

__all__ = ["encoded", "file_keys", "spelled"]

#: The characters that Spark escapes in a URI; letters beyond ASCII stay as they are.
_ESCAPED = re.compile(r"[^A-Za-z0-9/_\-!.~'()*,;:$&+=@\x80-\U0010ffff]")


def file_keys(locations: Sequence[str], spelling: str) -> tuple[str, list[list[int]]] | None:
    """Return keys that tell files apart.

    The name of a file is shorter than its path and is hashed for each row, so that it is used where no two files have
    the same name, nor the same hash of it.

    Parameters
    ----------
    spelling
        How Spark spells the scheme of the locations.

    Returns
    -------
    tuple or None
        The field of ``_metadata`` to hash, and for each file the hashes that stand for it: one for each way in which
        Spark may spell its path. None if the hashes of the paths do not tell the files apart either.
    """
    places = [parse_location(location) for location in locations]
    names = [[xxhash64(encoded(place.path.rpartition("/")[2]))] for place in places]
    if len({key for (key,) in names}) == len(names):
        return "file_name", names
    paths = []
    for place in places:
        path = encoded(spelled(place, spelling))
        # Hadoop drops an empty authority, and Java's URIs keep it.
        variants = {path, path.replace("file:///", "file:/", 1)} if spelling == "file" else {path}
        paths.append(sorted(map(xxhash64, variants)))
    different = {key for keys in paths for key in keys}
    return ("file_path", paths) if len(different) == sum(map(len, paths)) else None


def spelled(place: Location, spelling: str) -> str:
    """Return a location as the path that Spark is to open, with its scheme spelled in this way."""
    return f"{spelling}://{place.authority}/{place.path.removeprefix('/')}"


def encoded(path: str) -> str:
    """Return a path as Spark's ``_metadata`` spells it."""
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", path)
