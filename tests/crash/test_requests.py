"""Requests of a writer on S3 are lost, delayed, repeated, cut and refused: the table is as before or as after.

Some operations are chosen by chance, and the puts that decide come first; ``make proof`` tries everything.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.operations import OPERATIONS
from tests.crash.requests import disturb_everywhere
from tests.storage.conftest import s3_endpoint, s3_gateway, s3_proxy
from tests.support.faulty_proxy import FaultyProxy
from tests.support.tally import Budget
from tests.support.versioned_bucket import VersionedBucket

__all__ = ["s3_endpoint", "s3_gateway", "s3_proxy"]

pytestmark = [pytest.mark.one_backend, pytest.mark.slow]

_SECONDS = 20
#: SQL catalogs are not reached by HTTP, and the REST catalog of the tests keeps its tables on the disk.
_ON_S3 = ("delta", "iceberg")


@pytest.fixture
def versioned(s3_endpoint: str) -> Iterator[VersionedBucket]:
    """A bucket that forgets nothing."""
    bucket = VersionedBucket(s3_endpoint)
    yield bucket
    bucket.close()


@pytest.mark.req("DL-LOG-05", half="writer")
def test_requests(tmp_path: Path, versioned: VersionedBucket, s3_proxy: FaultyProxy, rng: random.Random) -> None:
    budget = Budget(_SECONDS)
    names = [name for name, one in OPERATIONS.items() if one.kind in _ON_S3]
    rng.shuffle(names)
    for name in names:
        folder = tmp_path / str(names.index(name))
        folder.mkdir()
        tally = disturb_everywhere(OPERATIONS[name], s3_proxy, versioned, folder, 0, rng)
        print(tally)
        assert tally.faults == []
        assert tally.tried >= 4
        if budget.is_spent:
            break
