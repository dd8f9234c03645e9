"""A bucket of moto that keeps every version of each object, so that what was deleted or replaced can still be read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.support import moto_s3

__all__ = ["VersionedBucket"]

_COMMIT = re.compile(r".*/_delta_log/(\d{20})\.json")


class VersionedBucket:
    """A new bucket.

    Parameters
    ----------
    endpoint
        Where moto serves.
    """

    def __init__(self, endpoint: str) -> None:
        import boto3

        self.name = moto_s3.make_bucket(endpoint)
        #: What opens it without a gateway.
        self.options = moto_s3.options(endpoint)
        self._client: Any = boto3.client(
            "s3",
            endpoint_url=endpoint,
            region_name=moto_s3.REGION,
            aws_access_key_id=moto_s3.KEY,
            aws_secret_access_key=moto_s3.SECRET,
        )
        self._client.put_bucket_versioning(Bucket=self.name, VersioningConfiguration={"Status": "Enabled"})

    def upload(self, folder: Path, prefix: str) -> None:
        """Put the files of a folder below a prefix."""
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self.put(f"{prefix}/{path.relative_to(folder).as_posix()}", path.read_bytes())

    def put(self, key: str, data: bytes) -> None:
        """Put an object."""
        self._client.put_object(Bucket=self.name, Key=key, Body=data)

    def clear(self, prefix: str) -> None:
        """Delete what is below a prefix; its versions stay."""
        for key in self.keys(f"{prefix}/"):
            self._client.delete_object(Bucket=self.name, Key=key)

    def get(self, key: str, version: str | None = None) -> bytes:
        """Return an object, or one of its versions."""
        chosen = {} if version is None else {"VersionId": version}
        data: bytes = self._client.get_object(Bucket=self.name, Key=key, **chosen)["Body"].read()
        return data

    def get_ever(self, key: str) -> bytes:
        """Return an object, or the newest version of one that was deleted."""
        found = self._client.list_object_versions(Bucket=self.name, Prefix=key).get("Versions", ())
        newest = max((one for one in found if one["Key"] == key), key=lambda one: bool(one["IsLatest"]), default=None)
        return self.get(key, None if newest is None else newest["VersionId"])

    def keys(self, prefix: str) -> list[str]:
        """Return the keys that are there now, in order."""
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix)
        return sorted(item["Key"] for page in pages for item in page.get("Contents", ()))

    def files(self, prefix: str) -> dict[str, Callable[[], bytes]]:
        """Return what reads the objects that are there now, by their keys below a prefix."""
        start = f"{prefix}/"
        return {key.removeprefix(start): partial(self.get, key) for key in self.keys(start)}

    def times_written(self, prefix: str) -> Counter[str]:
        """Return how often each key was put, by all versions of the objects."""
        pages = self._client.get_paginator("list_object_versions").paginate(Bucket=self.name, Prefix=prefix)
        return Counter(item["Key"] for page in pages for item in page.get("Versions", ()))

    def log_entries(self, prefix: str) -> dict[int, list[bytes]]:
        """Return everything that was ever put under the names of log entries, by version, the newest first."""
        entries: dict[int, list[bytes]] = {}
        pages = self._client.get_paginator("list_object_versions").paginate(
            Bucket=self.name, Prefix=f"{prefix}/_delta_log/"
        )
        for page in pages:
            for item in page.get("Versions", ()):
                match = _COMMIT.fullmatch(item["Key"])
                if match is not None:
                    entries.setdefault(int(match[1]), []).append(self.get(item["Key"], item["VersionId"]))
        return entries

    def close(self) -> None:
        """Close the client."""
        self._client.close()
