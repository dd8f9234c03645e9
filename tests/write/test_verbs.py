"""Every argument of every verb: it is taken and looked at, or it is refused in our words, on both formats alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltaberg.cli.commands.alter import CHANGES
from deltaberg.delta import Alteration
from deltaberg.errors import ArgumentNameError, InvalidArgumentError, UnsupportedFeatureError
from deltaberg.iceberg import Alteration as IcebergAlteration
from deltaberg.words import Refused, words_of
from tests.support.option_table import DOORS, Door, verbs_of_library
from tests.support.verb_table import (
    OF_COMMITS,
    OF_DELTA,
    OF_ICEBERG,
    PLACES,
    Place,
    arguments_of,
    as_markdown,
    outcomes,
    verbs_of,
)

pytestmark = pytest.mark.one_backend

_OF_CHANGELOGS = {"carry_over", "compute_updates", "identifier_columns", "net_changes"}


@pytest.mark.parametrize(
    ("place", "verb"),
    [pytest.param(place, verb, id=f"{place} {verb}") for place in PLACES for verb in verbs_of(place.kind)],
)
def test_every_argument(tmp_path: Path, place: Place, verb: str) -> None:
    own, words = arguments_of(place.kind, verb), words_of(verb)
    others = OF_ICEBERG if place.format == "delta" else OF_DELTA
    for name, (refused, checked) in outcomes(tmp_path, place, verb).items():
        ours = words.get(name, name)
        if name not in own or isinstance(ours, Refused):
            assert isinstance(refused, ArgumentNameError), name
            assert refused.message == f"{verb}() has no argument {name}"
            assert refused.hint, name
        elif place.in_transaction and ours in OF_COMMITS:
            assert isinstance(refused, InvalidArgumentError), name
            assert refused.message == f"{ours} is about the commit, which is that of the whole transaction"
        elif ours in others:
            assert isinstance(refused, UnsupportedFeatureError), name
            assert refused.message.startswith(f"{ours} applies only to "), name
            assert refused.hint, name
        elif place.format == "iceberg" and verb in ("alter", "restore") and ours in ("properties", "commit_properties"):
            assert isinstance(refused, InvalidArgumentError), name
            assert refused.message.startswith("properties describe a snapshot"), name
        else:
            assert refused is None, f"{name}: {refused}"
            assert checked is not None, f"{name} is not looked at"


def test_both_formats_have_the_same_verbs() -> None:
    """What only one format has is named here, so that nothing becomes so by an oversight."""
    delta, iceberg = (set(verbs_of(place.kind)) for place in PLACES if not place.in_transaction)
    assert iceberg - delta == {
        "add_files",
        "appends",
        "cherrypick_snapshot",
        "compute_partition_stats",
        "compute_table_stats",
        "convert_equality_deletes",
        "delete_by_keys",
        "expire_snapshots",
        "inspect",
        "publish",
        "remove_orphan_files",
        "rewrite_manifests",
        "rewrite_position_delete_files",
        "rewrite_table_path",
    }
    assert delta - iceberg == {
        "checkpoint",
        "cleanup_metadata",
        "compact_log",
        "compute_statistics",
        "drop_feature",
        "expired_tombstones",
        "generate",
        "vacuum",
    }
    for in_transaction in (False, True):
        kinds = [place.kind for place in PLACES if place.in_transaction == in_transaction]
        for verb in set.intersection(*(set(verbs_of(kind)) for kind in kinds)):
            # The change feeds of the formats have little in common.
            differ = {"derived", *_OF_CHANGELOGS} if verb == "changes" else set()
            assert arguments_of(kinds[0], verb) ^ arguments_of(kinds[1], verb) == differ, verb


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_other_doors_have_the_arguments_of_verbs(door: Door) -> None:
    """Each name there stands for an argument or has a reason, and so has each argument that no name stands for."""
    assert door.unknown() == set()
    missing = door.missing()
    assert {one for one in missing if not door.why_not(*one.split())} == set()
    assert door.rest or verbs_of_library() <= door.verbs | door.closed.keys()
    # What is explained is still so.
    lacking = {*missing, *(one.split()[1] for one in missing), "*"}
    names = {name for entry, (_, taken) in door.entries.items() for one in taken for name in (one, f"{entry} {one}")}
    assert door.lacks.keys() <= lacking
    assert (door.stands_for.keys() | door.beside.keys()) <= names
    assert door.closed.keys().isdisjoint(door.verbs)


def test_alter_of_the_command_line_has_every_change() -> None:
    changes = {name for kind in (Alteration, IcebergAlteration) for name in dir(kind) if not name.startswith("_")}
    assert changes - {name.replace("-", "_") for name in CHANGES} == {"commit"}


def test_the_table(tmp_path: Path) -> None:
    """It says of each argument in which places it is taken."""
    place = Place("delta", in_transaction=True)
    text = as_markdown({("delete", place): outcomes(tmp_path, place, "delete")})
    assert "| `delete` | `strategy` |  | yes |  |  |" in text
    assert "| `delete` | `txn` |  | refused |  |  | txn |  |  |" in text
    assert "| `delete` | `where` |  | yes |  |  | where |  | condition |" in text
    assert "`keys`" not in text
