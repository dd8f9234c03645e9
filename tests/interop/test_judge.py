"""The judge itself: what it runs, what it says of failures, and that it ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pyarrow as pa
import pytest

from tests.support.judge import Judge, JudgeError

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.one_backend, pytest.mark.timeout(300)]

_ROOT = Path(__file__).resolve().parents[2]
_PARENT = """
import pathlib, sys
from tests.support.judge import Judge
judge = Judge(pathlib.Path(sys.argv[1]))
print(judge.pid, flush=True)
judge.run("import time; time.sleep(1000)")
"""


def test_sql_and_python_give_arrow(judge: Judge) -> None:
    found = judge.sql("SELECT id, CAST(id AS string) AS s FROM range(3)")
    assert found.to_pylist() == [{"id": 0, "s": "0"}, {"id": 1, "s": "1"}, {"id": 2, "s": "2"}]
    code = "print('noise'); frame = spark.range(first, last)\nframe.selectExpr('sum(id) AS total')"
    assert judge.run(code, first=1, last=4) == pa.table({"total": [6]})
    assert judge.run("{'sum': sum(numbers)}", numbers=[1, 2]) == {"sum": 3}
    assert judge.run("import os; here = os.getcwd()") is None
    assert judge.sql("SELECT 1 AS a WHERE false").num_rows == 0


def test_several_answers_at_once(judge: Judge) -> None:
    waiting = [judge.start("spark.range(n).count()", n=n) for n in range(12)]
    assert [one.result() for one in waiting] == list(range(12))


def test_failures_say_what_the_jvm_says(judge: Judge) -> None:
    with pytest.raises(JudgeError, match=r"AnalysisException: .*TABLE_OR_VIEW_NOT_FOUND.*nowhere"):
        judge.sql("SELECT * FROM nowhere")
    with pytest.raises(JudgeError, match=r'NumberFormatException: .*"x"'):
        judge.run("spark._jvm.java.lang.Integer.parseInt('x')")
    with pytest.raises(JudgeError, match="SyntaxError"):
        judge.run("1 +")
    with pytest.raises(JudgeError, match="TypeError: Object of type set"):
        judge.run("{1}")
    assert judge.run("1 + 1") == 2


@pytest.mark.judges
def test_the_process_ends_with_the_one_that_started_it(tmp_path: Path) -> None:
    """Killed, the parent cannot say good-bye."""
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=_ROOT
    )
    with parent:
        assert parent.stdout is not None
        process = psutil.Process(int(parent.stdout.readline()))
        family = [process, *process.children(recursive=True)]
        assert len(family) > 1
        parent.kill()
        _, alive = psutil.wait_procs(family, timeout=60)
        assert not alive
