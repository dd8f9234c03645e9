"""The library is sent to workers that do not have it: the pure package as a zip, by ``addPyFile``."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.delta_builder import DeltaBuilder
from tests.support.rows import ID, ids

pytestmark = [pytest.mark.spark, pytest.mark.one_backend]

_ROOT = Path(__file__).resolve().parents[2]

_DRIVER = """
import sys
import deltaberg, pyarrow as pa
from tests.support.spark_session import start_session

# The workers have no folder of these tests, and so not the daemon of other tests.
spark = start_session(spark__python__daemon__module="pyspark.daemon")
spark.sparkContext.addPyFile(sys.argv[1])

def where(batches):
    import deltaberg, deltaberg.kernels
    count = sum(batch.num_rows for batch in batches)
    backend = deltaberg.kernels.report().backend
    yield pa.record_batch({"n": [count], "backend": [backend], "file": [deltaberg.__file__]})

scan = deltaberg.open_table(sys.argv[2]).scan("id > 1")
rows = scan.map_in_arrow(spark, where, "n long, backend string, file string").collect()
print(sum(row.n for row in rows), {row.backend for row in rows}, {row.file for row in rows})
spark.stop()
"""

# An interpreter without the directories of the editable install: site-packages alone, and no .pth file is read.
_WORKER = """#!/bin/sh
PYTHONPATH="{packages}${{PYTHONPATH:+:$PYTHONPATH}}" exec "{python}" -S "$@"
"""


def _zipped(folder: Path) -> Path:
    """Return the package without its compiled module, as ``--py-files`` takes it."""
    target = folder / "deltaberg.zip"
    source = _ROOT / "python"
    with zipfile.ZipFile(target, "w") as file:
        for path in sorted((source / "deltaberg").rglob("*.py")):
            file.write(path, path.relative_to(source).as_posix())
    return target


@pytest.mark.full
def test_a_zip_reaches_the_workers(builder: DeltaBuilder, tmp_path: Path) -> None:
    adds = [builder.add(ids(1, 2, 3), vector=builder.vector([1], "i"), stats="count"), builder.add(ids(4, 5))]
    builder.create(ID, *adds, protocol=builder.features("deletionVectors"))
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    worker = tmp_path / "python"
    worker.write_text(_WORKER.format(packages=packages, python=sys.executable))
    worker.chmod(0o755)
    environment = {**os.environ, "PYSPARK_PYTHON": str(worker), "DELTABERG_KERNELS": "auto"}
    environment.pop("PYTHONPATH", None)
    alone = subprocess.run(
        [str(worker), "-c", "import deltaberg"], env=environment, capture_output=True, text=True, check=False
    )
    assert "ModuleNotFoundError" in alone.stderr
    # The driver finds the package and these tests by their folders, which workers of Spark do not inherit.
    driver = f"import sys; sys.path[:0] = [{str(_ROOT)!r}, {str(_ROOT / 'python')!r}]\n{_DRIVER}"
    finished = subprocess.run(
        [sys.executable, "-c", driver, str(_zipped(tmp_path)), str(builder.root)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    count, backend, file = finished.stdout.splitlines()[-1].split(" ", 2)
    assert (count, backend) == ("3", "{'python'}")
    assert "deltaberg.zip" in file
