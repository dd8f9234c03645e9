"""Hints in the words of the command line: the library says what to call, and who types commands needs the option."""

from __future__ import annotations

import re

from deltaberg.errors import rephrased

__all__ = ["in_command_line"]

#: What the library says, and how the command line says it. Longer phrases come first.
_PHRASES = tuple(
    (re.compile(phrase), words)
    for phrase, words in (
        # The table and its versions
        (
            'pass format="delta" or format="iceberg"',
            "open the Iceberg table by its metadata file, the Delta table in Python",
        ),
        (r"\bopen it with version=(\d+)", r"use --version \1"),
        (r'\bopen it with timestamp=("[^"]+")', r"use --timestamp \1"),
        (r"\bopen it with snapshot_id=(\d+)", r"use --snapshot-id \1"),
        (r'\bopen it with ref="(\w+)"', r"use --ref \1"),
        (r'\bread it by inspect\("(\w+)"\)', r"read it by deltaberg metadata TABLE \1"),
        (
            r"\bcall history\(\) for its versions, or scan\(\)\.files\(\)",
            "call deltaberg history TABLE for its versions, or deltaberg files TABLE",
        ),
        (r"\buse snapshot_id\b", "use --snapshot-id"),
        (r"\buse version\b", "use --version"),
        (r"\bderived=True\b", "--derived"),
        (r"pass location_map=\{'([^']+)': '([^']+)'\}", r"pass --location-map \1=\2"),
        (r"\(see location_map\)", "(see --location-map)"),
        (r"\bwith location_map\b", "with --location-map FROM=TO"),
        (r"\bwithout location_map\b", "without --location-map"),
        (r"\bin storage_options\b", "by --storage-option"),
        # Catalogs
        (r"\bwith load_catalog\b", "with --catalog NAME"),
        (r"\bby its location with open_table\b", "by its location, without --catalog"),
        (r"pass it by keyword: load_catalog\('any name', uri=\.\.\.\)", "pass --catalog NAME and -o uri=URI"),
        (r"pass it as uri, with type='(\w+)'", r"pass it as -o uri=URI, with -o type=\1"),
        (r"\bpass type='(\w+)'", r"pass -o type=\1"),
        (r"\b(list_\w+\(\)) lists", r"in Python, \1 lists"),
        # Rows
        (r'\bschema_mode="merge"', "--merge-schema"),
        (r'\bschema_mode="overwrite"', "--replace-schema"),
        (r'\bif_exists="(\w+)"', r"--if-exists \1"),
        (r"\btimezone=", "--timezone NAME"),
        (r'\btxn=\("[^"]*", (\d+)\)', r"--txn NAME=\1"),
        (r"\bpartition_by with the types of all of them, such as .*", "--partition-by 'NAME TYPE' for each of them"),
        (r"\bpartition_by\b(?!\()", "--partition-by"),
        (r"\bcluster_by\b", "--cluster-by"),
        (r"\bexcept_cols or ", ""),
        ('by when_matched="ignore"', "by --no-update"),
        ("leave out when_matched or when_not_matched", "leave out --no-update or --no-insert"),
        (r", or call overwrite\(\) of the table with check=False", ""),
        (r", or build conditions with col\(\)", ""),
        ("pass unsafe_single_writer=True", "pass --unsafe-single-writer"),
        (r"\bpass (?:commit_)?properties=", "pass --commit-property KEY=VALUE"),
        (r"ask deltaberg\.find_commit", "in Python, ask deltaberg.find_commit"),
        # Changes of the table itself
        (r'alter\(\)\.set\(\{"([^"]+)": "([^"]+)"\}\)(?:\.commit\(\))?', r"deltaberg alter TABLE set \1=\2"),
        (r"alter\(\)\.set\(…\)", "deltaberg alter TABLE set KEY=VALUE"),
        (r"unset\('([^']+)'\) first, in the same alteration", r"deltaberg alter TABLE unset \1, first"),
        (r'with alter\(\)\.rename\("([^"]+)", new_name\)', r"with deltaberg alter TABLE rename \1 NEW_NAME"),
        (r"alter\(\)\.create_branch\(name\)", "deltaberg alter TABLE create-branch NAME"),
        (r"alter\(\)\.partition_by\(\)", "deltaberg alter TABLE partition-by"),
        (r"change (?:it|the partitioning) with alter\(\)", "change it with deltaberg alter TABLE partition-by"),
        (r"\bby alter\(\)\.set\(\)", "by deltaberg alter TABLE set KEY=VALUE"),
        (r"identifier fields by alter\(\)", "identifier fields by deltaberg alter TABLE identify-by NAME"),
        (r"drop it first: alter", "drop it first, in Python: alter"),
        (r"cherrypick_snapshot\(snapshot_id\)", "deltaberg cherry-pick TABLE SNAPSHOT_ID"),
        (
            r"one of history\(\), or use set_current_snapshot",
            "one of deltaberg history TABLE, or use set-current-snapshot",
        ),
    )
)


def in_command_line(hint: str) -> str:
    """Return a hint in the words of the command line.

    Examples
    --------
    >>> in_command_line('append with schema_mode="merge", or overwrite the table')
    'append with --merge-schema, or overwrite the table'
    """
    return rephrased(hint, _PHRASES)
