"""Plants small faults in the package, and prints those that no test finds: ``make mutants``.

A seeded sample of mutants is drawn and tried in a copy of the sources, one after the other. Of Python mutants, one run
of the local tests, with a probe at the place of each, tells which tests reach them, in other processes, too. Each of
them then meets these tests. Mutants of the Rust kernels are those of cargo-mutants. They meet the tests of the crate,
and then those of ``tests/kernels`` with the kernels compiled from them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.support.mutations import Mutant, mutants_of
from tests.support.packages import ROOT
from tests.support.reached import CHOSEN, REACHED, Reach, reach_of
from tests.support.shared import shared_directory

__all__ = ["main", "with_probes"]

_PYTHON, _CRATE = "python/deltaberg", "deltaberg-core"
_CARGO_MUTANTS = ROOT / ".cache" / "cargo-mutants" / "bin" / "cargo-mutants"
_COMPILED = "python/deltaberg/_native.abi3.so"
#: What these prove is not what the package does when it is called.
_NO_TESTS = ("tests/guards", "tests/typing", "tests/benches")
#: What a file with a probe imports, and the line that it stands in, so that it moves no other line.
_PROBE = "from tests.support.reached import probe as _probe_of_mutants"
_FUTURE = "from __future__ import annotations"
KILLED, SURVIVED, UNREACHED, UNDECIDED = "killed", "survived", "reached by no test", "out of time"
UNVIABLE = "does not compile"


class Outcome(NamedTuple):
    """What became of a mutant, and how many tests it met."""

    place: str
    diff: str
    verdict: str
    tests: str


class Copy:
    """A copy of the sources, where mutants are planted."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "tree"
        self.folder = folder
        self._writes = 0
        listed = subprocess.check_output(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, text=True
        )
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file():
                target = self.root / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, target)
        shutil.copy2(ROOT / _COMPILED, self.root / _COMPILED)
        # What set-up has installed is used by both.
        for name in (".venv", ".cache"):
            if (ROOT / name).exists():
                (self.root / name).symlink_to(ROOT / name)

    def write(self, file: str, text: str) -> None:
        """Replace a file, with a time of its own: neither Python nor cargo may take it for the one before."""
        self._writes += 1
        path = self.root / file
        path.write_text(text, "utf-8")
        now = time.time() + self._writes
        os.utime(path, (now, now))

    def run(self, command: Sequence[str], seconds: float, **variables: str) -> int | None:
        """Run a command in the copy; return its exit code, or None if it did not end in time."""
        shared = shared_directory()
        environment = {
            **os.environ,
            "DELTABERG_KERNELS": "native",
            "PYTHONPATH": os.pathsep.join([str(self.root / "python"), str(self.root)]),
            "PYTHONPYCACHEPREFIX": str(self.folder / "bytecode"),
            **({"DELTABERG_SHARED": str(shared)} if shared else {}),
            **variables,
        }
        with (self.folder / "output.txt").open("w") as output:
            process = subprocess.Popen(
                command, cwd=self.root, env=environment, stdout=output, stderr=output, start_new_session=True
            )
            try:
                return process.wait(seconds)
            except subprocess.TimeoutExpired:
                return None
            finally:
                # Servers and workers of the tests end with them, however those end.
                _end_group(process)

    def output(self) -> str:
        """Return the last lines that the last command printed."""
        return "\n".join((self.folder / "output.txt").read_text("utf-8", "replace").splitlines()[-15:])

    def pytest(self, arguments: Sequence[str], seconds: float, **variables: str) -> int | None:
        """Run tests."""
        options = ["-q", "-m", "not spark and not full", "-p", "no:cacheprovider", "-p", "tests.support.reached"]
        ignored = [f"--ignore={folder}" for folder in _NO_TESTS]
        return self.run([sys.executable, "-m", "pytest", *options, *ignored, *arguments], seconds, **variables)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _python(copy: Copy, options: argparse.Namespace) -> Iterator[Outcome]:
    files = sorted(str(path.relative_to(ROOT)) for path in (ROOT / _PYTHON).rglob("*.py"))
    every = [mutant for file in files if options.where in file for mutant in mutants_of(copy.root, file)]
    drawn = sorted(random.Random(options.seed).sample(every, min(options.number, len(every))))
    print(f"{len(drawn)} of {len(every)} mutants of Python; which tests reach them is found out first", flush=True)
    reach = _reach(copy, drawn, options)
    for number, mutant in enumerate(drawn):
        source = (copy.root / mutant.file).read_text("utf-8")
        tests = reach.get(number, {})
        copy.write(mutant.file, mutant.applied(source))
        verdict = _met(copy, tests, options) if tests else UNREACHED
        copy.write(mutant.file, source)
        yield Outcome(f"{mutant.file}:{mutant.line}", mutant.diff(source), verdict, f"{len(tests)} tests")


def _reach(copy: Copy, drawn: Sequence[Mutant], options: argparse.Namespace) -> Reach:
    """Run the tests with a probe at the place of each mutant, and return which of them reach it."""
    sources = {mutant.file: (copy.root / mutant.file).read_text("utf-8") for mutant in drawn}
    for file, source in sources.items():
        probes = [(number, mutant) for number, mutant in enumerate(drawn) if mutant.file == file]
        copy.write(file, with_probes(source, probes))
    folder = copy.folder / "reached"
    folder.mkdir()
    started = time.monotonic()
    ended = copy.pytest(options.tests, 7200, **{REACHED: str(folder)})
    if ended not in (0, 1):
        sys.exit(f"the tests did not run:\n{copy.output()}")
    reach = reach_of(folder)
    if not reach:
        sys.exit("no test reaches any of these mutants, or the tests import another deltaberg than this one")
    for file, source in sources.items():
        copy.write(file, source)
    print(f"the tests took {time.monotonic() - started:.0f} s: {copy.output().splitlines()[-1]}", flush=True)
    return reach


def with_probes(source: str, probes: Iterable[tuple[int, Mutant]]) -> str:
    """Return the source with calls of the probe, which change nothing else."""
    inserted = []
    for number, mutant in probes:
        (start, before), (end, after) = mutant.probed(f"_probe_of_mutants({number})")
        size = mutant.end - mutant.start
        # Of what begins at one place, the longest is the outermost; and what ends there comes before.
        inserted += [(start, 1, -size, before), (end, 0, size, after)]
    for place, _, _, text in sorted(inserted, reverse=True):
        source = source[:place] + text + source[place:]
    return source.replace(_FUTURE, f"{_FUTURE}; {_PROBE}", 1)


def _met(copy: Copy, tests: dict[str, float], options: argparse.Namespace) -> str:
    """Let a mutant meet tests, those of the quickest files first, until one fails."""
    chosen = copy.folder / "chosen.json"
    chosen.write_text(json.dumps(sorted(tests)), "utf-8")
    files: Counter[str] = Counter()
    for name, seconds in tests.items():
        files[name.partition("::")[0]] += round(seconds * 1000)
    ordered = sorted(files, key=lambda file: files[file])
    limit = ["-x", "--timeout=60"]
    ended = copy.pytest([*limit, *ordered], options.seconds, **{CHOSEN: str(chosen)})
    return UNDECIDED if ended is None else SURVIVED if ended == 0 else KILLED


def _rust(copy: Copy, options: argparse.Namespace) -> Iterator[Outcome]:
    command = [str(_CARGO_MUTANTS), "mutants", "--list", "--json", "--package", _CRATE]
    listed = json.loads(subprocess.check_output(command, cwd=ROOT))
    every = [record for record in listed if options.where in record["file"]]
    drawn = random.Random(options.seed).sample(every, min(options.number, len(every)))
    print(f"{len(drawn)} of {len(every)} mutants of Rust; the tests run without one first", flush=True)
    started = time.monotonic()
    verdict = _met_kernels(copy, 3600)
    if verdict != SURVIVED:
        sys.exit(f"without a mutant, too, the tests say {verdict}:\n{copy.output()}")
    seconds = 60 + 3 * (time.monotonic() - started)
    for record in sorted(drawn, key=lambda record: (record["file"], record["span"]["start"]["line"])):
        file, span = record["file"], record["span"]
        source = (copy.root / file).read_text("utf-8")
        lines = source.split("\n")
        start, end = (
            sum(len(line) + 1 for line in lines[: at["line"] - 1]) + at["column"] - 1
            for at in (span["start"], span["end"])
        )
        mutant = Mutant(file, span["start"]["line"], start, end, record["replacement"])
        copy.write(file, mutant.applied(source))
        verdict = _met_kernels(copy, seconds)
        copy.write(file, source)
        yield Outcome(record["name"], mutant.diff(source), verdict, "the kernel tests")


def _met_kernels(copy: Copy, seconds: float) -> str:
    """Let the kernels meet the tests of the crate, and then those of Python with kernels that are compiled anew."""
    target = ROOT / ".cache" / "mutants"
    variables = {"CARGO_TARGET_DIR": str(target)}
    for command in (
        ["cargo", "test", "--locked", "--quiet", "--package", _CRATE, "--no-run"],
        ["cargo", "build", "--locked", "--quiet", "--package", "deltaberg-python"],
    ):
        if copy.run(command, 3600, **variables):
            return UNVIABLE
    if copy.run(["cargo", "test", "--locked", "--quiet", "--package", _CRATE], seconds, **variables) != 0:
        return KILLED
    (compiled,) = (path for path in (target / "debug").glob("lib_native.*") if path.suffix in (".so", ".dylib"))
    # In place of a file that a process may still map.
    (copy.root / _COMPILED).unlink()
    shutil.copy2(compiled, copy.root / _COMPILED)
    # Without optimization, on a busy machine, a test may take minutes; one that never ends meets the limit of all.
    return SURVIVED if copy.pytest(["-x", f"--timeout={seconds:.0f}", "tests/kernels"], seconds) == 0 else KILLED


def _print(outcomes: Sequence[Outcome]) -> None:
    counts = Counter(outcome.verdict for outcome in outcomes)
    print(f"\n{len(outcomes)} mutants: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()))
    for outcome in outcomes:
        if outcome.verdict not in (KILLED, UNVIABLE):
            print(f"\n{outcome.place}: {outcome.verdict} ({outcome.tests})\n{outcome.diff}")


def main() -> int:
    """Draw mutants, try them, and print those that live."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--number", type=int, default=40, metavar="N", help="how many mutants of each language")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--only", choices=["python", "rust"], help="mutants of one language alone")
    parser.add_argument("--where", default="", metavar="TEXT", help="only files with this text in their path")
    parser.add_argument("--seconds", type=int, default=600, metavar="N", help="how long one mutant may take")
    parser.add_argument(
        "tests", nargs="*", default=["tests"], help="tests that may find a Python mutant, by default all"
    )
    options = parser.parse_args()
    print(f"seed {options.seed}; repeat with --seed {options.seed}", flush=True)
    parts = {"python": _python, "rust": _rust}
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="deltaberg-mutants-") as folder:
        copy = Copy(Path(folder))
        for name, part in parts.items():
            if options.only in (None, name):
                for outcome in part(copy, options):
                    print(f"{outcome.verdict}: {outcome.place} ({outcome.tests})", flush=True)
                    outcomes.append(outcome)
    _print(outcomes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
