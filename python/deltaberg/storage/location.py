"""Where tables and files are: one canonical form for local paths and the URLs of stores.

Paths in metadata are URIs, decoded exactly once. They are relative to the table, or absolute; an absolute one is
followed on the store of the table, or where a location map says.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote

from deltaberg.errors import InvalidArgumentError, UnsafePathError

__all__ = ["Location", "LocationMap", "PathResolver", "decode_path", "parse_location"]

#: Recorded prefixes to where the files are now, or "auto".
LocationMap = Mapping[str, str]

_ALIASES = {
    "s3a": "s3",
    "s3n": "s3",
    "gcs": "gs",
    "adl": "abfs",
    "azure": "az",
    "abfss": "abfs",
    "wasb": "abfs",
    "wasbs": "abfs",
}
_SCHEMES = ("file", "s3", "gs", "az", "abfs", "memory")
#: The schemes in which a container stands in front of an @.
_WITH_CONTAINER = ("az", "abfs")
#: A scheme, and a user with a password.
_USER = re.compile("^([A-Za-z][A-Za-z0-9+.-]*:/{1,2})[^/@]*:[^/]*@")


class Location(NamedTuple):
    """A place in a store: ``authority`` is the bucket or container, ``path`` has no percent escapes.

    The path of a local file is absolute; the one in an object store has no slash in front.
    """

    scheme: str
    authority: str
    path: str

    def join(self, relative: str) -> Location:
        """Give a place below this one; ``relative`` is decoded and uses slashes."""
        base = self.path.rstrip("/")
        joined = f"{base}/{relative}" if base or self.scheme == "file" else relative
        return self._replace(path=joined)

    def __str__(self) -> str:
        if self.scheme == "file":
            return self.path
        return f"{self.scheme}://{self.authority}/{self.path}"

    def same_store(self, other: Location) -> bool:
        """Say whether both are in one store: the local disk, or one bucket."""
        return (self.scheme, self.authority) == (other.scheme, other.authority)


def parse_location(text: str | os.PathLike[str]) -> Location:
    """Read where a table is: a local path, a ``file:`` URI or the URL of an object store.

    A ``~`` at the start of a local path is the home directory.

    The text after the bucket is taken as it stands, not decoded: object stores take any character in a key.

    Examples
    --------
    >>> parse_location("s3://bucket/a b/t/")
    Location(scheme='s3', authority='bucket', path='a b/t')
    """
    given: object = text
    raw = os.fspath(given) if isinstance(given, (str, os.PathLike)) else None
    if not isinstance(raw, str) or not raw:
        what = "an empty text" if raw == "" else f"a value of type {type(given).__name__}"
        raise InvalidArgumentError(f"{what} is no location", hint="pass a path or a URL, as text")
    scheme, separator, rest = raw.partition(":")
    scheme = scheme.lower()
    if not separator or len(scheme) == 1 or not scheme.isalnum() or (not rest.startswith("/") and scheme != "file"):
        return Location("file", "", os.path.normpath(os.path.abspath(os.path.expanduser(raw))))
    if scheme == "file":
        return Location("file", "", os.path.normpath(_local_part(rest)))
    scheme = _ALIASES.get(scheme, scheme)
    if scheme not in _SCHEMES:
        raise InvalidArgumentError(
            f"there is no store for {scheme}://", hint=f"known are {', '.join(f'{known}://' for known in _SCHEMES)}"
        )
    authority, _, path = rest[2:].partition("/")
    return Location(scheme, _authority(scheme, authority), _normalized(path))


def _authority(scheme: str, authority: str) -> str:
    """Refuse credentials: locations are shown in messages. Azure's container@account.host has none."""
    user, at, _ = authority.rpartition("@")
    # Names of buckets have no colon, but secrets have slashes, which end the authority.
    cut_short = scheme in ("s3", "gs") and ":" in authority and not authority.startswith("arn:")
    if cut_short or (at and (scheme not in _WITH_CONTAINER or ":" in user)):
        raise InvalidArgumentError(
            f"a {scheme}:// location has a user or a password in front of its bucket",
            hint="pass credentials in storage_options, or as properties of the catalog",
        )
    if not authority and scheme != "memory":
        raise InvalidArgumentError(f"a {scheme}:// location names its bucket after the slashes")
    return authority


def _without_user(text: str) -> str:
    """Take a user with a password out of a recorded URL, for messages."""
    return _USER.sub(r"\1***@", text)


def _local_part(rest: str, encoded: bool = True) -> str:
    """Give the path of a ``file:`` URI: file:/x, file:///x and file://localhost/x; a bare file:x is relative."""
    if rest.startswith("//"):
        host, _, path = rest[2:].partition("/")
        if host not in ("", "localhost"):
            named = host.rpartition("@")[2]
            raise InvalidArgumentError(f"file://{named}/ names another machine", hint="local files only")
        rest = "/" + path
    return os.path.abspath(unquote(rest) if encoded else rest)


def _normalized(key: str) -> str:
    """Take empty and ``.`` parts out of a key; object stores count them as part of the name, users do not."""
    return "/".join(part for part in key.split("/") if part not in ("", "."))


def decode_path(raw: str) -> str:
    """Decode a path of the log exactly once.

    Raises
    ------
    UnsafePathError
        Where the escapes stand for bytes that are not UTF-8.
    """
    try:
        return unquote(raw, errors="strict") if "%" in raw else raw
    except UnicodeDecodeError:
        raise UnsafePathError("a path in the metadata is not UTF-8 once it is decoded", path=raw) from None


class PathResolver:
    """Turns the paths that metadata records into places.

    Parameters
    ----------
    root
        Where the table is.
    location_map
        Recorded prefixes to where the files are now.
    encoded
        Whether recorded paths are URIs, as Delta's are; Iceberg's are plain names, in which nothing is escaped.
    any_store
        Whether a prefix of the map stands for its path in whichever store: the same files are at times recorded with
        and without the name of the store.
    """

    def __init__(
        self,
        root: Location,
        location_map: LocationMap | None = None,
        encoded: bool = True,
        any_store: bool = False,
    ) -> None:
        self.root = root
        self._encoded = encoded
        self._any_store = any_store
        pairs = sorted((location_map or {}).items(), key=lambda pair: len(pair[0]), reverse=True)
        # The longest prefix speaks first: as text, and where that says nothing as a place.
        self._texts = [(old.rstrip("/").removeprefix("./") + "/", parse_location(new)) for old, new in pairs]
        places = [(_absolute(old, encoded), parse_location(new)) for old, new in pairs if _is_place(old)]
        self._map = sorted(places, key=lambda pair: len(pair[0].path), reverse=True)

    def resolve(self, raw: str) -> Location:
        """Give the place of a recorded path, which may be relative to the table.

        Raises
        ------
        UnsafePathError
            Where the path climbs out with ``..``, or leads to another store that no map names.
        """
        decoded = decode_path(raw) if self._encoded else raw
        if ".." in decoded.split("/"):
            raise UnsafePathError("a path in the metadata climbs out of its directory", path=raw)
        for prefix, new in self._texts:
            if decoded.removeprefix("./").startswith(prefix):
                return new.join(_normalized(decoded.removeprefix("./")[len(prefix) :]))
        absolute = self.absolute(raw)
        if absolute is None:
            return self.root.join(_normalized(decoded))
        for old, new in self._map:
            rest = _below_anywhere(absolute, old) if self._any_store else _below(absolute, old)
            if rest is not None:
                return new.join(rest) if rest else new
        if not absolute.same_store(self.root):
            store = f"{absolute.scheme}://{absolute.authority}/"
            raise UnsafePathError(
                "a path in the metadata leads to another store than the table's",
                hint=f"name it in location_map, as in location_map={{'{store}': '{store}'}}",
                path=_without_user(raw),
                table=str(self.root),
            )
        return absolute

    def absolute(self, raw: str) -> Location | None:
        """Give the place that an absolute path names, unmapped; None where the path is relative."""
        if raw.startswith("/"):
            if self.root.scheme == "file":
                return _absolute(raw, self._encoded)
            return Location(self.root.scheme, self.root.authority, _absolute(raw, self._encoded).path.lstrip("/"))
        scheme, separator, rest = raw.partition(":")
        if not separator or not rest.startswith("/") or not scheme.replace("+", "").isalnum():
            return None
        try:
            return _absolute(raw, self._encoded)
        except InvalidArgumentError as error:
            raise UnsafePathError(f"a path in the metadata leads away: {error.message}", path=raw) from None


def _is_place(raw: str) -> bool:
    """Say whether a recorded prefix is an absolute path or URI that can be read as one."""
    if not raw.startswith("/") and ":/" not in raw:
        return False
    try:
        _absolute(raw, encoded=False)
    except InvalidArgumentError:
        return False
    return True


def _absolute(raw: str, encoded: bool) -> Location:
    """Read an absolute path or URI as metadata records it, decoded once where it is encoded."""
    if raw.startswith("/"):
        return Location("file", "", os.path.normpath(decode_path(raw) if encoded else raw))
    # What follows a ? or # belongs to the name: it would be percent-encoded in a URI, and is not always.
    named, _, after = raw.partition(":")
    scheme = _ALIASES.get(named.lower(), named.lower())
    if scheme == "file":
        return Location("file", "", os.path.normpath(_local_part(after, encoded)))
    authority, _, path = after.lstrip("/").partition("/") if after.startswith("//") else ("", "", after.lstrip("/"))
    if scheme not in _WITH_CONTAINER:
        # Old writers of Hadoop recorded their keys in front of the bucket, of whose name they are no part.
        authority = authority.rpartition("@")[2]
    return Location(scheme, authority, _normalized(decode_path(path) if encoded else path))


def _below(place: Location, prefix: Location) -> str | None:
    """Give the part of a place below a prefix; None where it is elsewhere."""
    if not place.same_store(prefix):
        return None
    base = prefix.path.rstrip("/")
    if place.path == base or not base:
        return place.path.lstrip("/") if not base else ""
    return place.path[len(base) + 1 :] if place.path.startswith(base + "/") else None


def _below_anywhere(place: Location, prefix: Location) -> str | None:
    """Give the part of a place below a prefix, whichever store each of them is said to be in."""
    rest, base = place.path.lstrip("/"), prefix.path.strip("/") + "/"
    return rest[len(base) :] if rest.startswith(base) else None
