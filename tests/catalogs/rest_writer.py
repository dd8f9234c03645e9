"""A REST catalog on loopback that takes changes: pyiceberg carries them out, and replies are lost as told."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.catalogs.rest_server import Answer, Asked, RestServer, error_body

__all__ = ["WritableServer", "writing_version_3"]


@dataclass
class WritableServer(RestServer):
    """A catalog whose tables are those of a SQL catalog of pyiceberg."""

    peer: Any = None
    #: What happens to the next commits: ``lost`` ones are carried out and answered by 504, ``cut`` ones are carried
    #: out and answered in part, ``never`` ones are answered by 504 and not carried out, ``busy`` ones by 503,
    #: ``doubled`` ones are carried out twice, so that the second time answers 409, ``garbled`` ones are carried out and
    #: confirmed by an answer that is not JSON, ``refused`` ones are answered by 409, and ``late`` ones are answered by
    #: 504 and carried out right before the next one.
    faults: list[str] = field(default_factory=list)
    #: Commits that a gateway holds back, by their tables; None for those of several tables.
    held: list[tuple[tuple[str, ...] | None, Asked]] = field(default_factory=list)
    #: What is called before a commit is carried out.
    before: list[Any] = field(default_factory=list)

    def _of_namespaces(self, parts: list[str], asked: Asked) -> Answer:
        if parts == ["transactions", "commit"]:
            return self._commit(None, asked)
        if asked.method == "DELETE":
            return self._entered(lambda: self.peer.drop_table(_levels(parts)))
        if asked.method == "POST":
            body = json.loads(asked.body)
            if parts == ["tables", "rename"]:
                names = [(*body[one]["namespace"], body[one]["name"]) for one in ("source", "destination")]
                return self._entered(lambda: self.peer.rename_table(*names))
            if parts[2] == "register":
                name = (*parts[1].split("\x1f"), body["name"])
                return self._entered(lambda: self.peer.register_table(name, body["metadata-location"]))
            if len(parts) == 3:
                return self._staged(tuple(parts[1].split("\x1f")), body)
            return self._commit(_levels(parts), asked)
        return super()._of_namespaces(parts, asked)

    def _entered(self, change: Callable[[], Any]) -> Answer:
        """Change which tables there are, and under what names."""
        from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError

        try:
            change()
        except NoSuchTableError as error:
            return 404, {}, error_body(404, "NoSuchTableException", str(error))
        except TableAlreadyExistsError as error:
            return 409, {}, error_body(409, "AlreadyExistsException", str(error))
        return 204, {}, None

    def _staged(self, namespace: tuple[str, ...], body: dict[str, Any]) -> Answer:
        from pyiceberg.partitioning import PartitionSpec
        from pyiceberg.schema import Schema
        from pyiceberg.table.sorting import SortOrder

        if (*namespace, body["name"]) in self.tables:
            return 409, {}, error_body(409, "AlreadyExistsException", "Table already exists")
        staged = self.peer._create_staged_table(
            (*namespace, body["name"]),
            Schema.model_validate(body["schema"]),
            body.get("location"),
            PartitionSpec.model_validate(body["partition-spec"]),
            SortOrder.model_validate(body["write-order"]),
            body["properties"],
        )
        return 200, {}, {"metadata": json.loads(staged.metadata.model_dump_json())} | self.extra

    def _commit(self, levels: tuple[str, ...] | None, asked: Asked) -> Answer:
        fault = self.faults.pop(0) if self.faults else ""
        if self.before:
            self.before.pop(0)()
        while self.held and fault != "late":
            self._carried_out(*self.held.pop(0))
        unknown: Answer = 504, {}, error_body(504, "CommitStateUnknownException", "the reply is late")
        if fault == "late":
            self.held.append((levels, asked))
            return unknown
        if fault in ("never", "busy"):
            return unknown if fault == "never" else (503, {}, error_body(503, "ServiceUnavailableException", "busy"))
        if fault == "refused":
            return 409, {}, error_body(409, "CommitFailedException", "Requirement failed")
        answer = self._carried_out(levels, asked)
        if fault == "doubled":
            return self._carried_out(levels, asked)
        if fault == "lost":
            return unknown
        if fault == "garbled":
            return 200, {}, b"<html>done</html>"
        return (answer[0], {"Content-Length": "999999"}, answer[2]) if fault == "cut" else answer

    def _carried_out(self, levels: tuple[str, ...] | None, asked: Asked) -> Answer:
        if levels is not None:
            return self._changed(levels, asked.body)
        from pyiceberg.exceptions import CommitFailedException
        from pyiceberg.table import CommitTableRequest

        changes = {}
        for change in json.loads(asked.body)["table-changes"]:
            name = change["identifier"]
            one = (*name["namespace"], name["name"])
            changes[one] = json.dumps(change)
        try:
            # All tables are looked at before the first one is changed.
            for one, body in changes.items():
                metadata = self.peer.load_table(one).metadata
                for requirement in CommitTableRequest.model_validate_json(body).requirements:
                    requirement.validate(metadata)
        except CommitFailedException as error:
            return 409, {}, error_body(409, "CommitFailedException", str(error))
        for one, body in changes.items():
            self._changed(one, body)
        return 204, {}, None

    def _changed(self, levels: tuple[str, ...], body: str) -> Answer:
        from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError
        from pyiceberg.io import load_file_io
        from pyiceberg.table import CommitTableRequest, Table
        from pyiceberg.table.metadata import TableMetadataV2

        sent = CommitTableRequest.model_validate_json(body)
        try:
            table = Table(levels, TableMetadataV2.model_construct(), "", load_file_io(), self.peer)
            committed = self.peer.commit_table(table, sent.requirements, sent.updates)
        except (CommitFailedException, TableAlreadyExistsError, ValueError) as error:
            return 409, {}, error_body(409, "CommitFailedException", str(error))
        self.tables[levels] = Path(committed.metadata_location.removeprefix("file://"))
        metadata = json.loads(committed.metadata.model_dump_json())
        return 200, {}, {"metadata-location": committed.metadata_location, "metadata": metadata}


def _levels(parts: list[str]) -> tuple[str, ...]:
    """Return the name of a table whose path has these parts."""
    return (*parts[1].split("\x1f"), parts[3])


@contextmanager
def writing_version_3() -> Iterator[None]:
    """Let pyiceberg write metadata of version 3 as well.

    It makes all updates of that version, and refuses to write what comes of them. Where a table is made in that version
    or raised to it, pyiceberg would also leave out the id of the next row.
    """
    from pyiceberg.table import update
    from pyiceberg.table.metadata import TableMetadataV3
    from pyiceberg.typedef import IcebergBaseModel

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(update, "SUPPORTED_TABLE_FORMAT_VERSION", 3)
        patch.setattr(TableMetadataV3, "model_dump_json", IcebergBaseModel.model_dump_json)
        patch.setattr(TableMetadataV3.model_fields["next_row_id"], "default", 0)
        yield
