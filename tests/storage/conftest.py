"""Stores on loopback: moto's S3 and azurite, each with an empty bucket or container."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.storage.places import Place, opened, troubled
from tests.support import azurite, faulty_proxy, moto_s3, untried
from tests.support.faulty_proxy import FaultyProxy


@dataclass(frozen=True)
class Bucket:
    """An empty bucket: its URL, and the options that open it."""

    url: str
    options: dict[str, str] = field(repr=False)

    def upload(self, folder: Path, name: str) -> str:
        """Put the files of a folder into the bucket, and give the URL of the copy."""
        import obstore

        store = self.store()
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                obstore.put(store, f"{name}/{path.relative_to(folder).as_posix()}", path.read_bytes())
        return f"{self.url}/{name}"

    def store(self) -> Any:
        """Return a client of the bucket that is not the one under test."""
        from obstore.store import AzureStore, S3Store

        kind: Any = S3Store if self.url.startswith("s3") else AzureStore
        return kind.from_url(self.url, config=dict(self.options), client_options={"allow_http": True})


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """A loopback S3 server."""
    with moto_s3.running() as endpoint:
        yield endpoint


@pytest.fixture
def s3(s3_endpoint: str) -> Bucket:
    """An empty bucket of the S3 server."""
    name = moto_s3.make_bucket(s3_endpoint)
    return Bucket(f"s3://{name}", moto_s3.options(s3_endpoint))


@pytest.fixture(scope="session")
def azure_endpoint() -> Iterator[str]:
    """A loopback Azure blob server."""
    if not azurite.installed():
        reason = "azurite is not installed: python -m tests.support.azurite --install"
        if os.environ.get("CI"):
            pytest.fail(reason)
        untried.AZURE.skip(reason)
    with azurite.running() as endpoint:
        yield endpoint


@pytest.fixture
def azure(azure_endpoint: str) -> Bucket:
    """An empty container of the Azure server."""
    name = f"container-{uuid.uuid4()}"
    _create_container(azure_endpoint, name)
    options = {
        "azure_storage_account_name": azurite.ACCOUNT,
        "azure_storage_account_key": azurite.KEY,
        "azure_endpoint": azure_endpoint,
    }
    return Bucket(f"az://{name}", options)


def _create_container(endpoint: str, name: str) -> None:
    """Create a container by the REST interface, signed with the shared key: obstore makes none."""
    import base64
    import email.utils
    import hashlib
    import hmac
    import urllib.request

    date = email.utils.formatdate(usegmt=True)
    resource = f"/{azurite.ACCOUNT}/{azurite.ACCOUNT}/{name}\nrestype:container"
    headers = f"x-ms-date:{date}\nx-ms-version:2021-08-06\n"
    text = "PUT" + "\n" * 12 + headers + resource
    signature = base64.b64encode(hmac.new(base64.b64decode(azurite.KEY), text.encode(), hashlib.sha256).digest())
    request = urllib.request.Request(f"{endpoint}/{name}?restype=container", method="PUT")
    request.add_header("x-ms-date", date)
    request.add_header("x-ms-version", "2021-08-06")
    request.add_header("Content-Length", "0")
    request.add_header("Authorization", f"SharedKey {azurite.ACCOUNT}:{signature.decode()}")
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 201


@pytest.fixture(params=["s3", "azure"])
def bucket(request: pytest.FixtureRequest) -> Bucket:
    """An empty bucket of each kind."""
    found: Bucket = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="session")
def s3_gateway(s3_endpoint: str) -> Iterator[FaultyProxy]:
    """A gateway before the S3 server; `s3_proxy` is the same without what other tests left."""
    with faulty_proxy.running(s3_endpoint) as proxy:
        yield proxy


@pytest.fixture
def s3_proxy(s3_gateway: FaultyProxy) -> Iterator[FaultyProxy]:
    """A gateway before the S3 server that has no faults yet."""
    s3_gateway.reset()
    yield s3_gateway
    s3_gateway.reset()


@pytest.fixture
def behind(s3: Bucket, s3_proxy: FaultyProxy) -> Bucket:
    """An empty bucket behind the gateway."""
    return Bucket(s3.url, {**s3.options, "AWS_ENDPOINT_URL": s3_proxy.endpoint})


@pytest.fixture(params=["local", "memory", "s3", "azure", "faulty"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A directory that does not exist yet, in a store of each kind."""
    kind: str = request.param
    if kind == "local":
        return opened(kind, str(tmp_path))
    if kind == "memory":
        return opened(kind, f"memory://{uuid.uuid4()}")
    bucket: Bucket = request.getfixturevalue("azure" if kind == "azure" else "behind")
    if kind == "azure":
        return opened(kind, bucket.url, bucket.options)
    found = opened(kind, bucket.url, {**bucket.options, "max_retries": "8"})
    if kind == "faulty":
        troubled(request.getfixturevalue("s3_proxy"))
    return replace(found, unfinished=partial(_unfinished, request.getfixturevalue("s3")))


def _unfinished(bucket: Bucket) -> list[Any]:
    import boto3

    client = boto3.client(
        "s3",
        endpoint_url=bucket.options["AWS_ENDPOINT_URL"],
        region_name=moto_s3.REGION,
        aws_access_key_id=moto_s3.KEY,
        aws_secret_access_key=moto_s3.SECRET,
    )
    try:
        found: list[Any] = client.list_multipart_uploads(Bucket=bucket.url.removeprefix("s3://")).get("Uploads", [])
    finally:
        client.close()
    return found
