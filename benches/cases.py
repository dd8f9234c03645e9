"""All cases, by subject.

A side of a case prepares (imports, data), and then does its work between two readings of the clock or of a server's
counter. It returns what it found, and all sides of a case must agree on that before they are compared.
"""

from __future__ import annotations

from benches.change_cases import CHANGE_CASES, CHANGED_CASES
from benches.compact_cases import COMPACT_CASES, SKIPPED_CASES
from benches.curve_cases import CURVE_CASES
from benches.delta_cases import LOG_CASES, SCAN_CASES
from benches.expiry_cases import EXPIRY_CASES
from benches.iceberg_cases import MANIFEST_CASES, ROW_CASES
from benches.iceberg_write_cases import ICEBERG_CHANGE_CASES, ICEBERG_WRITE_CASES
from benches.kernel_cases import KERNEL_CASES
from benches.manifest_cases import WRITTEN_MANIFEST_CASES
from benches.measure import Case, Subject
from benches.request_cases import REQUEST_CASES
from benches.restore_cases import RESTORE_CASES
from benches.single_kernel_cases import SINGLE_KERNEL_CASES
from benches.spark_cases import SPARK_CASES
from benches.spark_change_cases import SPARK_CHANGE_CASES
from benches.spark_key_cases import SPARK_KEY_CASES
from benches.start_cases import START_CASES
from benches.stream_cases import STREAM_CASES
from benches.vacuum_cases import VACUUM_CASES
from benches.write_cases import WRITE_CASES, WRITTEN_CASES

__all__ = ["CASES", "SUBJECTS"]

SUBJECTS: dict[str, Subject] = {
    "planning": Subject("Logs and planning", {**LOG_CASES, **MANIFEST_CASES}),
    "scans": Subject("Scans on one machine", {**SCAN_CASES, **ROW_CASES}),
    "writing": Subject("Writing on one machine", {**WRITE_CASES, **ICEBERG_WRITE_CASES, **WRITTEN_MANIFEST_CASES}),
    "written": Subject("Bytes written", {**WRITTEN_CASES, **CHANGED_CASES}),
    "changing": Subject("Changing rows on one machine", {**CHANGE_CASES, **ICEBERG_CHANGE_CASES}),
    "vacuum": Subject("Vacuum on one machine", VACUUM_CASES),
    "restore": Subject("Restore and shallow clones on one machine", RESTORE_CASES),
    "expiry": Subject("Expiry and orphans on one machine", EXPIRY_CASES),
    "compaction": Subject("Compaction on one machine", COMPACT_CASES),
    "skipping": Subject("Files that filters do not skip", SKIPPED_CASES),
    "curves": Subject("Cost curves", CURVE_CASES),
    "spark": Subject("On Spark", SPARK_CASES),
    "spark-streams": Subject("Streams on Spark", STREAM_CASES),
    "spark-writing": Subject("Writing and changing tables on Spark", {**SPARK_CHANGE_CASES, **SPARK_KEY_CASES}),
    "start": Subject("From the start of Python", START_CASES),
    "requests": Subject("Requests to S3", REQUEST_CASES),
    "kernels": Subject("Kernels", KERNEL_CASES),
    "single-kernels": Subject("Kernels on one thread", SINGLE_KERNEL_CASES),
}
CASES: dict[str, Case] = {name: case for subject in SUBJECTS.values() for name, case in subject.cases.items()}
