"""User code as type checkers see it. mypy looks at the same files as part of the lint."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from deltaberg.choices import Codec, Compression, Isolation, MetadataTable
from deltaberg.delta.transaction.isolation import IsolationLevel
from deltaberg.files.write.write_parquet import CODECS
from deltaberg.iceberg.inspect import tables as inspected
from deltaberg.iceberg.transaction.conflict import SERIALIZABLE, SNAPSHOT

pytestmark = pytest.mark.one_backend

_FOLDER = Path(__file__).parent
_CODE = sorted(_FOLDER.glob("*_calls.py"))
_PUBLIC = re.compile(r"deltaberg(\.(catalogs|choices|delta|iceberg|spark|errors))?")


def test_pyright_finds_the_wrong_calls_and_no_others() -> None:
    """It also reports each line of `wrong_calls.py` that it does not find wrong."""
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, "--outputjson", "-p", str(_FOLDER)]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    assert found["summary"]["filesAnalyzed"] >= len(_CODE)
    assert not [(one["file"], one["range"]["start"], one["message"]) for one in found["generalDiagnostics"]]


def test_both_checkers_refuse_every_wrong_call() -> None:
    """Each statement has a comment for either of them; the lint fails where mypy's has nothing to switch off."""
    text = (_FOLDER / "wrong_calls.py").read_text("utf-8")
    lines = text.splitlines()
    functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    calls = [lines[call.lineno - 1] for function in functions for call in function.body]
    assert len(calls) >= 30
    for line in calls:
        assert re.search(r"  # type: ignore\[[a-z-]+\]  # pyright: ignore\[\w+(, \w+)*\]", line), line


@pytest.mark.parametrize("path", _CODE, ids=lambda path: path.name)
def test_users_import_what_is_public(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        modules += [one.name for one in node.names] if isinstance(node, ast.Import) else []
        assert all(_PUBLIC.fullmatch(name) for name in modules if name.startswith("deltaberg")), modules


def test_types_have_the_choices_of_the_code() -> None:
    """Those that the code has by other means than the types."""
    assert get_args(Isolation) == (*(level.value for level in IsolationLevel), SERIALIZABLE, SNAPSHOT)
    assert get_args(Codec) == tuple(CODECS)
    assert get_args(Compression) == (*CODECS, "uncompressed")
    assert get_args(MetadataTable) == tuple(inspected._TABLES)
