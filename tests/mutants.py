"""Plants small faults in the package, and prints those that no test finds: ``make mutants``.

A seeded sample of mutants is drawn and tried in copies of the sources. Of Python mutants, one run of the local tests,
with a probe in each block of the package, notes which tests reach it, in other processes, too. A mutant then meets
those tests that reach its block. The notes stay in ``.cache``, so that the next sample needs no such run. Mutants of
the Rust kernels are those of cargo-mutants. They meet the tests of the crate, and then those of ``tests/kernels`` with
the kernels compiled from them.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import Queue
from typing import NamedTuple

from tests.support.mutations import Block, Mutant, blocks_of, mutants_of
from tests.support.packages import ROOT
from tests.support.probes import HITS
from tests.support.reached import CHOSEN, REACHED, Reached, reached_by, recorded
from tests.support.shared import shared_directory

__all__ = ["main", "with_probes"]

_PYTHON, _CRATE = "python/deltaberg", "deltaberg-core"
_CARGO_MUTANTS = ROOT / ".cache" / "cargo-mutants" / "bin" / "cargo-mutants"
#: What is compiled of other packages serves all copies.
_BYTECODE = ROOT / ".cache" / "bytecode"
#: Where a run notes which tests reach what.
_NOTES = ROOT / ".cache" / "reached"
#: So many files of tests run in one process while that is noted, and so many tests meet a mutant before all others.
_PACK, _FEW = 8, 100
_COMPILED = "python/deltaberg/_native.abi3.so"
#: What these prove is not what the package does when it is called.
_NO_TESTS = ("tests/guards", "tests/typing", "tests/benches")
#: What a file with a probe imports, and the line that it stands in, so that it moves no other line.
_PROBE = "from tests.support.probes import probe as _probe_of_mutants"
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

    @contextlib.contextmanager
    def planted(self, texts: Mapping[str, str]) -> Iterator[None]:
        """Have other texts in files for a while."""
        before = {file: (self.root / file).read_text("utf-8") for file in texts}
        for file, text in texts.items():
            self._write(file, text)
        yield
        for file, text in before.items():
            self._write(file, text)

    def _write(self, file: str, text: str) -> None:
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
            "PYTHONPYCACHEPREFIX": str(_BYTECODE),
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
        return "\n".join((self.folder / "output.txt").read_text("utf-8", "replace").splitlines()[-40:])

    def pytest(self, arguments: Sequence[str], seconds: float, **variables: str) -> int | None:
        """Run tests."""
        options = ["-q", "-m", "not spark and not full", "-p", "no:cacheprovider", "-p", "tests.support.reached"]
        return self.run([sys.executable, "-m", "pytest", *options, *arguments], seconds, **variables)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextlib.contextmanager
def _copies(count: int) -> Iterator[list[Copy]]:
    with tempfile.TemporaryDirectory(prefix="deltaberg-mutants-") as folder:
        try:
            yield [Copy(Path(folder, str(number))) for number in range(count)]
        finally:
            shutil.rmtree(_BYTECODE / Path(folder).relative_to("/"), ignore_errors=True)


def _python(options: argparse.Namespace) -> Iterator[Outcome]:
    with _copies(options.jobs) as made, ThreadPoolExecutor(options.jobs) as pool:
        copies: Queue[Copy] = Queue()
        for copy in made:
            copies.put(copy)
        files = sorted(str(path.relative_to(ROOT)) for path in (ROOT / _PYTHON).rglob("*.py"))
        every = [mutant for file in files if options.where in file for mutant in mutants_of(ROOT, file)]
        drawn = sorted(random.Random(options.seed).sample(every, min(options.number, len(every))))
        print(f"{len(drawn)} of {len(every)} mutants of Python", flush=True)
        tests = _tests_by_mutant(drawn, _Reach(files, _files_of(options.tests)).noted(copies, pool))

        def tried(mutant: Mutant) -> Outcome:
            copy = copies.get()
            try:
                return _tried(copy, mutant, tests[mutant], options.seconds)
            finally:
                copies.put(copy)

        for done in as_completed([pool.submit(tried, mutant) for mutant in drawn]):
            yield done.result()


def _files_of(places: Iterable[str]) -> list[str]:
    """Return the files of tests in folders and files."""
    inside = {
        str(file.relative_to(ROOT))
        for place in places
        for file in ([ROOT / place] if place.endswith(".py") else (ROOT / place).rglob("test_*.py"))
    }
    files = sorted(file for file in inside if not file.startswith(_NO_TESTS))
    if not files or not all((ROOT / file).is_file() for file in files):
        sys.exit(f"there are no tests in {' '.join(places)}")
    return files


class _Reach:
    """Which tests reach which blocks: noted in ``.cache`` until the package or a file of tests changes."""

    def __init__(self, files: Iterable[str], tests: Sequence[str]) -> None:
        self._tests = tests
        self._probed: dict[str, str] = {}
        #: The blocks of each file, with the number of the first.
        self._blocks: dict[str, tuple[int, list[Block]]] = {}
        self._number = 0
        digest = hashlib.sha256()
        for file in files:
            source = (ROOT / file).read_text("utf-8")
            blocks = blocks_of(source)
            self._blocks[file] = self._number, blocks
            self._probed[file] = with_probes(source, enumerate(blocks, self._number))
            self._number += len(blocks)
            digest.update(f"{file}\n{self._probed[file]}".encode())
        self._folder = _NOTES / digest.hexdigest()[:16]

    def noted(self, copies: Queue[Copy], pool: ThreadPoolExecutor) -> _Reach:
        """Run the tests that no notes are of, in packs, with a probe in each block."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for older in set(_NOTES.iterdir()) - {self._folder}:
            shutil.rmtree(older)
        missing = [file for file in self._tests if not recorded(self._folder, ROOT, file)]
        packs = [missing[start : start + _PACK] for start in range(0, len(missing), _PACK)]
        if packs:
            print(f"{len(missing)} files of tests run once, to note what they reach; a run that is ended goes on there")
        started = time.monotonic()

        def run(pack: Sequence[str]) -> str:
            copy = copies.get()
            try:
                with copy.planted(self._probed):
                    hits = copy.folder / "hits"
                    hits.write_bytes(bytes(self._number))
                    ended = copy.pytest(pack, 3600, **{REACHED: str(self._folder), HITS: str(hits)})
                said = copy.output()
            finally:
                copies.put(copy)
            if ended not in (0, 1, 5):
                sys.exit(f"tests of {pack[0]} to {pack[-1]} did not run:\n{said}")
            return next((line for line in reversed(said.splitlines()) if " in " in line), "")

        for number, done in enumerate(as_completed([pool.submit(run, pack) for pack in packs]), 1):
            print(f"noted: {number} of {len(packs)} packs after {_minutes(started)}: {done.result()}", flush=True)
        return self

    def tests(self) -> Iterator[Reached]:
        """Return the tests, with the blocks that they reach."""
        return reached_by(self._folder, self._tests)

    def block(self, mutant: Mutant) -> int | None:
        """Return the number of the innermost block around a mutant."""
        first, blocks = self._blocks[mutant.file]
        around = [
            (block.end - block.start, -number)
            for number, block in enumerate(blocks, first)
            if block.start <= mutant.start and mutant.end <= block.end
        ]
        return -min(around)[1] if around else None


def _tests_by_mutant(drawn: Sequence[Mutant], reach: _Reach) -> dict[Mutant, list[Reached]]:
    """Return the tests that reach each mutant, those first that reach little else."""
    blocks = {mutant: reach.block(mutant) for mutant in drawn}
    tests: dict[Mutant, list[tuple[int, Reached]]] = {mutant: [] for mutant in drawn}
    for reached in reach.tests():
        share = reached.blocks.count(1)
        for mutant, block in blocks.items():
            if block is not None and reached.blocks[block]:
                tests[mutant].append((share, reached))
    return {mutant: [reached for _, reached in sorted(found)] for mutant, found in tests.items()}


def with_probes(source: str, blocks: Iterable[tuple[int, Block]]) -> str:
    """Return the source with calls of the probe, which change nothing else."""
    inserted = []
    for number, block in blocks:
        (start, before), (end, after) = block.probed(f"_probe_of_mutants({number})")
        # Of what begins at one place, the longest is the outermost; and what ends there comes before.
        inserted += [(start, 1, start - end, before), (end, 0, start - end, after)]
    for place, _, _, text in sorted(inserted, reverse=True):
        source = source[:place] + text + source[place:]
    return source.replace(_FUTURE, f"{_FUTURE}; {_PROBE}", 1)


def _tried(copy: Copy, mutant: Mutant, tests: Sequence[Reached], seconds: float) -> Outcome:
    """Let a mutant meet the tests that reach it, first a few that reach little else, until one fails."""
    source = (copy.root / mutant.file).read_text("utf-8")
    verdict, ends = UNREACHED, time.monotonic() + seconds
    with copy.planted({mutant.file: mutant.applied(source)}):
        for part in filter(None, (tests[:_FEW], tests[_FEW:])):
            verdict = _met(copy, part, ends - time.monotonic())
            if verdict != SURVIVED:
                break
    return Outcome(f"{mutant.file}:{mutant.line}", mutant.diff(source), verdict, f"{len(tests)} tests")


def _met(copy: Copy, tests: Sequence[Reached], seconds: float) -> str:
    """Let a mutant meet tests, those of the quickest files first, until one fails."""
    chosen = copy.folder / "chosen.json"
    chosen.write_text(json.dumps([reached.test for reached in tests]), "utf-8")
    files: Counter[str] = Counter()
    for reached in tests:
        files[reached.test.partition("::")[0]] += round(reached.seconds * 1000)
    ordered = sorted(files, key=lambda file: files[file])
    ended = copy.pytest(["-x", "--timeout=60", *ordered], seconds, **{CHOSEN: str(chosen)})
    return UNDECIDED if ended is None else SURVIVED if ended == 0 else KILLED


def _rust(options: argparse.Namespace) -> Iterator[Outcome]:
    with _copies(1) as (copy,):
        yield from _rust_in(copy, options)


def _rust_in(copy: Copy, options: argparse.Namespace) -> Iterator[Outcome]:
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
        with copy.planted({file: mutant.applied(source)}):
            verdict = _met_kernels(copy, seconds)
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


def _minutes(started: float) -> str:
    return f"{(time.monotonic() - started) / 60:.1f} min"


def _print(outcomes: Sequence[Outcome]) -> None:
    counts = Counter(outcome.verdict for outcome in outcomes)
    print(f"\n{len(outcomes)} mutants: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()))
    for outcome in outcomes:
        if outcome.verdict not in (KILLED, UNVIABLE):
            print(f"\n{outcome.place}: {outcome.verdict} ({outcome.tests})\n{outcome.diff}")


def main() -> int:
    """Draw mutants, try them, and print those that live."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--number", type=int, default=20, metavar="N", help="how many mutants of each language")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--only", choices=["python", "rust"], help="mutants of one language alone")
    parser.add_argument("--where", default="", metavar="TEXT", help="only files with this text in their path")
    parser.add_argument("--seconds", type=int, default=180, metavar="N", help="how long a Python mutant may take")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="how many tests of Python run side by side")
    parser.add_argument(
        "tests", nargs="*", default=["tests"], help="folders and files of tests that may find a Python mutant"
    )
    options = parser.parse_args()
    print(f"seed {options.seed}; repeat with --seed {options.seed}", flush=True)
    parts = {"python": _python, "rust": _rust}
    started = time.monotonic()
    outcomes: list[Outcome] = []
    for name, part in parts.items():
        if options.only in (None, name):
            for outcome in part(options):
                outcomes.append(outcome)
                said = f"{len(outcomes)} after {_minutes(started)}: {outcome.verdict}: {outcome.place}"
                print(f"{said} ({outcome.tests})", flush=True)
    _print(outcomes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
