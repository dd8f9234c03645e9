"""Vacuums of a bucket that refuses, fails, answers for a part, or does not answer: what is reported is what is so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

import pytest

import deltaberg
from deltaberg import CleanupResult, DeltaTable
from tests.storage.conftest import Bucket
from tests.support.faulty_proxy import Fault, FaultyProxy, Seen, conditional_put
from tests.support.rows import ids, ids_of
from tests.support.vacuums import DAY, Clock, paths

pytestmark = [pytest.mark.one_backend, pytest.mark.req("DL-VAC-10", "DL-VAC-12")]

_Trouble = Callable[[Seen], "Fault | None"]


def _keys(seen: Seen) -> list[str]:
    if seen.method != "POST" or "delete" not in urlsplit(seen.target).query:
        return []
    return [key.text or "" for key in ET.fromstring(seen.body).iter() if key.tag.endswith("Key")]


def _vacuum(behind: Bucket, clock: Clock) -> tuple[DeltaTable, set[str]]:
    """Return a table of which five files are to go, and their paths."""
    options = {**behind.options, "max_retries": "0", "s3.request-timeout": "2"}
    table: Any = deltaberg.create_table(f"{behind.url}/t", ids().schema, storage_options=options)
    for number in range(5):
        table.overwrite(ids(number))
    table.overwrite(ids(9))
    clock.ahead = 8 * DAY
    return table, paths(table.vacuum())


def _refused(part: str) -> _Trouble:
    """Refuse the deletion of one object, in each request that names it."""

    def trouble(seen: Seen) -> Fault | None:
        named = [key for key in _keys(seen) if key.endswith(part)]
        if not named:
            return None
        body = (
            '<DeleteResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Error><Key>{named[0]}</Key><Code>AccessDenied</Code><Message>no</Message></Error></DeleteResult>"
        )
        # The store carries out the others of a batch, of which single requests hear afterwards.
        return Fault(forwards=0, answer=200, body=body.encode(), kind="application/xml")

    return trouble


def _all(answer: int | str) -> Callable[[Seen], Fault | None]:
    return lambda seen: Fault(forwards=0, answer=answer) if _keys(seen) else None


def _checked(table: DeltaTable, done: CleanupResult, wanted: set[str], direct: Bucket) -> None:
    """What was deleted and what failed are all that was to go, also in the store, and a second run takes the rest."""
    gone = paths(done)
    assert gone.isdisjoint(done.failed)
    assert gone | set(done.failed) == wanted
    again = DeltaTable(table.location, storage_options=direct.options)
    assert ids_of(again) == [9]
    assert paths(again.vacuum()) == set(done.failed)
    assert paths(again.vacuum(dry_run=False)) == set(done.failed)
    assert again.verify().findings == ()


@pytest.mark.parametrize("answer", ["a part", 403, 503, "none"])
def test_deletions(s3: Bucket, behind: Bucket, s3_proxy: FaultyProxy, clock: Clock, answer: int | str) -> None:
    table, due = _vacuum(behind, clock)
    part = min(due)
    s3_proxy.trouble = _refused(part) if answer == "a part" else _all(answer)
    done = table.vacuum(dry_run=False, logging=True)
    s3_proxy.trouble = None
    assert set(done.failed) == ({part} if answer == "a part" else due)
    end = table.refresh().history(1)[0]
    assert (end.operation, end.info["operationParameters"]["status"]) == ("VACUUM END", "FAILED")
    assert end.info["operationMetrics"] == {"numDeletedFiles": str(done.deleted_files)}
    _checked(table, done, due, s3)


@pytest.mark.parametrize("lands", [False, True])
@pytest.mark.parametrize("answer", [403, 500, 503, "none"])
def test_the_end(
    s3: Bucket, behind: Bucket, s3_proxy: FaultyProxy, clock: Clock, answer: int | str, lands: bool
) -> None:
    """The files are gone, and the result says so. Where the store hides a success, the end is found."""
    table, due = _vacuum(behind, clock)
    last = table.version

    def trouble(seen: Seen) -> Fault | None:
        is_end = conditional_put(seen) and f"{last + 2:020}.json" in seen.target
        return Fault(forwards=int(lands), answer=answer) if is_end else None

    s3_proxy.trouble = trouble
    done = table.vacuum(dry_run=False, logging=True)
    s3_proxy.trouble = None
    assert (paths(done), done.failed) == (due, {})
    recorded = DeltaTable(table.location, storage_options=s3.options).version - last
    assert recorded == 1 + lands
    # 403 is taken for what it says.
    assert bool(done.warnings) == (not lands or answer == 403)
    _checked(table, done, due, s3)
