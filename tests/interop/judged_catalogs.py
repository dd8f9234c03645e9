"""Catalogs in which iceberg-spark, pyiceberg and we have the same tables."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import StaticTable
from sqlalchemy import make_url

import deltaberg
from deltaberg import IcebergTable
from deltaberg.catalogs.base import Catalog
from tests.catalogs.written import peer_sql
from tests.support import postgres, rest_reference, untried
from tests.support.judge import Judge

__all__ = ["CASES", "COMBINATIONS", "KINDS", "NAMESPACE", "JudgedCatalog", "sharing"]

#: What `sharing` makes: a warehouse that is a directory, databases, and the reference server of the REST protocol.
KINDS = ("directory", "sqlite", "postgres", "rest")
NAMESPACE = "db"
_FORMATS = ("parquet", "avro", "orc")


def _cases(*shifts: int) -> dict[str, list[Any]]:
    return {
        f"{kind}, v{version}, {file_format}": [kind, version, file_format]
        for at, kind in enumerate(KINDS)
        for version in (1, 2, 3)
        for file_format in [_FORMATS[(at + version + shift) % 3] for shift in shifts]
    }


#: Each version of the format in each kind of catalog, and each format of data files in each of both.
CASES = _cases(0)
#: All combinations of the three.
COMBINATIONS = _cases(0, 1, 2)
_ENTER = """
for name, value in settings.items():
    spark.conf.set(name, value)
for driver in drivers:
    # Spark's class loader has the jar; Java's list of drivers is older than it.
    spark._jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(driver).newInstance()
"""


@dataclass
class JudgedCatalog:
    """A catalog.

    Parameters
    ----------
    name
        What iceberg-spark calls it; in a database, it is part of the rows.
    folder
        Where its warehouse is.
    ours
        Our catalog, or None for a warehouse that is a directory.
    peer
        That of pyiceberg.
    """

    judge: Judge
    name: str
    folder: Path
    ours: Catalog | None = None
    peer: Any = None

    @classmethod
    def of_directories(cls, judge: Judge) -> JudgedCatalog:
        """Return the warehouse that the judge begins with."""
        return cls(judge, "ice", judge.folder / "ice")

    def directory(self, name: str) -> Path:
        """Return where the table of a name is, if nothing else was asked for."""
        return self.folder / NAMESPACE / name

    def create(self, name: str, columns: Any, **more: Any) -> IcebergTable:
        """Create a table by us."""
        if self.ours is None:
            made = deltaberg.create_table(self.directory(name), columns, format="iceberg", **more)
        else:
            made = deltaberg.create_table((NAMESPACE, name), columns, catalog=self.ours, **more)
        assert isinstance(made, IcebergTable)
        return made

    def open(self, name: str, **moment: Any) -> IcebergTable:
        """Open a table by us."""
        table: IcebergTable
        if self.ours is None:
            table = deltaberg.open_table(self.directory(name), "iceberg", **moment)
        else:
            table = self.ours.load_table((NAMESPACE, name), **moment)
        return table

    def open_by_pyiceberg(self, name: str) -> Any:
        """Open a table by pyiceberg."""
        if self.peer is None:
            return StaticTable.from_metadata(self.open(name).metadata_location)
        return self.peer.load_table((NAMESPACE, name))


@contextmanager
def sharing(kind: str, judge: Judge) -> Iterator[JudgedCatalog]:
    """Make a catalog, and let the judge know it by its kind.

    Parameters
    ----------
    kind
        One of `KINDS`. The test is skipped where the catalog needs a program that this machine lacks.
    """
    if kind == "directory":
        yield JudgedCatalog.of_directories(judge)
        return
    # The folders of pytest belong to one user, and the server of PostgreSQL may have to be another's.
    with tempfile.TemporaryDirectory() as made, _served(kind, Path(made)) as uri:
        folder = judge.folder / kind
        if kind == "rest":
            ours, folder = deltaberg.load_catalog(kind, uri=uri), Path(made) / "warehouse"
            settings, drivers = {"type": "rest", "uri": uri}, list[str]()
            peer: Any = RestCatalog(kind, uri=uri)
        else:
            ours = deltaberg.load_catalog(kind, uri=uri, warehouse=folder.as_uri())
            settings, drivers = _jdbc(uri)
            settings["warehouse"] = folder.as_uri()
            peer = peer_sql(kind, uri, folder)
        ours.create_namespace(NAMESPACE)
        root = f"spark.sql.catalog.{kind}"
        named = {root: "org.apache.iceberg.spark.SparkCatalog"}
        named.update((f"{root}.{key}", value) for key, value in settings.items())
        judge.run(_ENTER, settings=named, drivers=drivers)
        yield JudgedCatalog(judge, kind, folder, ours, peer)
        if kind != "rest":
            peer.engine.dispose()


@contextmanager
def _served(kind: str, folder: Path) -> Iterator[str]:
    """Start what the catalog needs, and yield its address."""
    if kind == "sqlite":
        yield f"sqlite:///{folder}/catalog.db"
    elif kind == "postgres":
        programs = postgres.binaries()
        if programs is None:
            untried.POSTGRES.skip("its programs are not there")
        with postgres.running(folder, programs) as uri:
            yield uri
    else:
        reason = rest_reference.missing()
        if reason is not None:
            untried.REST_SERVER.skip(reason)
        with rest_reference.running(folder) as uri:
            yield uri


def _jdbc(uri: str) -> tuple[dict[str, str], list[str]]:
    """Return the settings of Java's catalog in a database, and its driver."""
    url = make_url(uri)
    if url.get_backend_name() == "sqlite":
        return {"type": "jdbc", "uri": f"jdbc:sqlite:file:{url.database}"}, ["org.sqlite.JDBC"]
    settings = {
        "type": "jdbc",
        "uri": f"jdbc:postgresql://{url.host}:{url.port}/{url.database}",
        "jdbc.user": str(url.username),
        "jdbc.password": str(url.password),
    }
    return settings, ["org.postgresql.Driver"]
