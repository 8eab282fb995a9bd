"""Every rule by a release in which it finds something, word for word, and a near one in which it does not; and how findings are allowed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from airflow_provider_schemamig.core.release.check import check
from airflow_provider_schemamig.core.release.folder.modules import read_module
from airflow_provider_schemamig.core.release.folder.read import Release, ReleaseSnapshot
from airflow_provider_schemamig.core.release.lint.model import LintFinding, Rule, Severity
from airflow_provider_schemamig.core.release.lint.run import RULES, lint, review
from airflow_provider_schemamig.core.release.lint.subject import Subject
from airflow_provider_schemamig.core.release.merge.validate import validate_chain
from airflow_provider_schemamig.exceptions import Refusal
from tests.support.product import Product, module
from tests.unit.release.lint.cases import CASES, Head, T, first, head
from tests.unit.release.support import v

BY_CODE = {rule.code: rule for rule in RULES}
DOCS = Path(__file__).parents[4] / "docs" / "lint"


def subject(found: Head) -> Subject:
    """The releases 1.0.0, 1.1.0, ... in memory; modules between have no steps."""
    versions = [v(f"1.{number}.0") for number in range(len(found.schemas))]
    snapshots = {version: ReleaseSnapshot(version, "schema.sql", schema) for version, schema in zip(versions, found.schemas, strict=True)}
    text = module(f"\n    {found.steps},\n" if found.steps else "", found.doc)
    refusals: list[Refusal] = []
    read = read_module(text, f"migrations/{versions[-1].module_name}.py", refusals)
    assert refusals == [] and read is not None
    between = read_module(module(found.between, "x\n\nWhy: y"), "migrations/x.py", refusals)
    assert between is not None
    modules = {**dict.fromkeys(versions[1:-1], between), **({versions[-1]: read} if len(versions) > 1 else {})}
    return Subject(Release(Path("lake"), "lake", versions[-1], versions[0], snapshots, modules), found.schemas[-1], text)


def shown(rule: Rule, found: Head) -> list[str]:
    hits = rule.check(subject(found))
    return [f"{hit.file}:{hit.line}: {hit.collection + ': ' if hit.collection else ''}{hit.text}" for hit in hits]


def found_in(case: Head) -> list[str]:
    return [f"{finding.rule.code} {finding.where}" for finding in lint(subject(case))[0]]


@pytest.mark.parametrize("code", [rule.code for rule in RULES])
def test_lint_rule(code: str) -> None:
    positive, expected, negative = CASES[code]
    assert shown(BY_CODE[code], positive) == [expected]
    assert shown(BY_CODE[code], negative) == []


@pytest.mark.parametrize("code", [code for code in CASES if code != "SM110"])
def test_the_cases_are_releases(code: str) -> None:
    """What a rule looks at has passed its check."""
    for case in (CASES[code][0], CASES[code][2]):
        if len(case.schemas) == 2:
            assert validate_chain(subject(case).release) == ()


def test_lint_there_are_no_other_cases_and_codes_are_sorted() -> None:
    codes = [rule.code for rule in RULES]
    assert sorted(CASES) == codes == sorted(set(codes))
    assert len({rule.name for rule in RULES}) == len(RULES) >= 20
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.name) for rule in RULES)


# --- docs ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_every_rule_has_its_page(rule: Rule) -> None:
    lines = (DOCS / f"{rule.code}.md").read_text().splitlines()
    summary = rule.summary[:1].upper() + rule.summary[1:]
    assert lines[0] == f"# {rule.code} {rule.name}"
    assert lines[2] == f"{rule.severity.value} · {summary}."
    sections = [line for line in lines if line.startswith("## ")]
    assert sections == ["## Why", "## Instead", "## Allow it"]
    allowed = "\n".join(lines).partition("## Allow it")[2]
    if rule.code in ("SM002", "SM003", "SM004"):
        assert allowed.strip() == "It cannot be allowed."
    else:
        comment = "--" if CASES[rule.code][1].startswith("schema.sql") else "#"
        assert f"{comment} schemamig: allow {rule.code} because ..." in allowed
    assert rule.page == f"docs/lint/{rule.code}.md"


def test_the_index_lists_every_page() -> None:
    rows = [line for line in (DOCS / "index.md").read_text().splitlines() if line.startswith("| [")]
    assert rows == [f"| [{r.code}]({r.code}.md) | {r.name} | {r.severity.value} | {r.summary} |" for r in RULES]
    assert {path.stem for path in DOCS.iterdir()} == {"index", *(rule.code for rule in RULES)}


# --- allowing -----------------------------------------------------------------------------------------------------------------------

DROP = T("a INT, b INT, c INT")
TWO = "CREATE TABLE t (a INT, b INT);CREATE TABLE u (a INT, b INT);"
SQL = "-- schemamig: allow SM306 because it was there first\nCREATE TABLE t (`order` INT);\n\nCREATE TABLE u (\n  `table` INT\n);\n"

ALLOWED: dict[str, tuple[Head, list[str]]] = {
    "above the step": (head(DROP, T("a INT, b INT"), '# schemamig: allow SM101, sm202 because so\n    evolution("t", drop=["c"])'), []),
    "above, with more comments": (
        head(DROP, T("a INT, b INT"), '# schemamig: allow SM101, SM202 because it\n    # is so\n    evolution("t", drop=["c"])'), []),
    "in the step": (
        head(DROP, T("a INT, b INT"), 'evolution(\n"t", # schemamig: allow SM101, SM202 because so\n drop=["c"])'), []),
    "of the other step": (
        head(TWO, "CREATE TABLE t (a INT);CREATE TABLE u (a INT);",
             '# schemamig: allow SM101, SM202 because so\n    evolution("t", drop=["b"]),\n    evolution("u", drop=["b"])'),
        ["SM101 migrations/v1_1_0.py:11", "SM202 migrations/v1_1_0.py:11"]),
    "without a reason": (
        head(DROP, T("a INT, b INT"), '# schemamig: allow SM101, SM202\n    evolution("t", drop=["c"])'),
        ["SM002 migrations/v1_1_0.py:9", "SM101 migrations/v1_1_0.py:10", "SM202 migrations/v1_1_0.py:10"]),
    "with an empty reason": (
        head(DROP, T("a INT, b INT"), '# schemamig: allow SM101, SM202 because  \n    evolution("t", drop=["c"])'),
        ["SM002 migrations/v1_1_0.py:9", "SM101 migrations/v1_1_0.py:10", "SM202 migrations/v1_1_0.py:10"]),
    "unreadable": (
        head(DROP, T("a INT, b INT, c INT, d INT"), '# schemamig: ignore everything\n    evolution("t")'),
        ["SM003 migrations/v1_1_0.py:9"]),
    "in schema.sql, the one statement": (first(SQL), ["SM306 schema.sql:5"]),
    "in schema.sql, behind": (first("CREATE TABLE t (`order` INT); -- schemamig: allow SM306 because so\nCREATE TABLE u (a INT)"), []),
    "in schema.sql, inside": (first("CREATE TABLE t (\n  `order` INT -- schemamig: allow SM306 because so\n)"), []),
    "in schema.sql, inside a string": (
        first("CREATE TABLE t (`order` INT COMMENT '-- schemamig: allow SM306 because so')"), ["SM306 schema.sql:1"]),
    "in schema.sql, behind all": (
        first("CREATE TABLE t (`order` INT);\n\n-- schemamig: allow SM306 because so\n"), ["SM004 schema.sql:3", "SM306 schema.sql:1"]),
}  # fmt: skip


@pytest.mark.parametrize("name", ALLOWED)
def test_lint_allowed(name: str) -> None:
    case, expected = ALLOWED[name]
    quiet = {"SM207", "SM314", "SM315"}
    assert sorted(line for line in found_in(case) if line[:5] not in quiet) == expected


DROPS = head(TWO, "CREATE TABLE t (a INT);CREATE TABLE u (a INT);", 'evolution("t", drop=["b"]),\n    evolution("u", drop=["b"])')


@pytest.mark.parametrize("where", ["above the imports", "at the end"])
def test_of_the_whole_module(where: str) -> None:
    """Outside of the steps a comment is about all of them."""
    made = subject(DROPS)
    comment = "# schemamig: allow SM101, SM202 because so\n"
    text = made.module.replace("from ", f"{comment}from ") if where == "above the imports" else made.module + comment
    findings, reasons = lint(Subject(made.release, made.schema, text))
    assert findings == ()
    assert [(finding.rule.code, finding.reason) for finding in reasons] == [("SM101", "so"), ("SM202", "so")] * 2


def test_a_comment_is_about_its_own_file() -> None:
    case = head(T("`order` INT"), T("`order` INT"), "")
    made = subject(case)
    findings, _ = lint(Subject(made.release, made.schema, f"{made.module}# schemamig: allow SM306 because so\n"))
    assert [(finding.rule.code, finding.hit.file) for finding in findings] == [("SM004", "migrations/v1_1_0.py"), ("SM306", "schema.sql")]


def test_the_rules_about_comments_cannot_be_allowed() -> None:
    made = subject(head(DROP, DROP.replace("c INT", "c INT, d INT")))
    text = f"{made.module}# schemamig: allow SM101, SM004 because so\n"
    assert [finding.rule.code for finding in lint(Subject(made.release, made.schema, text))[0]] == ["SM003", "SM004"]


# --- a folder -----------------------------------------------------------------------------------------------------------------------


def product(tmp_path: Path, old: str, new: str, steps: str, doc: str = "What.\n\nWhy: so.") -> Path:
    made = Product(tmp_path)
    made.release("1.0.0", old)
    return made.release("1.1.0", new, steps, doc)


def test_errors_are_refusals_of_check_with_a_way_out(tmp_path: Path) -> None:
    folder = product(tmp_path, T("a INT"), T("a INT, b INT NOT NULL"), 'evolution("t")', "What.")
    reviewed = review(folder)
    assert reviewed.refusals == ()
    assert [error.message for error in reviewed.errors] == [
        "migrations/v1_1_0.py:1: SM001 no-why: the docstring has no paragraph that begins with `Why:`.",
        "migrations/v1_1_0.py:6: SM201 not-null-without-default: b is new and NOT NULL, and older rows have no value for it.",
    ]
    assert check(folder) == ()  # an upgrade does not ask


def test_lint_only_the_version_that_is_being_written_is_looked_at(tmp_path: Path) -> None:
    made = Product(tmp_path)
    made.release("1.0.0", DROP)
    made.release("1.1.0", T("a INT"), 'evolution("t", drop=["b", "c"])', "No reason.")
    folder = made.release("1.2.0", T("a INT"))
    assert review(folder).findings == ()


def test_a_folder_that_does_not_pass_is_not_looked_at(tmp_path: Path) -> None:
    folder = product(tmp_path, DROP, T("a INT"), 'evolution("t", drop=["b", "c"])')
    (folder / "schema.sql").write_text("CREATE TABLE t (a INT);\n-- edited\n")
    reviewed = review(folder)
    assert [refusal.code for refusal in reviewed.refusals] == ["schema_not_frozen"]
    assert reviewed.findings == ()


def test_lint_severities() -> None:
    """Errors are what is never right without a reason: silent loss, what fails later, and comments that do not work."""
    errors = [rule.code for rule in RULES if rule.severity is Severity.ERROR]
    assert errors == ["SM001", "SM002", "SM003", "SM105", "SM107", "SM201", "SM301", "SM302", "SM303", "SM307", "SM309"]
    assert [rule.code for rule in RULES if rule.severity is Severity.NOTICE] == ["SM207", "SM314", "SM315"]


def test_the_place_of_a_finding(tmp_path: Path) -> None:
    finding = LintFinding(BY_CODE["SM101"], next(iter(BY_CODE["SM101"].check(subject(CASES["SM101"][0])))))
    assert finding.where == "migrations/v1_1_0.py:9"
