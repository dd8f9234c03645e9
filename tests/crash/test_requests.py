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
from tests.support.effort import tries
from tests.support.faulty_proxy import FaultyProxy
from tests.support.tally import Tally, sample
from tests.support.versioned_bucket import VersionedBucket

__all__ = ["s3_endpoint", "s3_gateway", "s3_proxy"]

pytestmark = [pytest.mark.one_backend, pytest.mark.slow, pytest.mark.thorough]

#: How many operations are tried on S3 and in a REST catalog, and with how many faults. SQL catalogs have no HTTP.
_ON_S3, _BY_REST, _FAULTS = tries(8), tries(5), tries(9)


@pytest.fixture
def versioned(s3_endpoint: str) -> Iterator[VersionedBucket]:
    """A bucket that forgets nothing."""
    bucket = VersionedBucket(s3_endpoint)
    yield bucket
    bucket.close()


@pytest.mark.req("DL-LOG-05", half="writer")
def test_requests_to_s3(tmp_path: Path, versioned: VersionedBucket, s3_proxy: FaultyProxy, rng: random.Random) -> None:
    names = [name for name, one in OPERATIONS.items() if one.kind in ("delta", "iceberg")]
    for number, name in enumerate(sample(names, _ON_S3, rng)):
        folder = tmp_path / str(number)
        folder.mkdir()
        place = InBucket(OPERATIONS[name], s3_proxy, versioned, folder / "original")
        _check(disturb_everywhere(OPERATIONS[name], place, _FAULTS, rng))


def test_requests_to_a_rest_catalog(tmp_path: Path, rng: random.Random) -> None:
    names = [name for name, one in OPERATIONS.items() if one.kind == "rest"]
    root = tmp_path / "table"
    with catalog_behind_gateway(root) as proxy:
        for name in sample(names, _BY_REST, rng):
            _check(disturb_everywhere(OPERATIONS[name], InCatalog(OPERATIONS[name], proxy, root), _FAULTS, rng))


def _check(tally: Tally) -> None:
    print(tally)
    assert tally.faults == []
    assert tally.tried == min(_FAULTS, tally.planned)
