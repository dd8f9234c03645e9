"""The examples of the pages about writing run as they are pasted."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, open_table, write_table
from tests.support.rows import ids_of

_ROOT = Path(__file__).parents[2]


def _example(page: str, heading: str) -> str:
    text = (_ROOT / page).read_text("utf-8").partition(f"{heading}\n")[2]
    found = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("page", "heading"), [("README.md", "## Quickstart"), ("docs/write.md", "# Writing Delta tables")]
)
def test_the_example_runs(
    page: str, heading: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code = _example(page, heading)
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    exec(compile(code, page, "exec"), {})
    table = DeltaTable(tmp_path / "orders")
    assert (table.version, table.schema.names, ids_of(table)) == (3, ["id", "region", "price"], [1, 3, 4])
    if page == "README.md":
        assert capsys.readouterr().out.rstrip().endswith("2")


@pytest.mark.one_backend
def test_the_examples_for_iceberg_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    quickstart = (_ROOT / "README.md").read_text("utf-8").partition("## Quickstart\n")[2].partition("\n## ")[0]
    for number, example in enumerate(re.findall(r"```python\n(.*?)```", quickstart, re.DOTALL)):
        exec(compile(example, f"README.md, example {number}", "exec"), names)
    assert capsys.readouterr().out.endswith("\n1\n")
    (tmp_path / "page").mkdir()
    monkeypatch.chdir(tmp_path / "page")
    page = (_ROOT / "docs/write-iceberg.md").read_text("utf-8")
    for number, example in enumerate(re.findall(r"```python\n(.*?)```", page, re.DOTALL)):
        exec(compile(example, f"docs/write-iceberg.md, example {number}", "exec"), names)
    assert ids_of(open_table("events", "iceberg")) == [3, 5, 7, 8, 9]


@pytest.mark.one_backend
def test_the_examples_of_the_page_run_one_after_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = re.findall(r"```python\n(.*?)```", (_ROOT / "docs/write.md").read_text("utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    for number, example in enumerate(code):
        if "convert_to_delta" in example or "writer_properties" in example:
            # These are about other tables than the one that the first example makes.
            continue
        exec(compile(example, f"docs/write.md, example {number}", "exec"), names)
    assert ids_of(DeltaTable(tmp_path / "orders")) == [1, 3, 5, 6, 8, 9]


@pytest.mark.one_backend
@pytest.mark.parametrize("page", ["scan", "storage", "expressions"])
def test_the_examples_about_reading_run(page: str, tmp_path: Path) -> None:
    """Only the places of tables are others."""
    days = [dt.date(2026, 1, 1), None]
    rows = {"id": [1, 2], "day": days, "region": ["north", None], "price": [None, 2.5]}
    for place in ("data/orders", "mnt/copy"):
        write_table(tmp_path / place, pa.table(rows))
    examples = re.findall(r"```python\n(.*?)```", (_ROOT / f"docs/{page}.md").read_text("utf-8"), re.DOTALL)
    assert examples
    for number, example in enumerate(examples):
        code = re.sub('"/(data|mnt)/', rf'"{tmp_path}/\1/', example)
        exec(compile(code, f"docs/{page}.md, example {number}", "exec"), {})
