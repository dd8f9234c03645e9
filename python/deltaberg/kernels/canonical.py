"""One spelling of each path that log entries name (Delta protocol, "Add File and Remove File")."""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

__all__ = ["canonical_path"]


def canonical_path(path: str) -> bytes:
    """Return the bytes by which a path is compared: a writer may name a file in several ways (DL-REC-10).

    Examples
    --------
    >>> canonical_path("file:///t/a%20b"), canonical_path("/t/a b"), canonical_path("s3a://bucket/x")
    (b'/t/a b', b'/t/a b', b's3://bucket/x')
    """
    if path.startswith("file:"):
        rest = path[5:]
        if rest.startswith("//"):
            rest = rest[2:].removeprefix("localhost")
        path = rest if rest.startswith("/") else path
    elif path.startswith(("s3a://", "s3n://")):
        path = "s3://" + path[6:]
    return unquote_to_bytes(path)
