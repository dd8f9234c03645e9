"""`deltaberg clone`: nothing is copied unasked, and what would be is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import deltaberg
from deltaberg.cli import confirm
from deltaberg.cli.app import cli
from tests.support.command_line import call, json_lines
from tests.support.rows import ids, ids_of

pytestmark = pytest.mark.one_backend


@pytest.fixture
def table(tmp_path: Path) -> Any:
    made: Any = deltaberg.create_table(str(tmp_path / "t"), ids().schema)
    made.append(ids(1))
    made.append(ids(2))
    return made


def test_a_table_is_cloned_after_a_question(table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "clone"
    arguments = ["clone", table.location, str(place)]
    ended = call(*arguments)
    assert ended.exit_code == 2
    assert "pass --yes to do it" in ended.stderr
    monkeypatch.setattr(confirm, "_can_ask", lambda: True)
    ended = CliRunner().invoke(cli, arguments, input="n\n", prog_name="deltaberg")
    assert (ended.exit_code, place.exists()) == (1, False)
    assert "nothing was written" in ended.stderr
    assert CliRunner().invoke(cli, arguments, input="y\n", prog_name="deltaberg").exit_code == 0
    assert ids_of(deltaberg.open_table(str(place))) == [1, 2]


def test_what_would_be_copied_is_told_in_numbers(table: Any, tmp_path: Path) -> None:
    place = str(tmp_path / "clone")
    (planned,) = json_lines("clone", table.location, place, "--dry-run", "--version", "1")
    assert (planned["target"], planned["dry_run"], planned["version"]) == (place, True, None)
    assert (planned["state"], planned["source_files"], planned["copied_files"]) == (1, 1, 1)
    (done,) = json_lines("clone", table.location, place, "--yes", "--message", "nightly")
    assert (done["dry_run"], done["version"], done["copied_files"]) == (False, 0, 2)
    assert deltaberg.DeltaTable(place).history()[0].info["userMetadata"] == "nightly"
    (done,) = json_lines("clone", table.location, str(tmp_path / "shallow"), "--yes", "--shallow")
    assert (done["copied_files"], done["source_files"]) == (0, 2)


def test_a_hint_names_the_option(table: Any, tmp_path: Path) -> None:
    place = str(tmp_path / "clone")
    deltaberg.create_table(place, ids().schema)
    ended = call("clone", table.location, place, "--yes")
    assert ended.exit_code != 0
    assert "pass --replace to make that table the clone" in ended.stderr


def test_states_of_iceberg_tables_and_a_place_in_a_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source: Any = deltaberg.create_table(tmp_path / "t", ids().schema, format="iceberg")
    for number in (1, 2, 3):
        source.append(ids(number))
        if number == 2:
            source.alter().create_tag("second").commit()
    first = source.history()[-1].snapshot_id
    monkeypatch.setenv("PYICEBERG_CATALOG__SHOP__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__SHOP__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__SHOP__WAREHOUSE", f"{tmp_path}/warehouse")
    shop = deltaberg.load_catalog("shop")
    shop.create_namespace("sales")
    for name, at, rows in (
        ("one", ["--snapshot-id", str(first)], [1]),
        ("two", ["--ref", "second"], [1, 2]),
        ("three", [], [1, 2, 3]),
    ):
        json_lines("clone", source.location, f"sales.{name}", *at, "--target-catalog", "shop", "--yes")
        assert ids_of(shop.load_table(f"sales.{name}")) == rows
        json_lines("clone", f"sales.{name}", tmp_path / name, "--catalog", "shop", "--yes")
        assert ids_of(deltaberg.open_table(tmp_path / name)) == rows
    delta = deltaberg.create_table(tmp_path / "delta", ids().schema).location
    for at in (["--ref", "x"], ["--snapshot-id", "1"], ["--target-catalog", "shop"]):
        ended = call("clone", delta, tmp_path / "no", *at, "--yes")
        assert (ended.exit_code == 0, "Traceback" in ended.stderr, (tmp_path / "no").exists()) == (False, False, False)
