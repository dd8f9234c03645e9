"""A REST catalog in memory, reached by sockets that are none: no thread, no port, and a clock that tests move.

Requests and answers are the bytes of HTTP, so that the client under test is the whole one. What becomes of a request
is told by a `Twist`.
"""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from email.parser import BytesHeaderParser
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from deltaberg.catalogs import rest_catalog as rest
from deltaberg.catalogs.rest import transport
from tests.catalogs.rest_server import Answer, Asked, error_body

__all__ = ["MemoryCatalog", "Twist", "reached"]

Levels = tuple[str, ...]

#: What the catalog says to everybody.
_FIXED = {
    "/v1/oauth/tokens": {"access_token": "granted-token", "token_type": "bearer"},
    "/v1/config": {"defaults": {}, "overrides": {}},
}
_numbers = itertools.count()


@dataclass
class Twist:
    """What happens to a request on its way.

    Parameters
    ----------
    matches
        To which requests.
    is_carried_out
        Whether the catalog receives them.
    says
        Returns what is answered, given the answer of the catalog: bytes of HTTP, which come one by one where the twist
        is slow. None breaks the connection.
    times
        To how many requests.
    seconds
        How long each byte of the answer takes; 0 lets all of them come at once.
    """

    matches: Callable[[Asked], bool]
    is_carried_out: bool
    says: Callable[[Answer], bytes | None]
    times: int = 1
    seconds: float = 0.0


@dataclass
class MemoryCatalog:
    """What the catalog holds, and the time."""

    warehouse: str
    namespaces: dict[Levels, dict[str, str]] = field(default_factory=dict)
    tables: dict[Levels, dict[str, Any]] = field(default_factory=dict)
    twists: list[Twist] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    now: float = 0.0
    uri: str = field(default_factory=lambda: f"http://catalog-{next(_numbers)}.test")

    def answer(self, asked: Asked) -> Answer:
        """Answer a request."""
        fixed = _FIXED.get(asked.path)
        if fixed is not None:
            return 200, {}, fixed
        parts = [unquote(part) for part in asked.path.removeprefix("/v1/").split("/")]
        body = json.loads(asked.body) if asked.body else {}
        if parts == ["transactions", "commit"]:
            return self._committed(body["table-changes"], lambda _: (204, {}, None))
        if parts == ["tables", "rename"]:
            return self._renamed(_named(body["source"]), _named(body["destination"]))
        if len(parts) == 1:
            return self._of_namespaces(asked, body)
        levels = tuple(parts[1].split("\x1f"))
        if levels not in self.namespaces:
            return _error(404, "NoSuchNamespaceException")
        if len(parts) == 2 or parts[2] == "properties":
            return self._of_namespace(levels, asked, body)
        if parts[2] == "register":
            return self._registered((*levels, body["name"]), body["metadata-location"])
        if len(parts) == 3:
            if asked.method == "POST":
                return self._staged(levels, body)
            named = [{"namespace": list(one[:-1]), "name": one[-1]} for one in self.tables if one[:-1] == levels]
            return 200, {}, {"identifiers": named}
        return self._of_table((*levels, parts[3]), asked, body)

    def _of_namespaces(self, asked: Asked, body: dict[str, Any]) -> Answer:
        if asked.method == "GET":
            return 200, {}, {"namespaces": [list(one) for one in self.namespaces]}
        levels = tuple(body["namespace"])
        if levels in self.namespaces:
            return _error(409, "AlreadyExistsException")
        self.namespaces[levels] = dict(body["properties"])
        return 200, {}, body

    def _of_namespace(self, levels: Levels, asked: Asked, body: dict[str, Any]) -> Answer:
        kept = self.namespaces[levels]
        if asked.method == "DELETE":
            if any(one[:-1] == levels for one in self.tables):
                return _error(409, "NamespaceNotEmptyException")
            del self.namespaces[levels]
            return 204, {}, None
        if asked.method == "POST":
            for name in body["removals"]:
                kept.pop(name, None)
            kept.update(body["updates"])
            return 200, {}, {"updated": list(body["updates"]), "removed": body["removals"], "missing": []}
        return 200, {}, {"namespace": list(levels), "properties": kept}

    def _of_table(self, levels: Levels, asked: Asked, body: dict[str, Any]) -> Answer:
        if asked.method == "POST":
            return self._committed([{**body, "levels": levels}], lambda found: (200, {}, found))
        if levels not in self.tables:
            return _error(404, "NoSuchTableException")
        if asked.method == "DELETE":
            del self.tables[levels]
            return 204, {}, None
        return 200, {}, self.tables[levels]

    def _renamed(self, old: Levels, new: Levels) -> Answer:
        if old not in self.tables:
            return _error(404, "NoSuchTableException")
        if new in self.tables:
            return _error(409, "AlreadyExistsException")
        self.tables[new] = self.tables.pop(old)
        return 204, {}, None

    def _registered(self, levels: Levels, location: str) -> Answer:
        if levels in self.tables:
            return _error(409, "AlreadyExistsException")
        known = next(one for one in self.tables.values() if one["metadata-location"] == location)
        self.tables[levels] = dict(known)
        return 200, {}, known

    def _staged(self, namespace: Levels, body: dict[str, Any]) -> Answer:
        from pyiceberg.partitioning import PartitionSpec
        from pyiceberg.schema import Schema
        from pyiceberg.table.metadata import new_table_metadata
        from pyiceberg.table.sorting import SortOrder

        if (*namespace, body["name"]) in self.tables:
            return _error(409, "AlreadyExistsException")
        staged = new_table_metadata(
            location=f"{self.warehouse}/{body['name']}-{next(_numbers)}",
            schema=Schema.model_validate(body["schema"]),
            partition_spec=PartitionSpec.model_validate(body["partition-spec"]),
            sort_order=SortOrder.model_validate(body["write-order"]),
            properties=body["properties"],
        )
        return 200, {}, {"metadata": json.loads(staged.model_dump_json())}

    def _committed(self, changes: list[dict[str, Any]], told: Callable[[dict[str, Any]], Answer]) -> Answer:
        """Carry out changes of tables: all of them, or none."""
        from pyiceberg.catalog import MetastoreCatalog
        from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError
        from pyiceberg.table import CommitTableRequest
        from pyiceberg.table.metadata import TableMetadataUtil
        from pyiceberg.table.update import update_table_metadata

        committed: dict[Levels, dict[str, Any]] = {}
        for change in changes:
            levels = change.pop("levels", None) or _named(change["identifier"])
            sent = CommitTableRequest.model_validate(change)
            stored = self.tables.get(levels)
            base = None if stored is None else TableMetadataUtil.parse_obj(stored["metadata"])
            if base is None and not any(one.type == "assert-create" for one in sent.requirements):
                return _error(404, "NoSuchTableException")
            try:
                for requirement in sent.requirements:
                    requirement.validate(base)
            except (CommitFailedException, TableAlreadyExistsError) as error:
                return 409, {}, error_body(409, "CommitFailedException", str(error))
            start = MetastoreCatalog._empty_table_metadata() if base is None else base
            location = None if stored is None else stored["metadata-location"]
            metadata = update_table_metadata(
                start, sent.updates, enforce_validation=base is None, metadata_location=location
            )
            number = next(_numbers)
            committed[levels] = {
                "metadata-location": f"{metadata.location}/metadata/{number:05d}-x.metadata.json",
                "metadata": json.loads(metadata.model_dump_json()),
            }
        self.tables |= committed
        return told(next(iter(committed.values())))


def _named(value: dict[str, Any]) -> Levels:
    return (*value["namespace"], value["name"])


def _error(status: int, kind: str) -> Answer:
    return status, {}, error_body(status, kind, f"because of {kind}")


def as_http(answer: Answer, *, counted: bool = True) -> bytes:
    """Return the bytes of an answer; without a count of its body it ends with the connection."""
    status, headers, body = answer
    data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    count = {"Content-Length": str(len(data))} if counted else {}
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in {**headers, **count}.items()), "", ""]
    return "\r\n".join(lines).encode() + data


class _Stream(io.RawIOBase):
    """The bytes of an answer, at the pace of the twist."""

    def __init__(self, catalog: MemoryCatalog, data: bytes | None, seconds: float) -> None:
        self._catalog, self._data, self._seconds = catalog, data, seconds

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Give what there is."""
        if self._data is None:
            raise ConnectionResetError(104, "Connection reset by peer")
        size = min(len(buffer), len(self._data), 1 if self._seconds else 1 << 20)
        self._catalog.now += self._seconds
        if self._seconds and not size:
            # A slow answer never ends: blanks follow.
            buffer[:1] = b" "
            return 1
        buffer[:size] = self._data[:size]
        self._data = self._data[size:]
        return size


class _Socket:
    """What the client takes for a connection."""

    def __init__(self, catalog: MemoryCatalog) -> None:
        self._catalog, self._sent = catalog, b""

    def sendall(self, data: Any) -> None:
        """Keep what is sent."""
        self._sent += bytes(data)

    def gettimeout(self) -> float:
        """Return the timeout that is set."""
        return 60.0

    def settimeout(self, _: float) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def makefile(self, _: str) -> io.BufferedReader:
        """Answer what was sent."""
        head, body = self._sent.split(b"\r\n\r\n", 1)
        first, rest = head.split(b"\r\n", 1)
        method, target = first.decode().split(" ")[:2]
        headers: Message = BytesHeaderParser().parsebytes(rest)
        parts = urlsplit(target)
        query = parse_qs(parts.query, keep_blank_values=True)
        asked = Asked(method, parts.path, query, headers, body.decode())
        catalog = self._catalog
        catalog.asked.append(asked)
        twist = next((one for one in catalog.twists if one.times > 0 and one.matches(asked)), None)
        if twist is None:
            return io.BufferedReader(_Stream(catalog, as_http(catalog.answer(asked)), 0.0))
        twist.times -= 1
        answer: Answer = catalog.answer(asked) if twist.is_carried_out else (500, {}, None)
        return io.BufferedReader(_Stream(catalog, twist.says(answer), twist.seconds))


@contextmanager
def reached(catalog: MemoryCatalog) -> Iterator[MemoryCatalog]:
    """Let every connection of this process lead to the catalog."""

    def connect(self: Any) -> None:
        self.sock = _Socket(catalog)

    def wait(seconds: float) -> None:
        catalog.now += seconds

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transport._Connection, "connect", connect)
        patch.setattr(transport._Connection, "is_connected", False)
        patch.setattr(transport, "_wait", wait)
        for module in (transport, rest):
            patch.setattr(module, "_monotonic", lambda: catalog.now)
        yield catalog
