"""moto's S3, on loopback, in this process."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["KEY", "REGION", "SECRET", "make_bucket", "options", "running"]

REGION = "us-east-1"
#: Any key is taken; the secret is looked for in what is printed.
KEY, SECRET = "k", "secret-s3"


@contextmanager
def running() -> Iterator[str]:
    """Serve on a free port, and yield the endpoint."""
    from moto.server import ThreadedMotoServer

    # A line for each request would hide all else.
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def make_bucket(endpoint: str) -> str:
    """Create an empty bucket, and return its name."""
    import boto3

    name = f"bucket-{uuid.uuid4()}"
    client = boto3.client(
        "s3", endpoint_url=endpoint, region_name=REGION, aws_access_key_id=KEY, aws_secret_access_key=SECRET
    )
    client.create_bucket(Bucket=name)
    client.close()
    return name


def options(endpoint: str) -> dict[str, str]:
    """Return what opens buckets at an endpoint: the server's own, or that of a gateway before it."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
    }
