"""A PostgreSQL server with the binaries of this machine: a cluster in a folder, on a free port of loopback."""

from __future__ import annotations

import os
import pickle
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import MetaData, create_engine

__all__ = ["binaries", "keep_rows", "put_rows", "running"]

_USER, _PASSWORD = "tester", "secret-pg"
#: Seconds that the server may take to start or to stop.
_PATIENCE = "60"


def binaries() -> Path | None:
    """Return the folder of PostgreSQL's programs, or None. Debian does not put it on the PATH."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    folders = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    return max(folders, key=lambda path: int(path.parent.name), default=None)


@contextmanager
def running(folder: Path, programs: Path) -> Iterator[str]:
    """Run a server, and yield the SQLAlchemy URL of a database, with a user and a password."""
    account = _account(folder)
    secret = folder / "password"
    secret.write_text(_PASSWORD)
    data, log = folder / "data", folder / "log"
    folder.chmod(0o755)

    def run(program: str, *arguments: str) -> None:
        command = [*account, str(programs / program), *arguments]
        # The server inherits what its programs write to: a pipe would never end.
        quiet = subprocess.DEVNULL
        subprocess.run(command, check=True, timeout=120, cwd=folder, stdin=quiet, stdout=quiet, stderr=quiet)

    run("initdb", "-D", str(data), "-U", _USER, "-A", "scram-sha-256", "--pwfile", str(secret), "--no-sync")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
    run("pg_ctl", "-D", str(data), "-l", str(log), "-w", "-t", _PATIENCE, "-o", options, "start")
    try:
        yield f"postgresql+psycopg://{_USER}:{_PASSWORD}@127.0.0.1:{port}/postgres"
    finally:
        run("pg_ctl", "-D", str(data), "-w", "-t", _PATIENCE, "-m", "immediate", "stop")


def keep_rows(uri: str, file: Path) -> None:
    """Write all tables of a database into a file."""
    engine, tables = create_engine(uri), MetaData()
    with engine.begin() as connection:
        tables.reflect(connection)
        found = {
            table.name: [row._asdict() for row in connection.execute(table.select())] for table in tables.sorted_tables
        }
    engine.dispose()
    file.write_bytes(pickle.dumps((tables, found)))


def put_rows(uri: str, file: Path | None) -> None:
    """Let a database have the tables of a file and no others, or none at all."""
    tables, rows = (MetaData(), {}) if file is None else pickle.loads(file.read_bytes())
    engine, known = create_engine(uri), MetaData()
    with engine.begin() as connection:
        known.reflect(connection)
        known.drop_all(connection)
        tables.create_all(connection)
        for table in tables.sorted_tables:
            if rows[table.name]:
                connection.execute(table.insert(), rows[table.name])
    engine.dispose()


def _account(folder: Path) -> list[str]:
    """Return the command that runs a program as another user, because the server refuses to run as root."""
    if os.geteuid() != 0:
        return []
    shutil.chown(folder, "nobody")
    return ["setpriv", "--reuid=nobody", "--clear-groups", "--no-new-privs"]
