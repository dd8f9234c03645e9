"""The words of other libraries for arguments of ours, a table for each library, by the functions that take them."""

from __future__ import annotations

__all__ = ["DELTALAKE", "DELTA_SPARK", "ICEBERG_SPARK", "NEAR", "PYICEBERG", "Refused", "hint_of_needed", "words_of"]


class Refused(str):
    """The hint about a word that stands for no argument of ours."""

    __slots__ = ()


_STRICT = Refused("leave it out: a value that does not fit its column raises, or is cast by safe=False")
_CASES = Refused("leave it out: names are matched exactly, or else without regard to case")
_PROPERTIES = {"snapshot_properties": "properties"}
_SCAN = {"row_filter": "filter", "selected_fields": "columns", "case_sensitive": _CASES}
_CLAUSE = {"predicate": "condition"}
_ON_DISK = Refused("leave it out: rows that are put into an order wait on disk, as many as there are")
_COMPACTION = {
    "max_concurrent_tasks": "max_concurrent",
    "max_spill_size": _ON_DISK,
    "max_temp_directory_size": _ON_DISK,
    "min_commit_interval": Refused("leave it out: there is a commit for each group of files, see group_size="),
    "partition_filters": Refused("pass where="),
    "target_size": "target_file_size",
}
_AFTER = Refused("leave it out: what the table asks for after a commit is done, and nothing else")
_GROUPS: dict[str, str] = {"txn": Refused("leave it out: there is a commit for each group of files")}
_ROWS = {"df": "data", "case_sensitive": _CASES, **_PROPERTIES}

DELTALAKE: dict[str, dict[str, str]] = {
    "DeltaTable": {"table_uri": "location"},
    "convert_to_delta": {"configuration": "properties", "uri": "target"},
    "convert_to_iceberg": {"configuration": "properties"},
    "create_table": {
        "configuration": "properties",
        "mode": Refused('pass if_exists="error", "ignore" or "replace"'),
        "raise_if_key_not_exists": Refused("leave it out: a property of Delta that is not known raises"),
        "table_uri": "target",
    },
    "write_table": {
        "configuration": "properties",
        "engine": Refused("leave it out: there is one"),
        "overwrite_schema": Refused('pass schema_mode="overwrite"'),
        "partition_filters": Refused("pass where="),
        "predicate": "where",
        "table_or_uri": "target",
    },
    "checkpoint": {"post_commithook_properties": _AFTER},
    "restore": {
        "protocol_downgrade_allowed": Refused(
            "leave it out: the protocol stays what it is, so that readers of it go on"
        )
    },
    "vacuum": {
        "commit_properties": Refused("leave it out: only its beginning and end are recorded, if the table wants that"),
        "post_commithook_properties": _AFTER,
    },
    "overwrite": {"predicate": "where"},
    "delete": {"predicate": "where"},
    "update": {
        "predicate": "where",
        "updates": "set",
        "new_values": Refused('pass set=, where the value of a text is quoted twice, as in {"name": "\'ada\'"}'),
        "error_on_type_mismatch": _STRICT,
    },
    "merge": {
        "predicate": "on",
        "merge_schema": Refused('pass schema_mode="merge"'),
        "streamed_exec": Refused(
            "leave it out: the source is read once in any case, and memory= bounds what is held of it"
        ),
        "error_on_type_mismatch": _STRICT,
    },
    "when_matched_update": {"updates": "set", **_CLAUSE},
    "when_matched_update_all": _CLAUSE,
    "when_matched_delete": _CLAUSE,
    "when_not_matched_insert": {"updates": "values", **_CLAUSE},
    "when_not_matched_insert_all": _CLAUSE,
    "when_not_matched_by_source_update": {"updates": "set", **_CLAUSE},
    "when_not_matched_by_source_delete": _CLAUSE,
    "compact": _COMPACTION,
    "reorg": _COMPACTION,
}
PYICEBERG: dict[str, dict[str, str]] = {
    "create_table": {
        "identifier": Refused("pass target=, with catalog= if it is the name of a table in a catalog"),
        "location": Refused("pass target=; a table of a catalog is where the catalog puts it"),
        "partition_spec": Refused('pass partition_by=, as in partition_by=["day(at)", "bucket(16, id)"]'),
        "sort_order": Refused('pass sort_by=, as in sort_by=["id desc"]'),
    },
    **dict.fromkeys(("appends", "changes", "follow"), _SCAN),
    "scan": {**_SCAN, "snapshot_id": Refused("leave it out, and open the table with snapshot_id=")},
    "append": _ROWS,
    "overwrite": {
        **_ROWS,
        "overwrite_filter": Refused("pass where=, and check=False if new rows need not match it"),
    },
    "delete": {"delete_filter": "where", "case_sensitive": _CASES, **_PROPERTIES},
    "update": _PROPERTIES,
    "merge": _PROPERTIES,
    "upsert": {
        **_ROWS,
        "join_cols": "keys",
        "when_matched_update_all": Refused('pass when_matched="update" or "ignore"'),
        "when_not_matched_insert_all": Refused('pass when_not_matched="insert" or "ignore"'),
    },
    "add_files": _PROPERTIES,
    "alter": _PROPERTIES,
    "compact": _PROPERTIES,
    "reorg": _PROPERTIES,
    "convert_equality_deletes": _PROPERTIES,
    "rewrite_position_delete_files": _PROPERTIES,
    "repair": _PROPERTIES,
    "restore": _PROPERTIES,
    "delete_by_keys": _PROPERTIES,
    "rewrite_manifests": _PROPERTIES,
    "transaction": _PROPERTIES,
}
DELTA_SPARK: dict[str, dict[str, str]] = {
    "delete": {"condition": "where"},
    "update": {"condition": "where"},
    "merge": {"condition": "on"},
    "clone": {"isShallow": "shallow"},
}
_ONE_COMMIT = Refused("leave it out: each group of files is a commit of its own")
_DELETES = Refused("leave it out: many files are deleted at a time")
ICEBERG_SPARK: dict[str, dict[str, str]] = {
    "compact": {
        "delete_file_threshold": Refused(
            "pass max_deleted=; files to which delete files of several data files apply are always rewritten"
        ),
        "delete_ratio_threshold": Refused(
            "pass max_deleted=; files with exactly that share of deleted rows are not rewritten"
        ),
        "max_concurrent_file_group_rewrites": "max_concurrent",
        "max_file_group_size_bytes": "group_size",
        "max_file_size_bytes": "max_file_size",
        "min_file_size_bytes": "min_file_size",
        "min_input_files": "min_files",
        "options": Refused("pass each option as an argument of its own"),
        "output_spec_id": Refused("leave it out: rows go to the partitioning that new rows go to"),
        "partial_progress_enabled": _ONE_COMMIT,
        "partial_progress_max_commits": _ONE_COMMIT,
        "remove_dangling_deletes": Refused("call rewrite_position_delete_files()"),
        "rewrite_job_order": Refused("leave it out: groups come in the order in which their files were written"),
        "sort_order": Refused('pass sort_by=, as in sort_by=["id desc"], or z_order_by='),
        "strategy": Refused("leave it out to put small files together, or pass sort_by=, z_order_by= or hilbert_by="),
        "target_file_size_bytes": "target_file_size",
        "use_starting_sequence_number": Refused(
            "leave it out: new files always have the sequence number of the snapshot that was read"
        ),
    },
    "rewrite_position_delete_files": {
        "min_input_files": "min_files",
        "options": Refused("pass each option as an argument of its own"),
    },
    "expire_snapshots": {
        "max_concurrent_deletes": _DELETES,
        "stream_results": Refused("leave it out: memory does not depend on the number of files"),
    },
    "remove_orphan_files": {
        "equal_authorities": Refused('pass prefix_mismatch="ignore" to keep files that another bucket may hold, too'),
        "equal_schemes": Refused("leave it out: s3, s3a and s3n are one scheme"),
        "file_list_view": Refused("leave it out: the directory is listed; location= names a part of it"),
        "max_concurrent_deletes": _DELETES,
        "prefix_listing": Refused("leave it out: buckets are listed by prefix in any case"),
    },
    "rewrite_manifests": {"use_caching": Refused("leave it out: memory does not depend on the number of entries")},
    "rewrite_table_path": {"create_file_list": Refused("leave it out: the list of files is always written")},
}
#: Words of ours for other functions.
_OURS: dict[str, dict[str, str]] = {
    "compact": _GROUPS,
    "reorg": _GROUPS,
}
#: What callers may mean by a name that their function does not know; it may stand for one of several.
NEAR: dict[str, tuple[str, ...]] = {
    "condition": ("where", "filter", "predicate"),
    "custom_metadata": ("properties", "user_metadata"),
    "delete_filter": ("where", "filter"),
    "df": ("data",),
    "filter": ("where",),
    "join_cols": ("keys",),
    "on": ("keys",),
    "max_spill_size": ("memory",),
    "max_temp_directory_size": ("memory",),
    "other": ("source",),
    "overwrite_filter": ("where",),
    "path": ("location", "target"),
    "predicate": ("where", "filter", "condition"),
    "row_filter": ("filter", "where"),
    "rows": ("data",),
    "selected_fields": ("columns",),
    "source": ("data",),
    "table_or_uri": ("target",),
    "table_uri": ("location", "target"),
    "updates": ("set",),
    "values": ("set",),
    "where": ("filter", "predicate", "condition"),
}
_VALUES = 'pass a new value for each column, as in {"price": "price * 2"}'
#: What else a hint says of an argument that must be given.
_NEEDED = {
    ("delete", "where"): "pass a condition, or where=None to delete all rows",
    ("update", "set"): _VALUES,
    ("when_matched_update", "set"): _VALUES,
    ("when_not_matched_insert", "values"): _VALUES,
    ("when_not_matched_by_source_update", "set"): _VALUES,
    ("merge", "on"): 'say which rows match, such as "target.id = source.id"',
}


def words_of(function: str) -> dict[str, str]:
    """Return what a function calls the arguments that other libraries call by these words.

    Examples
    --------
    >>> words_of("delete")["predicate"]
    'where'
    """
    tables = (table.get(function, {}) for table in (DELTALAKE, PYICEBERG, DELTA_SPARK, ICEBERG_SPARK, _OURS))
    return {word: ours for table in tables for word, ours in table.items()}


def hint_of_needed(function: str, name: str) -> str:
    """Return how an argument is given that is needed."""
    return _NEEDED.get((function, name), f"pass {name}=")
