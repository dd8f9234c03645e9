"""moto's S3, on loopback, in this process or in one of its own."""

from __future__ import annotations

import logging
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["KEY", "REGION", "SECRET", "apart", "make_bucket", "options", "running"]

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


@contextmanager
def apart() -> Iterator[str]:
    """Serve in another process, and yield the endpoint.

    It has buckets of its own, which all servers of one process share. And obstore 0.6, the oldest that is taken, keeps
    the interpreter locked while it lists, so that a server in the same process could not answer.
    """
    command = [sys.executable, "-m", "tests.support.moto_s3"]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        endpoint = server.stdout.readline().strip()
        assert endpoint, "the server did not start"
        try:
            yield endpoint
        finally:
            server.stdin.close()


def make_bucket(endpoint: str, name: str | None = None) -> str:
    """Create an empty bucket, by default one of a new name, and return its name."""
    import boto3

    name = name or f"bucket-{uuid.uuid4()}"
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


if __name__ == "__main__":
    with running() as address:
        print(address, flush=True)
        # The server ends with the process that started it.
        sys.stdin.read()
