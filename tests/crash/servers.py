"""A REST catalog for the table of an operation, whose database lies beside the table and may be replaced."""

from __future__ import annotations

import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.catalogs.rest_server import Answer, Asked, running
from tests.catalogs.rest_writer import WritableServer, writing_version_3
from tests.catalogs.written import peer_sql
from tests.support import postgres

__all__ = ["serving"]


@dataclass
class _Server(WritableServer):
    """A catalog that remembers nothing but what its database holds."""

    location: str = ""
    _one: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def answer(self, asked: Asked) -> Answer:
        """Answer a request, one after the other."""
        with self._one:
            self.asked.clear()
            self.peer = peer_sql("shop", f"sqlite:///{self.location}/catalog.db", Path(self.location))
            try:
                self.tables = self._recorded()
                return super().answer(asked)
            finally:
                self.peer.engine.dispose()

    def _recorded(self) -> dict[tuple[str, ...], Path]:
        connection = sqlite3.connect(f"{self.location}/catalog.db")
        try:
            query = "SELECT table_namespace, table_name, metadata_location FROM iceberg_tables"
            rows: list[Any] = connection.execute(query).fetchall()
        finally:
            connection.close()
        return {(*space.split("."), name): Path(file.removeprefix("file://")) for space, name, file in rows}


def serving(kind: str, location: str) -> AbstractContextManager[str]:
    """Serve what an operation needs, and return its address; empty if it needs nothing."""
    if kind == "postgres":
        return _database()
    return _serving(location) if kind == "rest" else nullcontext("")


@contextmanager
def _database() -> Iterator[str]:
    programs = postgres.binaries()
    assert programs is not None, "the programs of PostgreSQL are not there"
    with tempfile.TemporaryDirectory() as folder, postgres.running(Path(folder), programs) as uri:
        yield uri


@contextmanager
def _serving(location: str) -> Iterator[str]:
    with writing_version_3(), running(_Server(location=location)) as server:
        yield server.uri
