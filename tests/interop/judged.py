"""Tables that the judge writes, with what the engine itself reads of them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.canon import canonical_lines
from tests.support.judge import Judge

__all__ = ["Written", "chosen_names", "few", "same"]


def few(values: Mapping[str, Any], *names: str) -> list[Any]:
    """Return values by the names of their tests, of which only some run where nobody asks for all judged tests.

    Several values, as of a test with several parameters, are a list.
    """
    return [
        pytest.param(
            *(value if isinstance(value, list) else [value]), id=name, marks=() if name in names else pytest.mark.judges
        )
        for name, value in values.items()
    ]


class Written:
    """The tables of one kind: those that the chosen tests name are written at once, others when they are asked for.

    Parameters
    ----------
    code
        What writes the table ``name`` below ``folder``, and gives what is known of it.
    arguments
        Further ones of the code.
    """

    def __init__(self, judge: Judge, folder: Path, code: str, names: list[str], **arguments: Any) -> None:
        self.folder = folder
        self._arguments = arguments
        self._judge = judge
        self._code = code
        self._told: dict[str, Future[dict[str, Any]]] = {name: self._write(name) for name in names}

    def _write(self, name: str) -> Future[dict[str, Any]]:
        return self._judge.start(self._code, folder=str(self.folder), name=name, **self._arguments)

    def told(self, name: str) -> dict[str, Any]:
        """Return what the writer told of a table."""
        if name not in self._told:
            self._told[name] = self._write(name)
        return self._told[name].result()

    def rows(self, file: str) -> pa.Table:
        """Return the rows that the engine read into a file."""
        with pa.memory_map(str(self.folder / file)) as source:
            return pa.ipc.open_file(source).read_all()

    def wait(self) -> None:
        """Let no writer outlive the tests."""
        for told in self._told.values():
            with contextlib.suppress(Exception):
                told.result()


def chosen_names(request: pytest.FixtureRequest) -> list[str]:
    """Return what the chosen tests of a module have as their parameter ``name``, in their order."""
    names: dict[str, None] = {}
    for item in request.session.items:
        if isinstance(item, pytest.Function) and item.module is request.module and hasattr(item, "callspec"):
            name = item.callspec.params.get("name")
            if isinstance(name, str):
                names[name] = None
    return list(names)


def same(ours_read: pa.Table, expected: pa.Table) -> None:
    """Compare columns and rows; the order of rows does not matter."""
    assert ours_read.schema.names == expected.schema.names, f"{ours_read.schema.names} and not {expected.schema.names}"
    ours, theirs = canonical_lines(ours_read), canonical_lines(expected)
    if ours == theirs:
        return
    names = [name for name in ours_read.schema.names if _lines(ours_read, name) != _lines(expected, name)]
    only_ours, only_theirs = sorted(set(ours) - set(theirs)), sorted(set(theirs) - set(ours))
    raise AssertionError(
        f"{ours_read.num_rows} rows and {expected.num_rows} of the engine differ in {names}:\n"
        + "\n".join(
            [*(f"we read     {line}" for line in only_ours[:3]), *(f"the engine {line}" for line in only_theirs[:3])]
        )
    )


def _lines(table: pa.Table, name: str) -> list[str]:
    return canonical_lines(table.select([name]))
