"""The judge: a Spark session with the jars of delta-spark and iceberg-spark, in a process of its own.

The jars register the data sources ``delta`` and ``iceberg``, so they must not meet the session under test. The
process runs SQL and Python for the tests, answers in Arrow, and ends with the process that started it.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import pyarrow as pa

from tests.support.spark_session import REMOTE

__all__ = ["Judge", "JudgeError", "JudgeMissingError"]

_ROOT = Path(__file__).resolve().parents[2]
_UNRESOLVED = ("unresolved dependency", "download failed")


class JudgeError(Exception):
    """The request failed. The message is that of Spark or its JVM, and ``kind`` is the class of the exception."""

    def __init__(self, kind: str, message: str, trace: str = "") -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.trace = trace


class JudgeMissingError(Exception):
    """There is no Java, or the jars can be neither found nor downloaded."""


class Judge:
    """The process, and a pipe to it.

    Parameters
    ----------
    folder
        Where it writes: Iceberg's catalog ``ice`` has its warehouse in ``ice``, and ``judge.log`` what Spark prints.
    """

    def __init__(self, folder: Path) -> None:
        if shutil.which("java") is None:
            raise JudgeMissingError("there is no java")
        self.folder = folder
        self._log = folder / "judge.log"
        self._lock = Lock()
        self._numbers = itertools.count(1)
        self._ready: Future[Any] = Future()
        self._waiting: dict[int, Future[Any]] = {0: self._ready}
        variables = {name: value for name, value in os.environ.items() if name not in (REMOTE, "SPARK_HOME")}
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.judge_process", str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=folder,
                env={**variables, "PYTHONPATH": str(_ROOT)},
            )
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self._ready.result()
        except JudgeError:
            self.close()
            if any(clue in self._log.read_text(errors="replace") for clue in _UNRESOLVED):
                raise JudgeMissingError("the jars are not there, and cannot be fetched") from None
            raise

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def sql(self, query: str) -> pa.Table:
        """Run a statement, and return its rows."""
        return self.run("spark.sql(query)", query=query)

    def run(self, code: str, **arguments: Any) -> Any:
        """Run Python code that sees ``spark`` and the arguments, and return the value of its last expression.

        Arguments are JSON values. A DataFrame or an Arrow table is returned as an Arrow table.

        Raises
        ------
        JudgeError
            If the code raises, or the process has ended.
        """
        return self.start(code, **arguments).result()

    def start(self, code: str, **arguments: Any) -> Future[Any]:
        """Run code like `run`, but do not wait, so that several requests run at once."""
        waiting: Future[Any] = Future()
        pipe = self._process.stdin
        assert pipe is not None
        with self._lock:
            number = next(self._numbers)
            line = json.dumps({"id": number, "code": code, "arguments": arguments}).encode()
            self._waiting[number] = waiting
            try:
                pipe.write(line + b"\n")
                pipe.flush()
            except (OSError, ValueError):
                del self._waiting[number]
                raise JudgeError("Ended", self._last_words()) from None
        return waiting

    def close(self) -> None:
        """End the process without waiting for what still runs there."""
        assert self._process.stdin is not None
        with self._lock, contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.wait(timeout=60)
        self._reader.join()

    def _read(self) -> None:
        pipe = self._process.stdout
        assert pipe is not None
        try:
            with pipe:
                for line in pipe:
                    answer = json.loads(line)
                    body = pipe.read(answer["size"]) if answer.get("size") else b""
                    with self._lock:
                        waiting = self._waiting[answer["id"]]
                    self._settle(waiting, answer, body)
                    with self._lock:
                        del self._waiting[answer["id"]]
        finally:
            # Also after an answer that was cut off, for which somebody would wait without end.
            with self._lock:
                left, self._waiting = self._waiting, {}
            for waiting in left.values():
                waiting.set_exception(JudgeError("Ended", self._last_words()))

    @staticmethod
    def _settle(waiting: Future[Any], answer: dict[str, Any], body: bytes) -> None:
        if "error" in answer:
            told = answer["error"]
            waiting.set_exception(JudgeError(told["type"], told["message"], told["traceback"]))
        elif body:
            waiting.set_result(pa.ipc.open_stream(body).read_all())
        else:
            waiting.set_result(answer["value"])

    def _last_words(self) -> str:
        return "the process has ended: " + self._log.read_text(errors="replace")[-5000:]
