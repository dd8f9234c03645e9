"""Wrong calls of verbs whose arguments are still plain text, so that no type checker finds them yet.

Once a verb takes the types of `deltaberg.choices`, the checkers find its lines here, which then move to
`wrong_calls.py`. This file goes when it is empty.
"""

from __future__ import annotations

import pyarrow as pa

from deltaberg import DeltaTable, IcebergTable, write_table

_ROWS = pa.table({"id": [1]})


def changing(delta: DeltaTable, iceberg: IcebergTable) -> None:
    write_table("t", _ROWS, format="Iceberg")
    write_table("t", _ROWS, compression="ztsd")
    for table in (delta, iceberg):
        table.delete("id = 1", strategy="copyonwrite")
        table.update({"id": "1"}, strategy="copyonwrite")
        table.append(_ROWS, schema_mode="mrge")
        table.append(_ROWS, compression="ztsd")
        table.overwrite(_ROWS, schema_mode="mrge")
        table.upsert(_ROWS, ["id"], when_matched="updte")
        table.upsert(_ROWS, ["id"], when_not_matched="insrt")
        table.merge(_ROWS, "target.id = source.id", strategy="copyonwrite")
        table.compact(compression="ztsd")
        table.explain_append(_ROWS, compresion="zstd")
    delta.transaction(isolation="serializable")
    with delta.transaction() as transaction:
        transaction.delete("id = 1", strategy="copyonwrite")
    with iceberg.transaction() as staged:
        staged.append(_ROWS, schema_mode="mrge")
