"""Stores on loopback: moto's S3 and azurite, each with an empty bucket or container."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support import azurite, moto_s3


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
        """Give a client of the bucket that is not the one under test."""
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
    options = {
        "AWS_ENDPOINT_URL": s3_endpoint,
        "AWS_REGION": moto_s3.REGION,
        "AWS_ACCESS_KEY_ID": moto_s3.KEY,
        "AWS_SECRET_ACCESS_KEY": moto_s3.SECRET,
    }
    return Bucket(f"s3://{name}", options)


@pytest.fixture(scope="session")
def azure_endpoint() -> Iterator[str]:
    """A loopback Azure blob server."""
    if not azurite.installed():
        reason = "azurite is not installed: python -m tests.support.azurite --install"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
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
