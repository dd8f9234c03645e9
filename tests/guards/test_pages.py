"""Every block of the pages for users is run by a test, or is plainly nothing to paste."""

from __future__ import annotations

import ast
import re
import shlex

import pytest

from tests.support.pages import ROOT, Block, blocks, pages

pytestmark = pytest.mark.one_backend

_TESTS = ROOT / "tests"


def _runs() -> set[tuple[str, str | None]]:
    """Return what the tests run: pages, each with a heading or as a whole."""
    sections = set()
    for path in _TESTS.rglob("test_*.py"):
        text = path.read_text("utf-8")
        if "run_blocks(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "run_blocks":
                heading = [word.value for word in node.keywords if word.arg == "heading"]
                literals = [ast.literal_eval(one) for one in (node.args[0], *heading)]
                sections.add((literals[0], literals[1] if heading else None))
    return sections


def _blocks() -> list[Block]:
    return [block for page in pages() for block in blocks(page)]


def test_every_python_block_is_run() -> None:
    runs = _runs()
    python = [block for block in _blocks() if block.language == "python"]
    assert len(python) > 25
    assert not [str(one) for one in python if not {(one.page, None), (one.page, one.heading)} & runs]
    # Nothing is claimed to run that is not there: a heading that was renamed, for instance.
    there = {(one.page, heading) for one in python for heading in (None, one.heading)}
    assert runs <= there


def test_headings_are_unique() -> None:
    """Those of blocks, at least: what runs below one of them is what the guard takes as run."""
    for page in pages():
        lines = (ROOT / page).read_text("utf-8").splitlines()
        for heading in {block.heading for block in blocks(page)}:
            assert lines.count(heading) == 1, f"{page}: {heading}"


def test_other_blocks_are_of_known_kinds() -> None:
    """Examples of the command line and of configurations have tests of their own. Text is output, or a drawing."""
    for block in _blocks():
        if block.language == "python":
            continue
        if block.language == "":
            assert block.page == "docs/cli.md", f"{block} has no language"
            assert block.text.startswith("$ deltaberg "), f"{block} is no example of the command line"
        elif block.language == "yaml":
            assert block.page == "docs/catalogs.md", f"{block} is read by no test"
        elif block.language == "sh":
            _check_shell(block)
        else:
            assert block.language == "text", f"{block} is in an unknown language: {block.language}"
            with pytest.raises(SyntaxError):
                compile(block.text, str(block), "exec")


def _prose(page: str) -> str:
    """Return a page without its blocks."""
    return re.sub(r"^ *```.*?^ *```$", "", (ROOT / page).read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def _anchors(page: str) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", _prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere() -> None:
    lost, count = [], 0
    for page in pages():
        text = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", lambda code: "" if "](" in code[0] else code[0], _prose(page))
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            count += 1
            name, _, anchor = target.partition("#")
            place = ((ROOT / page).parent / name).resolve() if name else ROOT / page
            found = place.is_file() and (not anchor or anchor in _anchors(place.relative_to(ROOT).as_posix()))
            lost += [] if found or target.startswith("https://") else [f"{page}: {target}"]
    assert count > 100
    assert not lost


def _check_shell(block: Block) -> None:
    """Check that what is to be made or installed exists."""
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    extras = re.findall(
        r"^([a-z-]+) = ", project.partition("[project.optional-dependencies]\n")[2].partition("\n\n")[0], re.MULTILINE
    )
    for line in block.text.splitlines():
        program, *arguments = shlex.split(line, comments=True)
        if program == "make":
            assert set(arguments) <= set(targets), f"{block}: {line}"
        else:
            assert (program, arguments[0]) == ("pip", "install"), f"{block}: {line}"
            assert set(re.findall(r"\[(.*)\]", arguments[1])) <= set(extras), f"{block}: {line}"


def test_what_runs_in_make_test_all_alone_is_listed_with_its_reason() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    table = page.partition("\n| why a test is `full` |")[2].partition("\n\n")[0]
    listed = re.findall(r"`([\w/]+\.py)`", table)
    marked = {
        path.relative_to(_TESTS).as_posix()
        for path in _TESTS.rglob("*.py")
        if re.search(r"pytest\.mark\.full\b", path.read_text("utf-8"))
    }
    assert sorted(listed) == sorted(marked)
