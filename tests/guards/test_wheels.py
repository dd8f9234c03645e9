"""The contents of the wheels and of the source distribution, and the reason that a pure wheel records."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest

import deltaberg

pytestmark = pytest.mark.one_backend

_ROOT = Path(__file__).resolve().parents[2]
_BUILD = "import sys, deltaberg_build; print(getattr(deltaberg_build, sys.argv[1])(sys.argv[2]))"


def _built(hook: str, folder: Path, **environment: str) -> Path:
    """Run a hook of the build backend in its own process, as an installer does."""
    finished = subprocess.run(
        [sys.executable, "-c", _BUILD, hook, str(folder)],
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": str(_ROOT / "build_backend"), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return folder / finished.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def pure(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that is built without cargo."""
    folder = tmp_path_factory.mktemp("pure")
    return _built("build_wheel", folder, PATH=str(folder), CARGO="")


def _with_wheel(wheel: Path, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python with a wheel on its path as a zip file; -S hides the editable install."""
    libraries = [path for path in sys.path if path.endswith("site-packages")]
    return subprocess.run(
        [
            sys.executable,
            "-S",
            "-c",
            f"import sys; sys.path[:0] = [{str(wheel)!r}]; sys.path += {libraries!r}; {script}",
        ],
        env={**os.environ, **environment},
        cwd=wheel.parent,
        capture_output=True,
        text=True,
        check=False,
    )


def _metadata(wheel: Path, name: str) -> str:
    return zipfile.ZipFile(wheel).read(f"deltaberg-{deltaberg.__version__}.dist-info/{name}").decode()


def _sources() -> set[str]:
    folder = _ROOT / "python"
    found = {*folder.rglob("*.py"), *folder.rglob("*.pyi"), folder / "deltaberg" / "py.typed"}
    return {path.relative_to(folder).as_posix() for path in found}


def test_a_wheel_without_cargo_is_pure(pure: Path) -> None:
    assert pure.name == f"deltaberg-{deltaberg.__version__}-py3-none-any.whl"
    names = set(zipfile.ZipFile(pure).namelist())
    inside = {name for name in names if ".dist-info/" not in name}
    assert inside == {*_sources(), "deltaberg/_build.json"}


def test_a_pure_wheel_says_why(pure: Path) -> None:
    reason = json.loads(zipfile.ZipFile(pure).read("deltaberg/_build.json"))["reason"]
    assert reason == "no cargo was found at build time"
    script = "import logging; logging.basicConfig(level=20); import deltaberg.kernels as k; print(k.report())"
    finished = _with_wheel(pure, script, DELTABERG_KERNELS="auto")
    assert "backend='python'" in finished.stdout
    assert reason in finished.stdout
    log = [line for line in finished.stderr.splitlines() if "deltaberg" in line]
    assert len(log) == 1
    assert reason in log[0]


def test_forcing_native_kernels_without_them_raises(pure: Path) -> None:
    finished = _with_wheel(pure, "from deltaberg import open_table", DELTABERG_KERNELS="native")
    assert finished.returncode != 0
    assert "KernelUnavailableError" in finished.stderr
    assert "no cargo was found" in finished.stderr


def test_native_without_cargo_is_refused(tmp_path: Path) -> None:
    finished = subprocess.run(
        [sys.executable, "-c", _BUILD, "build_wheel", str(tmp_path)],
        env={"PYTHONPATH": str(_ROOT / "build_backend"), "PATH": str(tmp_path), "DELTABERG_BUILD": "native"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode != 0
    assert "no cargo was found" in finished.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kernels", ["native", "python"])
def test_metadata_need_no_compilation(tmp_path: Path, pure: Path, kernels: str) -> None:
    """Pip asks for them before it says that it builds anything."""
    if kernels == "native" and shutil.which("cargo") is None:
        pytest.skip("there is no cargo")
    compiled = tmp_path / "compiled"
    # Installers put the programs of the build's packages on the path.
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    settings = {"DELTABERG_BUILD": kernels, "CARGO_TARGET_DIR": str(compiled), "PATH": programs}
    metadata = _built("prepare_metadata_for_build_wheel", tmp_path, **settings)
    read = HeaderParser().parsestr
    prepared, built = read((metadata / "METADATA").read_text("utf-8")), read(_metadata(pure, "METADATA"))
    for name in ("Name", "Version", "Requires-Python", "License-Expression"):
        assert prepared[name] == built[name]
    assert sorted(prepared.get_all("Provides-Extra", [])) == sorted(built.get_all("Provides-Extra", []))
    assert "deltaberg.cli:main" in (metadata / "entry_points.txt").read_text("utf-8")
    assert not list(compiled.rglob("*.rlib"))


@pytest.mark.parametrize("has_target", [False, True])
def test_an_installation_leaves_nothing_in_a_clone(tmp_path: Path, has_target: bool) -> None:
    """Cargo compiles elsewhere, unless somebody compiles in the clone anyway."""
    clone, tools = tmp_path / "clone", tmp_path / "tools"
    shutil.copytree(_ROOT / "build_backend", clone / "build_backend", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(_ROOT / "Cargo.toml", clone)
    tools.mkdir()
    (tools / "cargo").write_text("#!/bin/sh\necho 'cargo 9.9.9'\n")
    (tools / "cargo").chmod(0o755)
    (tools / "maturin.py").write_text(
        "import os\n"
        "def build_wheel(folder, settings):\n"
        "    place = os.environ.get('CARGO_TARGET_DIR') or 'target'\n"
        "    open(os.path.join(place, 'object'), 'w').close()\n"
        "    return place\n"
    )
    if has_target:
        (clone / "target").mkdir()
    environment = {name: value for name, value in os.environ.items() if name not in ("CARGO", "CARGO_TARGET_DIR")}
    environment |= {"PATH": f"{tools}:/bin", "PYTHONPATH": f"{clone / 'build_backend'}:{tools}"}
    finished = subprocess.run(
        [sys.executable, "-c", _BUILD, "build_wheel", str(tmp_path)],
        cwd=clone,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    place = clone / finished.stdout.strip()
    assert place.exists() == has_target
    assert [one.name for one in (clone / "target").rglob("*")] == (["object"] if has_target else [])


def test_an_old_cargo_builds_a_pure_wheel(tmp_path: Path) -> None:
    cargo = tmp_path / "cargo"
    cargo.write_text("#!/bin/sh\necho 'cargo 1.60.0 (abc 2022-01-01)'\n")
    cargo.chmod(0o755)
    wheel = _built("build_wheel", tmp_path, PATH=f"{tmp_path}:/bin", CARGO="")
    assert json.loads(zipfile.ZipFile(wheel).read("deltaberg/_build.json"))["reason"].startswith(
        "cargo 1.60, found at build time, is too old"
    )


def test_what_a_wheel_requires(pure: Path) -> None:
    headers = HeaderParser().parsestr(_metadata(pure, "METADATA"))
    needed = {one.split(";")[0].strip() for one in headers.get_all("Requires-Dist", []) if "extra ==" not in one}
    assert {one.split(">")[0] for one in needed} == {"pyarrow", "obstore", "tzdata", "urllib3"}
    assert headers["License-Expression"] == "Apache-2.0"
    assert headers["Requires-Python"] == ">=3.10"
    assert "deltaberg = deltaberg.cli:main" in _metadata(pure, "entry_points.txt")


@pytest.mark.full
def test_the_compiled_wheel_has_the_same_sources(tmp_path: Path) -> None:
    # Installers put the programs of the build's packages on the path.
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    wheel = _built("build_wheel", tmp_path, PATH=programs)
    assert "-cp310-abi3-" in wheel.name
    names = set(zipfile.ZipFile(wheel).namelist())
    inside = {name for name in names if ".dist-info/" not in name}
    compiled = {name for name in inside if name.startswith("deltaberg/_native.") and not name.endswith(".pyi")}
    assert len(compiled) == 1
    assert inside - compiled == _sources()
    assert zipfile.ZipFile(wheel).getinfo(compiled.pop()).file_size < 8 << 20


def test_the_source_distribution_builds_both(tmp_path: Path) -> None:
    archive = _built("build_sdist", tmp_path)
    with tarfile.open(archive) as found:
        names = {name.partition("/")[2] for name in found.getnames()}
    assert {"Cargo.lock", "rust/core/src/lib.rs", "rust/python/src/lib.rs", "build_backend/deltaberg_build.py"} <= names
    assert {f"python/{name}" for name in _sources()} <= names
    assert not [name for name in names if name.endswith((".so", ".pyd", ".pyc"))]
