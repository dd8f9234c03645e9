"""The S3 requests of an operation, counted by the server, so that all sides are counted alike.

Every side has its own server, on loopback and in its process, and opens the table afresh.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from benches import data
from benches.data import TWO
from benches.measure import REQUESTS, Case, Outcome, Side, contents, names, warm
from tests.support import moto_s3

__all__ = ["REQUEST_CASES"]

_COMMITS, _ROWS = 5, 100_000


class _Counter:
    """A WSGI application that counts the requests to another one, and the bytes of its responses."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self._application = application
        self._lock = threading.Lock()
        self.requests = self.bytes = 0

    def __call__(self, environ: Mapping[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        body = b"".join(self._application(environ, start_response))
        with self._lock:
            self.requests += 1
            self.bytes += 0 if environ["REQUEST_METHOD"] == "HEAD" else len(body)
        return [body]


class _Bucket(NamedTuple):
    """An empty bucket on a counting server."""

    counter: _Counter
    endpoint: str
    name: str

    @property
    def aws(self) -> dict[str, str]:
        """The options in the spelling of deltalake and polars, which deltaberg accepts too."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": moto_s3.REGION,
            "AWS_ACCESS_KEY_ID": moto_s3.KEY,
            "AWS_SECRET_ACCESS_KEY": moto_s3.SECRET,
            "AWS_ALLOW_HTTP": "true",
        }

    @property
    def iceberg(self) -> dict[str, str]:
        """The options in the spelling of pyiceberg."""
        return {
            "s3.endpoint": self.endpoint,
            "s3.region": moto_s3.REGION,
            "s3.access-key-id": moto_s3.KEY,
            "s3.secret-access-key": moto_s3.SECRET,
        }


@contextmanager
def _bucket() -> Iterator[_Bucket]:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
    from werkzeug.serving import make_server

    counter = _Counter(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, counter, threaded=True, request_handler=MotoRequestHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        endpoint = f"http://127.0.0.1:{server.server_port}"
        yield _Bucket(counter, endpoint, moto_s3.make_bucket(endpoint))
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _delta_table(bucket: _Bucket, scale: float) -> str:
    from pyarrow import fs

    s3 = fs.S3FileSystem(
        endpoint_override=bucket.endpoint, region=moto_s3.REGION, access_key=moto_s3.KEY, secret_key=moto_s3.SECRET
    )
    fs.copy_files(str(_delta_folder(scale)), f"{bucket.name}/t", destination_filesystem=s3)
    return f"s3://{bucket.name}/t"


def _delta_folder(scale: float) -> Path:
    return data.commits(_COMMITS, max(int(_ROWS * scale), 100))


def _iceberg_table(bucket: _Bucket, scale: float) -> str:
    """Let pyiceberg write the table where it is read, because Iceberg records the locations of its files."""
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("bench", uri="sqlite:///:memory:", warehouse=f"s3://{bucket.name}", **bucket.iceberg)
    catalog.create_namespace("db")
    rows = max(int(_ROWS * scale), 100)
    table = catalog.create_table("db.t", pa.schema([("id", pa.int64()), ("v", pa.float64()), ("w", pa.int64())]))
    for number in range(_COMMITS):
        ids = pa.array(range(number * rows, (number + 1) * rows), pa.int64())
        table.append(pa.table({"id": ids, "v": ids.cast(pa.float64()), "w": ids}))
    return table.metadata_location


#: What a side does with a table on a bucket: no value that is found is looked at before the requests are counted.
_Work = Callable[[str, _Bucket], Any]


def _counted(made: Callable[[_Bucket, float], str], work: _Work, describe: Callable[[Any], Any]) -> Side:
    def run(scale: float) -> Outcome:
        with _bucket() as bucket:
            place = made(bucket, scale)
            requests, received = bucket.counter.requests, bucket.counter.bytes
            found = work(place, bucket)
            requests, received = bucket.counter.requests - requests, bucket.counter.bytes - received
            return Outcome([requests], describe(found), received)

    return run


def _ours(operation: str) -> _Work:
    def work(place: str, bucket: _Bucket) -> Any:
        table = warm()(place, storage_options=bucket.aws)
        if operation == "open":
            return [child.name for child in table.schema]
        if operation == "plan":
            return table.scan().files()["file_path"].to_pylist()
        return table.scan(columns=list(TWO)).to_arrow()

    return work


def _deltalake(operation: str) -> _Work:
    def work(place: str, bucket: _Bucket) -> Any:
        import deltalake

        table = deltalake.DeltaTable(place, storage_options=bucket.aws)
        if operation == "open":
            return [child.name for child in table.schema().fields]
        return table.file_uris() if operation == "plan" else table.to_pyarrow_table(columns=list(TWO))

    return work


def _polars(place: str, bucket: _Bucket) -> Any:
    import polars as pl

    return pl.scan_delta(place, storage_options=bucket.aws).select(TWO).collect().to_arrow()


def _pyiceberg(operation: str) -> _Work:
    def work(place: str, bucket: _Bucket) -> Any:
        from pyiceberg.table import StaticTable

        table = StaticTable.from_metadata(place, properties=bucket.iceberg)
        if operation == "open":
            return [child.name for child in table.schema().fields]
        if operation == "plan":
            return [task.file.file_path for task in table.scan().plan_files()]
        return table.scan(selected_fields=TWO).to_arrow()

    return work


_OPERATIONS = {"open": "open", "plan": "open and list the files of", "read": "open and read 2 columns of"}


class _Kind(NamedTuple):
    """How the table of a case is made, from what, and how the list of its files is described."""

    title: str
    made: Callable[[_Bucket, float], str]
    prepare: Callable[[float], Any]
    listed: Callable[[Any], Any]


_DELTA = _Kind(
    f"a Delta table on S3: {_COMMITS} files, a checkpoint and 3 commits behind it", _delta_table, _delta_folder, names
)
#: Each side has a table of its own, whose files have names of their own.
_ICEBERG = _Kind(
    f"an Iceberg table on S3: {_COMMITS} files of {_COMMITS} appends by pyiceberg", _iceberg_table, lambda _: None, len
)


def _case(operation: str, kind: _Kind, sides: Mapping[str, _Work]) -> Case:
    describe = {"open": list, "plan": kind.listed, "read": contents}[operation]
    counted = {name: _counted(kind.made, work, describe) for name, work in sides.items()}
    return Case(f"{_OPERATIONS[operation]} {kind.title}", kind.prepare, counted, REQUESTS)


REQUEST_CASES: dict[str, Case] = {
    **{
        f"requests-delta-{operation}": _case(
            operation,
            _DELTA,
            {
                "deltaberg": _ours(operation),
                "deltalake": _deltalake(operation),
                **({"polars": _polars} if operation == "read" else {}),
            },
        )
        for operation in _OPERATIONS
    },
    **{
        f"requests-iceberg-{operation}": _case(
            operation,
            _ICEBERG,
            {"deltaberg": _ours(operation), "pyiceberg": _pyiceberg(operation)},
        )
        for operation in _OPERATIONS
    },
}
