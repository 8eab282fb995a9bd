"""Rules of the house that no linter knows: what may not stand in any file of the project."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAX_LINES = 400
#: Characters of a line of Markdown: of text, and of a table's row.
MAX_TEXT, MAX_ROW = 150, 250
#: Words of one sentence in the docs, and where it ends.
MAX_WORDS = 60
SENTENCE_END = re.compile(r"(?<=[.!?:])\s+(?=[A-Z`\"*\[(])")
#: Words of the papers that the protocol comes from: they say nothing to who reads the docs.
PAPERS = re.compile(r"F1 paper|the paper|[Ss]eed's|\bStash\b")
PRODUCT = ("airflow_provider_schemamig", "spark_jobs")
#: Copies of what is elsewhere, written by a program: nobody reads them from start to end.
COPIES = re.compile(r"objects_v\d+\.py")

#: Put together from parts, so that this file does not hold what it forbids.
FORBIDDEN = {
    "the host of a package registry": re.compile(
        "|".join(
            re.escape(".".join(parts))
            for parts in (("pypi", "org"), ("pythonhosted", "org"), ("repo1", "maven"), ("repo", "maven"), ("repos", "spark-packages"))
        )
    ),
    "an option that names a package index": re.compile("--(?:extra-)?index" + "-url[= ]+http|--find" + "-links[= ]|--trusted" + "-host"),
    "a path of one machine": re.compile("/" + "(?:root|work|tmp/build)/" + "|/home/" + "(?!airflow/|spark/)[a-z]"),
}


#: Documents of which only those who began this have copies.
CITATIONS = re.compile(
    r"DESIGN (section|promise)|\b[Ss]eeds? 00\d|\([Rr]esearch|\b[Rr]esearch(/|:| (fact|found))|\(issue \d"
    r"|\bthe seed's? (form|says|has)|Differences to the seed|[a-z]\.md section|\(Definition \d|\bF1 state\b"
)
#: A dotted name in a docstring or a comment, in two pairs of backticks.
DOTTED = re.compile(r"``([a-z_]+(?:\.[a-z_]+)+)(?:\(\))?``")
#: Words that begin a sentence about something, not one that says what is done.
NO_VERBS = re.compile(
    "(?:A|All|An|Another|As|At|Because|Both|By|Each|Everything|For|How|If|In|It|Its|Nobody|Nothing|Of|On|One|"
    "Only|Other|Over|That|The|Their|These|They|This|Those|Under|What|Whatever|When|Where|Whether|Which|Who|Whoever|Why|With|Without)"
)
VERBS_IN_S = frozenset({"Pass", "Process"})
#: First words of tests whose names may leave out what they are about.
NO_SUBJECT = {"it", "nothing", "only", "there", "what", "who"}
#: Pictures that a name does not say: what they stand for has a word in docs/glossary.md.
OTHER_WORDS = frozenset(
    {"ahead", "brought", "carried", "carry", "course", "debt", "draws", "forth", "hindrance", "home", "landed", "lift", "looking", "moves"}
    | {"said", "sight", "standing", "track", "turn", "turns", "twin", "undo", "undone", "walked", "ways", "whole", "work", "works"}
)
#: Where one of them stays. Stored or sent: a ledger's, plan's or trigger's field, an error's in JSON, a class that Airflow stores, an
#: action in a table's log.
HELD_NAMES = frozenset({"LookingTrigger", "StreamWorkTrigger", "ahead", "TurnTrigger", "brought", "is_whole"})
#: A verb's module is its home (``core.commands``); what somebody is at, an error's field; a folder for what a job writes.
OTHER_NAMES = frozenset({"home", "work", "work_folder"})
#: Modules of a folder, without ``__init__.py``, and those that have more of them.
MAX_MODULES = 15
LARGE = {
    "airflow_provider_schemamig/cli/commands": "one file a command, named after it",
    "airflow_provider_schemamig/operators": "people's DAGs import each module by its path (contract.txt)",
}
#: Folders that had another name.
GONE = {"deltalog", "elements", "handles", "shards"}


def tracked() -> list[Path]:
    """Files that are in git or would be added: what .gitignore leaves."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return [ROOT / name for name in listed if name and (ROOT / name).is_file()]


def text_of(path: Path) -> str:
    """Empty for a binary file (test data)."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(text_of(path))


@functools.cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree_of(path)))


def violations(text: str) -> list[str]:
    return [what for what, pattern in FORBIDDEN.items() if pattern.search(text)]


def test_no_file_names_a_registry_or_a_machine() -> None:
    files = tracked()
    assert len(files) > 50
    found = {str(path.relative_to(ROOT)): violations(text_of(path)) for path in files}
    assert {path: what for path, what in found.items() if what} == {}


@pytest.mark.parametrize(
    "text, what",
    [
        ("https://" + "pypi" + ".org/simple", "the host of a package registry"),
        ("--index" + "-url https://mirror.example", "an option that names a package index"),
        ("cd /" + "work/main", "a path of one machine"),
        ("cat /" + "root/.bashrc", "a path of one machine"),
    ],
)
def test_the_rule_can_fail(text: str, what: str) -> None:
    assert violations(text) == [what]


def test_no_python_file_is_longer_than_a_reader_likes() -> None:
    long = {
        str(path.relative_to(ROOT)): text_of(path).count("\n")
        for path in tracked()
        if path.suffix == ".py" and not COPIES.fullmatch(path.name)
    }
    assert {path: lines for path, lines in long.items() if lines > MAX_LINES} == {}


def test_a_folder_has_no_more_modules_than_a_reader_takes_in() -> None:
    modules = Counter(str(path.parent.relative_to(ROOT)) for path in tracked() if path.suffix == ".py" and path.name != "__init__.py")
    assert {folder for folder, count in modules.items() if count > MAX_MODULES} == LARGE.keys()


def test_no_line_of_the_docs_is_longer_than_the_eye_follows() -> None:
    """A table's row is one line in Markdown, so it may be longer than text; a word alone is as long as it is."""
    long: dict[str, list[int]] = {}
    for path in tracked():
        if path.suffix == ".md":
            for number, line in enumerate(text_of(path).splitlines(), start=1):
                if len(line) >= (MAX_ROW if line.lstrip().startswith("|") else MAX_TEXT) and " " in line.strip():
                    long.setdefault(str(path.relative_to(ROOT)), []).append(number)
    assert long == {}


def test_no_sentence_of_the_docs_is_longer_than_the_breath() -> None:
    """Sentences of text and of lists; a table's row is none. A colon before a capital letter ends one, too."""
    long = []
    for path in tracked():
        if path.suffix == ".md":
            text = re.sub(r"```.*?```|<!--.*?-->", "\n\n", text_of(path), flags=re.DOTALL)
            for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*|#]|\d+\.) )", text):
                if not block.lstrip().startswith(("|", "#")):
                    words = (len(re.sub(r"\]\([^)]*\)", "]", found).split()) for found in SENTENCE_END.split(block))
                    long += [f"{path.relative_to(ROOT)}: {count} words: {block.strip()[:60]}" for count in words if count > MAX_WORDS]
    assert long == []


def test_links_of_the_docs_lead_somewhere() -> None:
    pages = {path: text_of(path) for path in tracked() if path.suffix == ".md"}
    dead = []
    for path, text in pages.items():
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            name, _, anchor = link.partition("#")
            target = (path.parent / name).resolve() if name else path
            if not link.startswith("http") and not (target.exists() and (not anchor or anchor in _anchors(pages[target]))):
                dead.append(f"{path.relative_to(ROOT)}: {link}")
    assert dead == []


def test_files_that_the_docs_name_are_there() -> None:
    """A path is judged by its end: docs leave out the folders that their reader knows."""
    known = {f"/{path.relative_to(ROOT)}" for path in tracked()}
    gone = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in tracked()
        if path.suffix == ".md"
        for name in re.findall(r"`([a-z_][a-z_/]*\.(?:py|txt|tsv|toml|sh))`", text_of(path))
        if not any(found.endswith(f"/{name}") for found in known)
    }
    assert gone == set()


def _anchors(text: str) -> set[str]:
    headings = (re.sub(r"[^\w\- ]", "", found.lower()).replace(" ", "-") for found in re.findall(r"^#+ (.*)$", text, re.MULTILINE))
    return {*re.findall(r'<a id="([^"]+)"', text), *headings}


def test_docs_speak_of_no_paper_that_they_do_not_name() -> None:
    cited = {str(path.relative_to(ROOT)) for path in tracked() if path.suffix == ".md" and PAPERS.search(text_of(path))}
    assert cited == set()


def test_shell_scripts_are_executable() -> None:
    scripts = [path for path in tracked() if text_of(path).startswith("#!")]
    assert ROOT / ".ci/run" in scripts
    assert [path.name for path in scripts if not path.stat().st_mode & 0o100] == []


def test_hygiene_nothing_is_cited_that_a_reader_of_the_repository_cannot_open() -> None:
    own = Path(__file__).name
    cited = {path.name: found for path in tracked() if path.name != own and (found := CITATIONS.search(text_of(path)))}
    assert cited == {}


def test_a_module_that_a_docstring_names_is_there() -> None:
    """Judged are names that begin with a folder of the package, or with one that it had."""
    files = [path.relative_to(ROOT) for path in tracked() if path.suffix == ".py"]
    modules = {".".join(path.with_suffix("").parts[start:]) for path in files for start in range(len(path.parts))}
    modules |= {".".join(path.parts[start:-1]) for path in files for start in range(len(path.parts) - 1)}
    folders = {folder for path in files if path.parts[0] == PRODUCT[0] for folder in path.parts[:-1]} | GONE
    assert [
        f"{path}: {name}"
        for path in files
        for name in DOTTED.findall(text_of(ROOT / path))
        if name.split(".")[0] in folders and name not in modules and name.rpartition(".")[0] not in modules
    ] == []


def test_a_test_of_two_words_or_without_a_subject_names_what_its_file_or_folder_is_about() -> None:
    """In a log there is no file beside the name of what failed."""
    nameless = []
    for path in tracked():
        if path.suffix == ".py" and path.name.startswith("test_"):
            folders = path.relative_to(ROOT).parts[1:-1]
            about = {word.removesuffix("s") for part in (path.stem, *folders) for word in part.split("_")} - {"test"}
            for name in re.findall(r"^(?:    )?def test_(\w+)", text_of(path), re.MULTILINE):
                words = [word.removesuffix("s") for word in name.split("_")]
                if (len(words) <= 2 or name.split("_")[0] in NO_SUBJECT) and about.isdisjoint(words):
                    nameless.append(f"{path.relative_to(ROOT)}: {name}")
    assert nameless == []


def test_docstrings_of_functions_begin_with_a_verb() -> None:
    """As in "Return the head": a word in the imperative."""
    other = []
    for path in tracked():
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in PRODUCT and not COPIES.search(path.name):
            for node in nodes_of(path):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name != "__init__":
                    first = (ast.get_docstring(node) or "Return").split()[0].strip(".,:;")
                    if (
                        NO_VERBS.fullmatch(first)
                        or not re.fullmatch(r"[A-Z][a-z]+", first)
                        or (first.endswith("s") and first not in VERBS_IN_S)
                    ):
                        other.append(f"{path.relative_to(ROOT)}:{node.lineno}: {first}")
    assert other == []


def test_a_docstring_says_nothing_twice() -> None:
    """Judged are sentences, and what follows a colon, of six words and more."""
    twice = []
    for path in tracked():
        if path.suffix == ".py":
            for node in nodes_of(path):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
                    sentences = [" ".join(part.split()) for part in re.split(r"(?<=[.:])\s+", ast.get_docstring(node) or "")]
                    twice += [f"{path}: {part}" for part in set(sentences) if len(part.split()) > 5 and sentences.count(part) > 1]
    assert twice == []


RELATIVE = re.compile(r"\b(that|which|who|whom|whose|what|where|whoever|whatever)\b", re.IGNORECASE)


def test_the_first_sentence_of_a_docstring_has_one_relative_clause_at_most() -> None:
    """Counted by their words, those in code left out."""
    twice = []
    for path in tracked():
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in PRODUCT and not COPIES.search(path.name):
            for node in nodes_of(path):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
                    first = re.split(r"[.;:](?:\s|$)|\n\n", ast.get_docstring(node) or "", maxsplit=1)[0]
                    if len(RELATIVE.findall(re.sub(r"`[^`]*`", "", first))) > 1:
                        twice.append(f"{path.relative_to(ROOT)}: {first}")
    assert twice == []


def test_generators_yield_and_say_so() -> None:
    returning = []
    for path in tracked():
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in PRODUCT:
            for node in nodes_of(path):
                if isinstance(node, ast.FunctionDef) and (ast.get_docstring(node) or "").startswith("Return ") and _yields(node):
                    returning.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert returning == []


def _yields(function: ast.FunctionDef) -> bool:
    """In itself: not in a function inside, and not as a context manager, which yields once."""
    left: list[ast.AST] = [] if any("contextmanager" in ast.unparse(each) for each in function.decorator_list) else [*function.body]
    while left:
        node = left.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            left += ast.iter_child_nodes(node)
    return False


def test_no_name_is_made_of_a_picture() -> None:
    """Modules, classes, functions, parameters, variables and fields of the product."""
    found = set()
    for path in tracked():
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in PRODUCT and not COPIES.search(path.name):
            for name in {path.stem, *_names(path)}:
                words = set(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()))
                if words & OTHER_WORDS and name.lstrip("_") not in HELD_NAMES | OTHER_NAMES:
                    found.add(f"{path.relative_to(ROOT)}: {name}")
    assert found == set()


def _names(path: Path) -> Iterator[str]:
    for node in nodes_of(path):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def test_every_folder_has_an_import_contract() -> None:
    """Layers, or files beside each other that take nothing of each other."""
    contracts = tomllib.loads(text_of(ROOT / "pyproject.toml"))["tool"]["importlinter"]["contracts"]
    held = {container for contract in contracts for container in contract.get("containers", ())}
    held |= {pattern.removesuffix(".*") for contract in contracts for pattern in contract.get("modules", ()) if pattern.endswith(".*")}
    folders = {path.parent for path in tracked() if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in PRODUCT}
    several = {folder for folder in folders if len([*folder.glob("[a-z]*.py"), *folder.glob("[a-z]*/__init__.py")]) >= 2}
    assert {".".join(folder.relative_to(ROOT).parts) for folder in several} - held == set()


def test_no_two_public_classes_have_one_name() -> None:
    """Frozen rows of older formats are copies. The hook's ``Settings`` is a name that others import."""
    homes: dict[str, list[str]] = {}
    for path in tracked():
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in PRODUCT and not COPIES.search(path.name):
            for node in tree_of(path).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    homes.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}
