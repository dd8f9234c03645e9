"""`deltaberg verify` and `deltaberg repair`: what they print, how they end, and that nothing goes unasked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from deltaberg import DeltaTable, IcebergTable, create_table
from deltaberg.cli import confirm
from deltaberg.cli.app import cli
from tests.support.command_line import call, json_lines, printed
from tests.support.delta_builder import DeltaBuilder
from tests.support.rows import ID, ids, ids_of

pytestmark = pytest.mark.one_backend


@pytest.fixture
def root(builder: DeltaBuilder) -> Path:
    """A table of two files."""
    builder.create(
        ID,
        builder.add(ids(1, 2), path="a.parquet", stats="count"),
        builder.add(ids(3), path="b.parquet", stats="count"),
    )
    return builder.root


@pytest.fixture
def lost(root: Path) -> Path:
    """The same table, of which one file is lost."""
    (root / "a.parquet").unlink()
    return root


def _answer(monkeypatch: pytest.MonkeyPatch, text: str, *arguments: object) -> Result:
    """Run a command at a terminal, and answer its question."""
    monkeypatch.setattr(confirm, "_can_ask", lambda: True)
    return CliRunner().invoke(cli, [str(one) for one in arguments], input=f"{text}\n", prog_name="deltaberg")


def test_a_sound_table(root: Path) -> None:
    assert printed("verify", root).startswith(f"{root}: version 0, depth vectors: no findings; checked: 1 commit, ")
    (found,) = json_lines("verify", root, "--depth", "footers")
    assert (found["findings"], found["counts"], found["checked"]["footer"]) == ([], {}, 2)
    assert "no file is lost" in printed("repair", root)


@pytest.mark.req("DL-OPS-11")
def test_findings_end_with_1(lost: Path) -> None:
    ended = call("verify", lost)
    assert (ended.exit_code, ended.stderr) == (1, "")
    head, finding = ended.stdout.splitlines()
    assert "1 missing" in head
    assert finding.startswith(f"missing: the data file {lost}/a.parquet, which version 0 names: expected ")
    ended = call("verify", lost, "--json", "--depth", "names")
    found = json.loads(ended.stdout)
    assert ended.exit_code == 1
    assert (found["location"], found["state"], found["counts"]) == (str(lost), "version 0", {"missing": 1})
    assert found["findings"][0]["path"] == f"{lost}/a.parquet"


@pytest.mark.req("DL-OPS-12")
def test_nothing_goes_without_a_question(lost: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = call("repair", lost)
    assert ended.exit_code == 2
    assert "pass --yes to do it" in ended.stderr
    ended = _answer(monkeypatch, "n", "repair", lost)
    assert (ended.exit_code, ended.stdout) == (1, "")
    assert "dry run: 1 file with 2 rows would leave the table\n  a.parquet, 2 rows: it is lost" in ended.stderr
    assert "nothing was changed" in ended.stderr
    assert DeltaTable(lost).version == 0
    ended = _answer(monkeypatch, "y", "repair", lost, "-m", "the disk of Monday")
    assert ended.exit_code == 0
    assert ended.stdout.startswith(f"{lost}: 1 file with 2 rows left the table by version 1")
    table = DeltaTable(lost)
    assert (ids_of(table), table.history(1)[0].info["userMetadata"]) == ([3], "the disk of Monday")


def test_dry_runs(lost: Path) -> None:
    assert "1 file with 2 rows would leave the table" in printed("repair", lost, "--dry-run")
    (planned,) = json_lines("repair", lost, "--dry-run")
    assert (planned["dry_run"], planned["rows"], planned["version"]) == (True, 2, None)
    assert [file["path"] for file in planned["files"]] == ["a.parquet"]
    assert DeltaTable(lost).version == 0


@pytest.mark.req("DL-OPS-12")
def test_agreed(lost: Path) -> None:
    (done,) = json_lines("repair", lost, "--yes")
    assert (done["dry_run"], done["rows"], done["version"], done["warnings"]) == (False, 2, 1, [])
    assert call("verify", lost).exit_code == 0


def test_iceberg_tables(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", ID, format="iceberg")
    table.append(ids(1, 2))
    root = table.location
    assert "no findings" in printed("verify", root)
    Path(table.scan().files()["file_path"][0].as_py().removeprefix("file:")).unlink()
    ended = call("verify", root)
    assert (ended.exit_code, "1 missing" in ended.stdout) == (1, True)
    assert "1 file with 2 rows would leave the table" in printed("repair", root, "--dry-run")
    (done,) = json_lines("repair", root, "--yes")
    assert (done["rows"], done["refs"], done["statistics"], done["warnings"]) == (2, [], [], [])
    assert call("verify", root).exit_code == 0
    assert ids_of(table.refresh()) == []


def test_branches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create_table(tmp_path / "t", ID, format="iceberg")
    table.append(ids(1, 2))
    table.alter().create_branch("dev").commit()
    table.append(ids(3), branch="dev")
    lost = IcebergTable(table.location, ref="dev").scan(filter="id = 3").files()["file_path"][0].as_py()
    Path(lost.removeprefix("file:")).unlink()
    arguments = ("repair", table.location, "--branch", "dev")
    assert "1 file with 1 row would leave the table" in printed(*arguments, "--dry-run")
    ended = _answer(monkeypatch, "y", *arguments)
    assert (ended.exit_code, "1 file with 1 row left the table" in ended.stdout) == (0, True)


def test_one_branch_or_tag_is_verified(tmp_path: Path) -> None:
    """A tag is not repaired, since it stays at its snapshot."""
    table = create_table(tmp_path / "t", ID, format="iceberg")
    table.append(ids(1))
    table.alter().create_tag("v1").commit()
    table.delete("id = 1")
    table.append(ids(2))
    lost = IcebergTable(table.location, ref="v1").scan().files()["file_path"][0].as_py()
    Path(lost.removeprefix("file:")).unlink()
    assert "no findings" in printed("verify", table.location, "--ref", "main")
    for more in ([], ["--ref", "v1"], ["--snapshot-id", str(table.refs["v1"].snapshot_id)]):
        ended = call("verify", table.location, *more)
        assert (ended.exit_code, lost in ended.stdout) == (1, True)
    assert "there is no branch or tag 'v2'" in call("verify", table.location, "--ref", "v2").stderr
    ended = call("repair", table.location, "--branch", "v1", "--yes")
    assert ended.exit_code == 2
    assert "'v1' is a tag, whose snapshot no commit changes" in ended.stderr
    assert "drop it by" in ended.stderr


def test_a_tag_that_names_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create_table(tmp_path / "t", ID, format="iceberg")
    raw = {**table.metadata.raw, "refs": {"old": {"snapshot-id": 7, "type": "tag"}}}
    (Path(table.location) / "metadata" / "v2.metadata.json").write_text(json.dumps(raw))
    ended = call("verify", table.location)
    assert (ended.exit_code, "the tag old names the snapshot 7" in ended.stdout) == (1, True)
    ended = _answer(monkeypatch, "y", "repair", table.location)
    assert (ended.exit_code, "1 branch or tag named what is not there" in ended.stdout) == (0, True)
    assert call("verify", table.location).exit_code == 0
