"""Runs the command ``deltaberg``: inside this process, as a process of its own, and on a terminal."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from typing import Any

from click.testing import CliRunner, Result

from deltaberg.cli.app import cli

__all__ = ["call", "json_lines", "printed", "spawn", "terminal_text"]


def call(*arguments: object, stdin: bytes | None = None) -> Result:
    """Run a command and return how it ended, with ``stdout`` and ``stderr`` apart."""
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], stdin, prog_name="deltaberg")


def printed(*arguments: object) -> str:
    """Run a command that must succeed and say nothing on standard error; give what it prints."""
    ended = call(*arguments)
    assert (ended.exit_code, ended.stderr) == (0, "")
    return ended.stdout


def json_lines(*arguments: object) -> list[Any]:
    """Run a command with ``--json`` and give its documents; what JSON does not know is refused."""
    return [json.loads(line, parse_constant=_refuse) for line in printed(*arguments, "--json").splitlines()]


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


class _Process(subprocess.Popen[str]):
    """A process whose ``with`` block does not wait for it after a failure."""

    def __exit__(self, kind: object, value: object, traceback: object) -> None:
        if kind is not None:
            self.kill()
        super().__exit__(kind, value, traceback)  # type: ignore[arg-type] # they are passed on as they came


def spawn(*arguments: object, **environment: str) -> subprocess.Popen[str]:
    """Start a process with pipes."""
    return _Process(
        _command(arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**os.environ, **environment},
    )


def terminal_text(*arguments: object, columns: int = 100) -> str:
    """Run a process whose output and errors are a terminal, and give what reached that."""
    import pty

    ours, theirs = pty.openpty()
    variables = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    variables |= {"TERM": "xterm-256color", "COLUMNS": str(columns)}
    with subprocess.Popen(_command(arguments), stdin=theirs, stdout=theirs, stderr=theirs, env=variables) as process:
        os.close(theirs)
        data = b""
        with contextlib.suppress(OSError):  # Linux raises where other systems give an end.
            while chunk := os.read(ours, 1 << 16):
                data += chunk
        assert process.wait() == 0
    os.close(ours)
    return data.decode().replace("\r\n", "\n")


def _command(arguments: tuple[object, ...]) -> list[str]:
    return [sys.executable, "-m", "deltaberg", *map(str, arguments)]
