"""The lock files: they hold hashes, name no index, and are those of pyproject.toml."""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.lock import LOCKS
from tests.support import azurite
from tests.support.packages import FOLDER, ROOT, interpreter, lowest_versions, pip_settings

pytestmark = pytest.mark.one_backend

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)==([^ \\]+)(?: ; (.*?))? \\")


def _locked(name: str) -> dict[str, set[str]]:
    """Return the versions of a lock file, by the normal names of packages."""
    versions: dict[str, set[str]] = {}
    for line in (FOLDER / f"{name}.txt").read_text("utf-8").splitlines():
        match = _REQUIREMENT.fullmatch(line)
        if match is not None:
            versions.setdefault(match[1], set()).add(match[2])
    return versions


def _group(name: str) -> list[Requirement]:
    """Return what a group of pyproject.toml asks for itself."""
    text = (ROOT / "pyproject.toml").read_text("utf-8").partition("[dependency-groups]")[2].partition("\n[tool.")[0]
    lines = re.search(rf"^{name} = \[(.*?)\]$", text, re.MULTILINE | re.DOTALL)
    assert lines is not None
    own = [line for line in lines[1].splitlines() if "include-group" not in line]
    return [Requirement(written) for written in re.findall(r'"([^"]+)"', "".join(own))]


def test_each_lock_file_has_its_rule() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(LOCKS)


@pytest.mark.parametrize("name", sorted(LOCKS))
def test_every_package_has_one_version_and_hashes(name: str) -> None:
    lines = (FOLDER / f"{name}.txt").read_text("utf-8").splitlines()
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        assert (
            line.startswith("#")
            or re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line)
            or (_REQUIREMENT.fullmatch(line) and after.startswith("    --hash="))
        ), line


@pytest.mark.parametrize("name", sorted(LOCKS))
def test_what_pyproject_asks_for_is_locked(name: str) -> None:
    locked = _locked(name)
    for group in LOCKS[name].groups:
        assert {canonicalize_name(one.name) for one in _group(group)} <= set(locked)
    for package in LOCKS[name].packages:
        wanted, _, version = package.partition("==")
        assert not version or locked[wanted] == {version}
    if LOCKS[name].lowest:
        lowest = dict(package.split("==") for package in lowest_versions())
        bounded = {package: versions for package, versions in locked.items() if package in lowest}
        assert {"obstore", "pyarrow", "sqlglot", "urllib3"} <= set(bounded)
        for package, versions in bounded.items():
            assert [Version(version) for version in versions] == [Version(lowest[package])]


def test_what_is_locked_here_is_asked_for() -> None:
    """`make lock` would drop what neither the group asks for nor a package of it, and what needs it would break."""
    requires = {canonicalize_name(one.metadata["Name"]): one.requires or [] for one in distributions()}
    asked: set[tuple[str, str]] = set()
    reached = [*_group("dev"), *_group("installer")]
    while reached:
        requirement = reached.pop()
        name = canonicalize_name(requirement.name)
        for extra in {"", *requirement.extras} - {one for known, one in asked if known == name}:
            asked.add((name, extra))
            of_it = map(Requirement, requires.get(name, []))
            reached += [one for one in of_it if one.marker is None or one.marker.evaluate({"extra": extra})]
    installed = {canonicalize_name(name) for name in _locked("dev")} & requires.keys()
    assert len(installed) > 50
    assert sorted(installed - {name for name, _ in asked}) == []


def test_no_lock_file_names_an_index(tmp_path: Path) -> None:
    for path in FOLDER.glob("*.txt"):
        assert "://" not in path.read_text("utf-8"), path
    packages = json.loads((azurite.LOCKED / "package-lock.json").read_text("utf-8"))["packages"]
    assert packages.pop("")["dependencies"] == json.loads((azurite.LOCKED / "package.json").read_text())["dependencies"]
    assert all("integrity" in one and "resolved" not in one for one in packages.values())


def test_uv_is_told_what_pip_is_told(tmp_path: Path) -> None:
    listed = [
        "global.index-url='https://global.example/simple'",
        ":env:.index-url='https://env.example/simple'",
        "install.index-url='https://install.example/simple'",
        "global.extra-index-url='https://one.example/simple\\nhttps://two.example/simple'",
        f"global.find-links='/nowhere/wheels {tmp_path} https://links.example'",
        "global.cert='/etc/ssl/own.pem'",
        ":env:.default-timeout='180'",
        "download.index-url='https://download.example/simple'",
        "global.quiet='1'",
    ]
    assert pip_settings("\n".join(listed)) == {
        "UV_DEFAULT_INDEX": "https://env.example/simple",
        "UV_INDEX": "https://one.example/simple https://two.example/simple",
        "UV_FIND_LINKS": f"{tmp_path},https://links.example",
        "SSL_CERT_FILE": "/etc/ssl/own.pem",
        "UV_HTTP_TIMEOUT": "180",
    }
    assert pip_settings("") == {}


def test_no_interpreter_is_too_old_or_too_new() -> None:
    assert interpreter((3, 10), (3, 99)) == sys.executable
    with pytest.raises(LookupError, match=r"from 3\.1 to 3\.2"):
        interpreter((3, 1), (3, 2))
