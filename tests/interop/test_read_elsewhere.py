"""What the page says other libraries read, they read, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from deltaberg.delta.features import READ_ELSEWHERE
from tests.interop import duckdb_reader
from tests.interop.read_elsewhere import IN_PROCESS, PAGE, Library, answers, by_duckdb, by_spark
from tests.support import untried
from tests.support.judge import Judge


def _said() -> dict[str, dict[str, dict[str, str]]]:
    """Return what the page says for each format, way to read, and feature."""
    result: dict[str, dict[str, dict[str, str]]] = {}
    for part in PAGE.read_text("utf-8").split("\n## ")[1:]:
        title, _, table = part.partition("\n")
        lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line[:1] == "|"]
        (_, *ways), _, *rows = lines
        result[title.split()[0]] = {
            way: {row[0]: row[number] for row in rows} for number, way in enumerate(ways, start=1)
        }
    return result


def _check(folder: Path, libraries: Iterable[Library]) -> None:
    libraries = list(libraries)
    page, asked = PAGE.read_text("utf-8"), answers(folder, libraries)
    assert any(asked.values())
    for library in libraries:
        assert f"{library.name} {library.version}" in page, "run python -m tests.interop.read_elsewhere --write"
    for name, of_ways in asked.items():
        assert of_ways == {way: answer for way, answer in _said()[name].items() if way in of_ways}, (
            "run python -m tests.interop.read_elsewhere --write"
        )


@pytest.mark.one_backend
def test_the_page_is_true_of_python(tmp_path: Path) -> None:
    _check(tmp_path, IN_PROCESS)


@pytest.mark.one_backend
@pytest.mark.judges
def test_the_page_is_true_of_duckdb(tmp_path: Path) -> None:
    if not duckdb_reader.installed():
        reason = "DuckDB is not installed: python -m tests.interop.duckdb_reader --install"
        if os.environ.get("CI"):
            pytest.fail(reason)
        untried.DUCKDB.skip(reason)
    with by_duckdb() as duckdb:
        _check(tmp_path, [duckdb])


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.one_backend
@pytest.mark.judges
@pytest.mark.timeout(900)
def test_the_page_is_true_of_the_connectors(tmp_path: Path, judge: Judge) -> None:
    _check(tmp_path, by_spark(judge))


@pytest.mark.one_backend
@pytest.mark.parametrize(("feature", "row"), [("columnMapping", "column mapping"), ("typeWidening", "type widening")])
def test_hints_say_what_a_feature_costs(feature: str, row: str) -> None:
    """The libraries that do not read it, and no others, and whether one of them gives wrong rows."""
    answers_of = [
        (way.partition(",")[0], answer)
        for way, of_it in _said()["Delta"].items()
        for name, answer in of_it.items()
        if name.startswith(row)
    ]
    hint = READ_ELSEWHERE[feature]
    for library in ("deltalake", "polars", "DuckDB", "delta-spark"):
        assert (library in hint) == any(name == library and answer != "yes" for name, answer in answers_of)
    assert ("wrong rows" in hint) == any(answer == "wrong rows" for _, answer in answers_of)
