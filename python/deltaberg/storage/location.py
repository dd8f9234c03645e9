"""Where tables and files are: one canonical form for local paths and the URLs of stores.

Paths in Delta's metadata are URIs, which are decoded exactly once; Iceberg's are plain text. They are relative to the
table, or absolute. An absolute path is followed within the store of the table, or to where a location map leads.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.errors import InvalidArgumentError, UnsafePathError, has_signature, in_context
from deltaberg.hints import Hint, verbatim
from deltaberg.lossless_json import has_lone_surrogate
from deltaberg.workers import map_in_order

__all__ = ["Location", "LocationMap", "PathResolver", "decode_path", "parse_location", "spellings_of"]

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
#: A name below the table, to see where the others are.
_NAME = "name"
#: So many paths are worth starting threads.
_MANY_PATHS = 100_000
_MOST_THREADS = 16


class Location(NamedTuple):
    """A place in a store: ``authority`` is the bucket or container, and ``path`` is not percent-encoded.

    The path of a local file is absolute. The path in an object store does not begin with a slash.
    """

    scheme: str
    authority: str
    path: str

    @property
    def parent(self) -> Location:
        """The directory that it is in."""
        return self._replace(path=self.path.rpartition("/")[0])

    def join(self, relative: str) -> Location:
        """Return a location below this one; ``relative`` is decoded and uses slashes."""
        base = self.path.rstrip("/")
        joined = f"{base}/{relative}" if base or self.scheme == "file" else relative
        return self._replace(path=joined)

    def __str__(self) -> str:
        if self.scheme == "file":
            return self.path
        return f"{self.scheme}://{self.authority}/{self.path}"

    def same_store(self, other: Location) -> bool:
        """Return whether both locations are in one store: the local disk, or one bucket."""
        return (self.scheme, self.authority) == (other.scheme, other.authority)


def parse_location(text: str | os.PathLike[str]) -> Location:
    """Parse the location of a table: a local path, a ``file:`` URI or the URL of an object store.

    A ``~`` at the start of a local path is the home directory. What follows the bucket is not decoded: keys may contain
    any character.

    Raises
    ------
    InvalidArgumentError
        If the location is not text, names no known store, or contains credentials.

    Examples
    --------
    >>> parse_location("s3://bucket/a b/t/")
    Location(scheme='s3', authority='bucket', path='a b/t')
    """
    given: object = text
    raw = os.fspath(given) if isinstance(given, (str, os.PathLike)) else None
    if not isinstance(raw, str) or not raw:
        what = "an empty string" if raw == "" else f"a value of type {type(given).__name__}"
        raise InvalidArgumentError(f"{what} is not a location", hint="pass a path or a URL as a string")
    location = _parsed(raw)
    # Names of local files may be any bytes, but metadata holds none that are not UTF-8.
    if has_lone_surrogate(str(location)):
        raise InvalidArgumentError("a text that is not valid Unicode is not a location")
    if "\0" in str(location):
        raise InvalidArgumentError("a text with a zero byte is not a location")
    return location


def _parsed(raw: str) -> Location:
    scheme, separator, rest = raw.partition(":")
    scheme = scheme.lower()
    if not separator or len(scheme) == 1 or not scheme.isalnum() or (not rest.startswith("/") and scheme != "file"):
        return Location("file", "", os.path.abspath(os.path.expanduser(raw)))
    if scheme == "file":
        return Location("file", "", _local_part(rest))
    scheme = _ALIASES.get(scheme, scheme)
    if scheme not in _SCHEMES:
        raise InvalidArgumentError(
            f"there is no store for {scheme}://", hint=f"known are {', '.join(f'{known}://' for known in _SCHEMES)}"
        )
    if has_signature(raw):
        raise InvalidArgumentError(
            f"a location of {scheme}:// contains a signature or a token",
            hint=f"pass it in ⟪storage_options⟫{', as azure_storage_sas_token' if scheme in _WITH_CONTAINER else ''}",
        )
    authority, _, path = rest[2:].partition("/")
    return Location(scheme, _authority(scheme, authority), _normalized(path))


def _authority(scheme: str, authority: str) -> str:
    """Refuse credentials, because messages show locations. Azure's container@account.host contains none."""
    user, at, _ = authority.rpartition("@")
    # A secret can contain a slash, which ends the authority early. Names of buckets contain no colon.
    cut_short = scheme in ("s3", "gs") and ":" in authority and not authority.startswith("arn:")
    if cut_short or (at and (scheme not in _WITH_CONTAINER or ":" in user)):
        raise InvalidArgumentError(
            f"a location of {scheme}:// contains a user or a password",
            hint="pass credentials in ⟪storage_options⟫ or as properties of the catalog",
        )
    if not authority and scheme != "memory":
        raise InvalidArgumentError(
            f"a {scheme}:// location has no bucket", hint=f"write it like {scheme}://bucket/path"
        )
    return authority


def _local_part(rest: str, encoded: bool = True) -> str:
    """Return the path of a ``file:`` URI: file:/x, file:///x and file://localhost/x; a bare file:x is relative."""
    if rest.startswith("//"):
        host, _, path = rest[2:].partition("/")
        if host not in ("", "localhost"):
            named = host.rpartition("@")[2]
            raise InvalidArgumentError(
                f"file://{named}/ is on another machine", hint="only files of this machine can be opened"
            )
        rest = "/" + path
    return os.path.abspath(unquote(rest) if encoded else rest)


def _normalized(key: str) -> str:
    """Remove empty and ``.`` parts from a key: object stores count them as part of the name, but users do not."""
    return "/".join(part for part in key.split("/") if part not in ("", "."))


def spellings_of(location: Location) -> list[str]:
    """Return how metadata may spell a location as text, with the names of its scheme that other writers use.

    Examples
    --------
    >>> spellings_of(parse_location("/t")), spellings_of(parse_location("s3a://bucket/t"))
    (['/t', 'file:/t', 'file:///t'], ['s3://bucket/t', 's3a://bucket/t', 's3n://bucket/t'])
    """
    if location.scheme == "file":
        return [f"{start}{location.path}" for start in ("", "file:", "file://")]
    names = [location.scheme, *(name for name, known in _ALIASES.items() if known == location.scheme)]
    return [f"{name}://{location.authority}/{location.path}" for name in names]


def decode_path(raw: str) -> str:
    """Decode a recorded path, exactly once.

    Raises
    ------
    UnsafePathError
        If the decoded bytes are not UTF-8.
    """
    try:
        return unquote(raw, errors="strict") if "%" in raw else raw
    except UnicodeDecodeError:
        raise UnsafePathError("a path in the metadata does not decode to UTF-8", path=raw) from None


#: No name of a file has one, and columns of paths are searched for it as a whole.
_ZERO = re.compile(b"\0")


class PathResolver:
    """Turns the paths that metadata records into locations, and back.

    Parameters
    ----------
    root
        The location of the table.
    location_map
        A mapping from recorded prefixes to where the files are now.
    encoded
        Whether recorded paths are URIs, as Delta's are. Iceberg's are plain text, in which nothing is escaped.
    any_store
        Whether a prefix of the map applies to its path in any store: the same files are sometimes recorded with the
        name of the store, and sometimes without.
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
        # The longest prefix is tried first: all of them as text, and then as locations.
        self._texts = [(old.rstrip("/").removeprefix("./") + "/", parse_location(new)) for old, new in pairs]
        places = [(_absolute(old, encoded), parse_location(new)) for old, new in pairs if _is_place(old)]
        self._map = sorted(places, key=lambda pair: len(pair[0].path), reverse=True)

    def resolve(self, raw: str) -> Location:
        """Return the location of a recorded path, which may be relative to the table.

        Raises
        ------
        UnsafePathError
            If the path contains ``..`` or a zero byte, or leads to another store that no map names.
        """
        decoded = decode_path(raw) if self._encoded else raw
        if ".." in decoded.split("/") or "\0" in decoded:
            what = "a zero byte" if "\0" in decoded else "'..'"
            raise UnsafePathError(f"a path in the metadata contains {what}", path=raw)
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
            store = verbatim(f"{absolute.scheme}://{absolute.authority}/")
            raise UnsafePathError(
                "a path in the metadata leads to another store than that of the table",
                hint=f"to allow it, pass ⟪location_map={{'{store}': '{store}'}}⟫",
                path=raw,
                table=str(self.root),
            )
        return absolute

    def locate(self, paths: pa.ChunkedArray, prefix: str = "") -> pa.ChunkedArray:
        """Return the locations of recorded paths as text, as `resolve` gives them.

        Nearly all files have plain names below the table, which are joined all at once.

        Parameters
        ----------
        prefix
            What stands in front of such names: the location of the table as its metadata spells it, with a slash at the
            end, or nothing where names are relative to the table.
        """
        base = self._base(prefix)
        is_small = base is None or len(paths) < _MANY_PATHS
        threads = 1 if is_small else min(os.cpu_count() or 1, _MOST_THREADS)
        located = partial(self._located, prefix=prefix, base=base)
        return pa.chunked_array(map_in_order(threads, located, paths.chunks), pa.string())

    def _base(self, prefix: str) -> str | None:
        """Return what stands in front of the locations of names below a recorded prefix, if that is one place."""
        if not self._is_uniform(prefix):
            return None
        try:
            return str(self.resolve(f"{prefix}{_NAME}")).removesuffix(_NAME)
        except UnsafePathError:
            # There may be no file below.
            return None

    def _located(self, paths: pa.StringArray, prefix: str, base: str | None) -> pa.StringArray:
        if base is None:
            return self._resolved(paths)
        located = kernels.locate_paths(paths, prefix, base, self._encoded)
        characters = located.buffers()[2]
        has_zeros = characters is not None and _ZERO.search(characters) is not None
        if not located.null_count and not has_zeros:
            return located
        others = located.is_null()
        if has_zeros:
            others = pc.or_(others, pc.match_substring(located, "\0").fill_null(fill_value=True))
        return pc.replace_with_mask(located, others, self._resolved(paths.filter(others)))

    def _resolved(self, paths: pa.StringArray) -> pa.StringArray:
        with in_context(table=str(self.root)):
            return pa.array([str(self.resolve(path)) for path in paths.to_pylist()], pa.string())

    def _is_uniform(self, prefix: str) -> bool:
        """Return whether all names below a recorded prefix lead to one place below.

        They do unless the location map has a prefix for some of them.
        """
        if not prefix:
            return all(text.startswith("/") or text.partition(":")[2].startswith("/") for text, _ in self._texts)
        prefix = prefix.removeprefix("./")
        if any(text.startswith(prefix) and text != prefix for text, _ in self._texts):
            return False
        if any(prefix.startswith(text) for text, _ in self._texts):
            return True
        place = self.absolute(prefix) or self.root
        return not any(_below_anywhere(old, place) for old, _ in self._map)

    def record(self, place: Location, base: str | None = None) -> str:
        """Return what metadata records for a place; `resolve` returns the place for it.

        Parameters
        ----------
        place
            Where a file is.
        base
            The location of the table as its metadata spells it, which stands in front of paths below the table. Without
            it, encoded paths below the table are relative, and others begin with the root.

        Raises
        ------
        InvalidArgumentError
            Where the table is read by a location map, which no other reader has.
        UnsafePathError
            If the name is not valid Unicode.

        Examples
        --------
        >>> root = parse_location("s3://bucket/orders")
        >>> PathResolver(root).record(root.join("day=a%2Fb/1 2.parquet"))
        'day=a%252Fb/1%202.parquet'
        >>> PathResolver(root, encoded=False).record(root.join("data/1 2.parquet"), "s3a://bucket/orders")
        's3a://bucket/orders/data/1 2.parquet'
        """
        if self._texts:
            raise InvalidArgumentError(
                Hint("no path can be recorded in a table that is opened with ⟪location_map⟫"),
                hint="open the table without ⟪location_map⟫",
                table=str(self.root),
            )
        rest = _below(place, self.root)
        if not rest:
            scheme = f"{place.scheme}://{place.authority}{'' if place.scheme == 'file' else '/'}"
            return scheme + self._spelled(place.path) if self._encoded else str(place)
        if base is None and not self._encoded:
            base = str(self.root)
        return self._spelled(rest) if base is None else f"{base.rstrip('/')}/{self._spelled(rest)}"

    def _spelled(self, path: str) -> str:
        try:
            # What is not escaped is what Hadoop leaves alone too, but for the colon, which could end a scheme.
            return quote(path, safe="/=+,@!$&'()*;") if self._encoded else path
        except UnicodeEncodeError:
            raise UnsafePathError("the name of a file is not valid Unicode", path=repr(path)) from None

    def absolute(self, raw: str) -> Location | None:
        """Return the location that an absolute path names, without the map; None if the path is relative."""
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
            raise UnsafePathError(f"a path in the metadata cannot be followed: {error.message}", path=raw) from None


def _is_place(raw: str) -> bool:
    """Return whether a recorded prefix is a valid absolute path or URI."""
    if not raw.startswith("/") and ":/" not in raw:
        return False
    try:
        _absolute(raw, encoded=False)
    except InvalidArgumentError:
        return False
    return True


def _absolute(raw: str, encoded: bool) -> Location:
    """Parse an absolute path or URI as metadata records it, decoded once where it is encoded."""
    if raw.startswith("/"):
        return Location("file", "", os.path.normpath(decode_path(raw) if encoded else raw))
    # A ? or # is part of the name: not every writer escapes it, as a URI requires.
    named, _, after = raw.partition(":")
    scheme = _ALIASES.get(named.lower(), named.lower())
    if scheme == "file":
        return Location("file", "", os.path.normpath(_local_part(after, encoded)))
    # The store in memory needs no name. Elsewhere, one slash too many stands before the bucket.
    rest = after[2:] if scheme == "memory" else after.lstrip("/")
    authority, _, path = rest.partition("/") if after.startswith("//") else ("", "", after.lstrip("/"))
    if scheme not in _WITH_CONTAINER:
        # Old Hadoop writers recorded access keys in front of the bucket. They are not part of its name.
        authority = authority.rpartition("@")[2]
    return Location(scheme, authority, _normalized(decode_path(path) if encoded else path))


def _below(place: Location, prefix: Location) -> str | None:
    """Return the path of a location relative to a prefix; None if it is elsewhere."""
    if not place.same_store(prefix):
        return None
    base = prefix.path.rstrip("/")
    if place.path == base or not base:
        return place.path.lstrip("/") if not base else ""
    return place.path[len(base) + 1 :] if place.path.startswith(base + "/") else None


def _below_anywhere(place: Location, prefix: Location) -> str | None:
    """Return the path of a location relative to a prefix, whatever stores they name."""
    rest, base = place.path.lstrip("/"), prefix.path.strip("/") + "/"
    return rest[len(base) :] if rest.startswith(base) else None
