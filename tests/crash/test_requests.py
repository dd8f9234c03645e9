"""Requests of a writer to S3 and to a REST catalog are lost, delayed, repeated, cut and refused.

The table is as before or as after.

Some operations are chosen by chance, and the puts that decide come first; ``make proof`` tries everything.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.operations import OPERATIONS
from tests.crash.places import InBucket, InCatalog, catalog_behind_gateway
from tests.crash.requests import disturb_everywhere
from tests.storage.conftest import s3_endpoint, s3_gateway, s3_proxy
from tests.support.faulty_proxy import FaultyProxy
from tests.support.tally import Budget
from tests.support.versioned_bucket import VersionedBucket

__all__ = ["s3_endpoint", "s3_gateway", "s3_proxy"]

pytestmark = [pytest.mark.one_backend, pytest.mark.slow]

#: For all operations on S3 together, and for those in a REST catalog. SQL catalogs are not reached by HTTP.
_SECONDS, _SECONDS_BY_REST = 16, 4


@pytest.fixture
def versioned(s3_endpoint: str) -> Iterator[VersionedBucket]:
    """A bucket that forgets nothing."""
    bucket = VersionedBucket(s3_endpoint)
    yield bucket
    bucket.close()


@pytest.mark.req("DL-LOG-05", half="writer")
def test_requests_to_s3(tmp_path: Path, versioned: VersionedBucket, s3_proxy: FaultyProxy, rng: random.Random) -> None:
    budget = Budget(_SECONDS)
    names = [name for name, one in OPERATIONS.items() if one.kind in ("delta", "iceberg")]
    rng.shuffle(names)
    for name in names:
        folder = tmp_path / str(names.index(name))
        folder.mkdir()
        place = InBucket(OPERATIONS[name], s3_proxy, versioned, folder / "original")
        tally = disturb_everywhere(OPERATIONS[name], place, 0, rng)
        print(tally)
        assert tally.faults == []
        assert tally.tried >= 4
        if budget.is_spent:
            break


def test_requests_to_a_rest_catalog(tmp_path: Path, rng: random.Random) -> None:
    budget = Budget(_SECONDS_BY_REST)
    names = [name for name, one in OPERATIONS.items() if one.kind == "rest"]
    root = tmp_path / "table"
    with catalog_behind_gateway(root) as proxy:
        for name in rng.sample(names, len(names)):
            tally = disturb_everywhere(OPERATIONS[name], InCatalog(OPERATIONS[name], proxy, root), 0, rng)
            print(tally)
            assert tally.faults == []
            assert tally.tried >= 4
            if budget.is_spent:
                break
