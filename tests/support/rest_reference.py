"""The reference server of Iceberg's REST protocol: Java, in a process of its own, on a free port.

Maven downloads it once: ``python -m tests.support.rest_reference --install``.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["install", "missing", "running"]

_FOLDER = Path(__file__).resolve().parents[2] / ".cache" / "iceberg-rest"
_MAIN = "org.apache.iceberg.rest.RESTCatalogServer"
_ICEBERG, _JETTY = "1.11.0", "12.1.4"
#: Maven's own versions of its plugins differ by its version.
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
#: Group, artifact, version, and the classifier that some have.
_ARTIFACTS = [
    ("org.apache.iceberg", "iceberg-open-api", _ICEBERG, "test-fixtures"),
    ("org.apache.iceberg", "iceberg-core", _ICEBERG, ""),
    ("org.apache.iceberg", "iceberg-core", _ICEBERG, "tests"),
    ("org.apache.iceberg", "iceberg-parquet", _ICEBERG, ""),
    ("org.eclipse.jetty", "jetty-server", _JETTY, ""),
    ("org.eclipse.jetty.ee10", "jetty-ee10-servlet", _JETTY, ""),
    ("org.eclipse.jetty.compression", "jetty-compression-server", _JETTY, ""),
    ("org.eclipse.jetty.compression", "jetty-compression-gzip", _JETTY, ""),
    ("org.xerial", "sqlite-jdbc", "3.50.3.0", ""),
    ("org.apache.hadoop", "hadoop-client-api", "3.4.2", ""),
    ("org.apache.hadoop", "hadoop-client-runtime", "3.4.2", ""),
    ("org.slf4j", "slf4j-simple", "2.0.17", ""),
]
_READY = re.compile(r"Started .*ServerConnector.*:(\d+)\}")


def missing() -> str | None:
    """Return what is missing to run the server, or None."""
    if shutil.which("java") is None:
        return "java is missing"
    if not _complete():
        return "it is not installed: python -m tests.support.rest_reference --install"
    return None


def _complete() -> bool:
    """Return whether the very artifacts named here are there."""
    done = _FOLDER / "complete"
    return done.exists() and done.read_text("utf-8") == _pom()


def install() -> None:
    """Download the server and its dependencies with Maven."""
    if _complete():
        return
    maven = shutil.which("mvn")
    if maven is None:
        raise SystemExit("mvn is missing: apt-get install maven")
    shutil.rmtree(_FOLDER, ignore_errors=True)
    _FOLDER.mkdir(parents=True)
    pom = _FOLDER / "pom.xml"
    pom.write_text(_pom())
    command = [maven, "-q", "-B", "-f", pom, _COPY, f"-DoutputDirectory={_FOLDER / 'lib'}"]
    subprocess.run(list(map(str, command)), check=True, stdin=subprocess.DEVNULL)
    (_FOLDER / "complete").write_text(_pom(), "utf-8")


def _pom() -> str:
    parts = []
    for group, artifact, version, classifier in _ARTIFACTS:
        kind = f"<classifier>{classifier}</classifier>" if classifier else ""
        named = f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
        parts.append(f"<dependency>{named}{kind}</dependency>")
    head = "<modelVersion>4.0.0</modelVersion><groupId>tests</groupId><artifactId>rest</artifactId><version>1</version>"
    return f"<project>{head}<packaging>pom</packaging><dependencies>{''.join(parts)}</dependencies></project>"


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """Run the server with its warehouse and database in a folder, and yield its address."""
    settings = {
        "CATALOG_WAREHOUSE": (folder / "warehouse").as_uri(),
        "CATALOG_URI": f"jdbc:sqlite:file:{folder / 'catalog.db'}",
        "CATALOG_REST_PORT": "0",
    }
    command = ["java", "-Xmx512m", "-cp", str(_FOLDER / "lib" / "*"), _MAIN]
    # A file, not a pipe: nobody would read a pipe once the server has started.
    log = folder / "server.log"
    with open(log, "wb") as written:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**os.environ, **settings},
        )
    try:
        yield f"http://127.0.0.1:{_port(process, log)}"
    finally:
        process.terminate()
        process.wait(timeout=60)


def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    """Wait for the line that names the port."""
    for _ in range(600):
        found = _READY.search(log.read_text(errors="replace"))
        if found is not None:
            return int(found[1])
        try:
            process.wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            continue
        break
    raise RuntimeError("the REST server did not start: " + log.read_text(errors="replace")[-2000:])


def main() -> int:
    """Install the server."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--install", action="store_true", required=True)
    parser.parse_args()
    install()
    return 0


if __name__ == "__main__":
    sys.exit(main())
