"""The process behind `tests.support.judge`: one Spark session with the engines' jars, and a pipe.

Each request is a line of JSON, ``{"id", "code", "arguments"}``. The code is Python; it sees ``spark`` and its
arguments by name, and the value of its last expression is the answer: a DataFrame or an Arrow table is sent as an
Arrow stream, anything else as JSON. An answer is a line of JSON, followed by as many bytes as it states.
"""

from __future__ import annotations

import ast
import json
import os
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

import pyarrow as pa

from tests.support.engine_jars import ENGINES
from tests.support.spark_session import start_session

__all__ = ["main"]

#: What Iceberg's catalogs in databases need; the driver of SQLite is that of the REST reference server, too.
_DRIVERS = ("org.xerial:sqlite-jdbc:3.50.3.0", "org.postgresql:postgresql:42.7.7")
_SETTINGS = {
    **ENGINES,
    "spark.jars.packages": ",".join((ENGINES["spark.jars.packages"], *_DRIVERS)),
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "2g",
    # The statements are many and the rows few: to compile each of them takes longer than to run it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.databricks.delta.snapshotPartitions": "1",
}
_JAVA_FRAME = "\n\tat "
#: Most of a small statement's time is waiting.
_AT_ONCE = 4


def main(folder: Path) -> None:
    """Serve requests from standard input until it ends.

    Parameters
    ----------
    folder
        Where Iceberg's warehouse, ``ice``, and Spark's own files are put.
    """
    # Spark, Ivy and the JVM print: the pipe of answers is theirs no more.
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)
        places = {
            "spark.sql.catalog.ice.warehouse": str(folder / "ice"),
            "spark.sql.warehouse.dir": str(folder / "spark-warehouse"),
        }
        server = _Server(start_session(**_SETTINGS, **places), answers)
        server.answer({"id": 0, "value": "ready"})
        pool = ThreadPoolExecutor(_AT_ONCE)
        for line in sys.stdin.buffer:
            pool.submit(server.serve, json.loads(line))
    # The other end is gone, and whoever waited for answers with it; the JVM ends with its own pipe.
    os._exit(0)


class _Server:
    def __init__(self, spark: Any, answers: BinaryIO) -> None:
        self._spark = spark
        self._answers = answers
        self._lock = Lock()

    def serve(self, request: dict[str, Any]) -> None:
        """Run the code of one request, and answer."""
        try:
            value = _evaluate(request["code"], {"spark": self._spark, **request["arguments"]})
            if hasattr(value, "toArrow"):
                value = value.toArrow()
            body = _stream(value) if isinstance(value, pa.Table) else b""
            answer = {"id": request["id"], "value": None if body else value, "size": len(body)}
            self.answer(answer, body)
        except Exception as error:  # noqa: BLE001 - it is raised again at the other end of the pipe
            message = str(error).partition(_JAVA_FRAME)[0]
            told = {"type": type(error).__name__, "message": message, "traceback": traceback.format_exc()}
            self.answer({"id": request["id"], "error": told})

    def answer(self, answer: dict[str, Any], body: bytes = b"") -> None:
        """Write an answer and what follows it, as one."""
        line = json.dumps(answer).encode()
        with self._lock:
            self._answers.write(line + b"\n" + body)
            self._answers.flush()


def _evaluate(code: str, names: dict[str, Any]) -> Any:
    parsed = ast.parse(code)
    last = ast.Expression(ast.Constant(None))
    if parsed.body and isinstance(parsed.body[-1], ast.Expr):
        last.body = parsed.body[-1].value
        del parsed.body[-1]
    exec(compile(parsed, "<snippet>", "exec"), names)
    return eval(compile(ast.fix_missing_locations(last), "<snippet>", "eval"), names)


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    written: bytes = sink.getvalue().to_pybytes()
    return written


if __name__ == "__main__":
    main(Path(sys.argv[1]))
