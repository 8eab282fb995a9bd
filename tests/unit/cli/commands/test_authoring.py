"""`new`, `rebase` and `lint` from the shell: documents, questions on a terminal, annotations."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
import yaml

from airflow_provider_schemamig.core.release.lint.run import RULES
from tests.support.bytes import tree
from tests.support.product import Product
from tests.unit.cli.samples import SCHEMA_1, SCHEMA_2, STEPS_2, Run, conforms, refused

ROOT = Path(__file__).parents[4]


@pytest.fixture
def begun(old_release: Path) -> Path:
    """Release 1.0.0 with the schema of 1.1.0 in schema.sql."""
    (old_release / "schema.sql").write_text(SCHEMA_2)
    return old_release


def test_cli_authoring_new(run: Run, begun: Path) -> None:
    made = run("new", "Airports by code", "--release", begun, "--part", "major", "--json")
    assert made.exit_code == 0, made.stdout
    conforms(made.document, "new")
    assert made.document["version"] == "2.0.0"
    assert made.document["files"] == ["release.toml", "migrations/v2_0_0.py"]
    assert made.document["steps"] == [{"kind": "evolution", "collection": "flights"}]
    assert len(made.document["questions"]) == 2  # hour and origin are dropped, or have other names
    error = refused(run, "check", "--release", begun, code="unfinished_migration")
    assert error["message"].startswith("migrations/v2_0_0.py:3: a question of `schemamig new` is not decided yet")


def test_new_for_people(run: Run, begun: Path) -> None:
    shown = run("new", "Airports by code", "--release", begun, "--version", "1.5.0")
    assert shown.exit_code == 0
    first, *files, advice = shown.stdout.split("\n", 3)
    assert (first, files) == ("1.5.0 is begun", ["  release.toml", "  migrations/v1_5_0.py"])
    commands = f"`schemamig snapshot --release {begun}` and `schemamig check --release {begun}`"
    assert " ".join(advice.split()) == f"next: decide the 3 question(s) in migrations/v1_5_0.py (one is why), then {commands}."


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal, with nothing typed."""

    class Terminal:
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("airflow_provider_schemamig.cli.commands.new.sys", type("Sys", (), {"stdin": Terminal()}))


@pytest.fixture
def terminal(stdin: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A terminal on which every question about ``airport`` is answered yes; what was asked."""
    asked: list[str] = []

    def confirm(text: str, **_: object) -> bool:
        asked.append(text)
        if "boom" in text:
            raise typer.Abort
        return "airport" in text

    monkeypatch.setattr(typer, "confirm", confirm)
    yield asked
    assert sys.stdin is not None


def test_the_end_of_input_at_a_question_ends_the_command(run: Run, begun: Path, stdin: None) -> None:
    stopped = run("new", "Airports by code", "--release", begun)
    assert (stopped.exit_code, "Stopped by Ctrl-D" in stopped.stderr) == (130, True)
    assert not (begun / "migrations/v1_1_0.py").exists()


def test_renames_are_asked_on_a_terminal(run: Run, begun: Path, terminal: list[str]) -> None:
    assert run("new", "Airports by code", "--release", begun).exit_code == 0
    assert terminal == ["is airport the new name of flights.origin?"]
    text = (begun / "migrations/v1_1_0.py").read_text()
    assert 'evolution("flights", rename={"origin": "airport"}, drop=["hour"])' in text
    assert text.count("# TODO schemamig:") == 1


def test_programs_are_not_asked(run: Run, begun: Path, terminal: list[str]) -> None:
    assert run("new", "Airports by code", "--release", begun, "--json").exit_code == 0
    assert terminal == []


def test_a_question_that_is_interrupted_writes_nothing(run: Run, old_release: Path, terminal: list[str]) -> None:
    (old_release / "schema.sql").write_text(SCHEMA_2.replace("airport STRING", "boom STRING"))
    before = tree(old_release)
    assert run("new", "Airports by code", "--release", old_release).exit_code == 130
    assert len(terminal) == 1
    assert tree(old_release) == before


@pytest.mark.parametrize(
    "arguments, code",
    [(["new", "", "--release", "{}"], "invalid_title"), (["new", "t", "--release", "{}", "--version", "1"], "invalid_name")],
)
def test_authoring_new_refused(run: Run, begun: Path, arguments: list[str], code: str) -> None:
    before = tree(begun)
    refused(run, *(argument.format(begun) for argument in arguments), code=code)
    assert tree(begun) == before


@pytest.mark.parametrize("arguments", [["new", "t", "--release", "{}", "--part", "huge"], ["lint", "--release", "{}", "--format", "xml"]])
def test_cli_authoring_usage(run: Run, begun: Path, arguments: list[str]) -> None:
    assert run(*(argument.format(begun) for argument in arguments)).exit_code == 2


def test_cli_authoring_rebase(run: Run, new_release: Path) -> None:
    refused(run, "rebase", "--release", new_release, code="nothing_to_rebase")
    done = run("rebase", "--release", new_release, "--onto", "1.1.0", "--json")
    assert done.exit_code == 0, done.stdout
    conforms(done.document, "rebase")
    assert done.document == {
        "from": "1.1.0",
        "version": "1.2.0",
        "files": ["migrations/v1_2_0.py", "snapshots.lock", "release.toml"],
        "deleted": ["migrations/v1_1_0.py", "snapshots/1.1.0.sql"],
    }
    assert run("snapshot", "--release", new_release).exit_code == 0
    assert run("check", "--release", new_release).exit_code == 0
    shown = run("rebase", "--release", new_release, "--onto", "1.4.0")
    assert shown.stdout.startswith("1.2.0 is 1.5.0 now\n  migrations/v1_5_0.py\n  snapshots.lock\n  release.toml\n")


# --- lint ---------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    """A release with an error, warnings and notices, and with one finding that is allowed."""
    product = Product(tmp_path / "wrong", "flights_lake")
    product.release("1.0.0", SCHEMA_1)
    steps = STEPS_2 + "  # schemamig: allow SM101 because hour repeats dep_time\n"
    return product.release("1.1.0", SCHEMA_2, steps, "What: a, b 100%.")


def test_cli_authoring_lint(run: Run, wrong: Path) -> None:
    before = tree(wrong)
    linted = run("lint", "--release", wrong, "--json")
    assert linted.exit_code == 1
    document = linted.document
    conforms({name: document[name] for name in ("version", "findings", "allowed")}, "lint")
    conforms({name: document[name] for name in ("error", "refusals")}, "failure")
    assert [finding["rule"] for finding in document["findings"]] == ["SM001", "SM202", "SM203", "SM314", "SM315"]
    assert [(finding["rule"], finding["reason"]) for finding in document["allowed"]] == [("SM101", "hour repeats dep_time")]
    assert [refusal["code"] for refusal in document["refusals"]] == ["lint"]
    assert run("lint", "--release", wrong, "--format", "json").document == document
    assert tree(wrong) == before


def test_lint_for_people(run: Run, wrong: Path) -> None:
    shown = run("lint", "--release", wrong)
    assert shown.exit_code == 1
    assert shown.stdout == (
        "SM001 no-why (error)\n  migrations/v1_1_0.py:1\n    the docstring has no paragraph that begins with `Why:`\n"
        "SM202 column-mapping-needed (warning)\n  migrations/v1_1_0.py:6  flights\n"
        "    rename origin to airport: where it is new, readers and writers below protocol (3,7) of Delta lose access, and so do\n"
        "    streams that read it\n"
        "SM203 type-widening-needed (warning)\n  migrations/v1_1_0.py:6  flights\n"
        "    widen distance from INT to BIGINT: where it is new, readers and writers without the feature typeWidening lose access\n"
        "SM314 no-primary-key (notice)\n  schema.sql:3  airlines\n"
        "    the new collection has no PRIMARY KEY: rows are told apart by all of their values\n"
        "SM315 no-comment (notice)\n  schema.sql:3  airlines\n    no COMMENT on the collection, carrier, name\n"
        "flights_lake 1.1.0: 5 finding(s), 1 allowed.\n"
    )


def test_cli_authoring_annotations(run: Run, wrong: Path) -> None:
    shown = run("lint", "--release", wrong, "--format", "github")
    assert shown.exit_code == 1
    lines = shown.stdout.splitlines()
    assert lines[0] == (
        f"::error file={wrong}/migrations/v1_1_0.py,line=1,title=SM001 no-why::the docstring has no paragraph that begins with `Why:`"
    )
    assert [line.split(" ")[0] for line in lines] == ["::error", "::warning", "::warning", "::notice", "::notice"]


def test_annotations_of_what_check_refuses(run: Run, wrong: Path) -> None:
    (wrong / "schema.sql").write_text("CREATE TABLE a (x STRNG);\n")
    shown = run("lint", "--release", wrong, "--format", "github")
    assert shown.exit_code == 1
    first = shown.stdout.splitlines()[0]
    assert first.startswith(f"::error file={wrong}/snapshots/1.1.0.sql,title=schemamig schema_not_frozen::schema.sql and ")
    refused(run, "lint", "--release", wrong, code="unknown_type", collection="a")


def test_a_percent_sign_and_a_comma_are_escaped(run: Run, tmp_path: Path) -> None:
    product = Product(tmp_path / "a,b%", "lake")
    product.release("1.0.0", "CREATE TABLE `order` (a INT);")
    shown = run("lint", "--release", tmp_path / "a,b%/1.0.0", "--format", "github")
    assert shown.exit_code == 0
    assert "/a%2Cb%25/1.0.0/schema.sql,line=1,title=SM306 reserved-word::order: order needs" in shown.stdout


def test_authoring_nothing_found(run: Run, tmp_path: Path) -> None:
    folder = Product(tmp_path, "lake").release("1.0.0", "CREATE TABLE a (a INT);")
    assert run("lint", "--release", folder).stdout == "lake 1.0.0: 0 finding(s).\n"
    assert run("lint", "--release", folder, "--format", "github").stdout == "nothing found\n"


def test_check_shows_warnings_and_refuses_errors(run: Run, wrong: Path, new_release: Path) -> None:
    error = refused(run, "check", "--release", wrong, code="lint")
    assert error["next"].startswith("Do what docs/lint/SM001.md says instead")
    checked = run("check", "--release", new_release, "--json")
    conforms(checked.document, "check")
    assert [warning["rule"] for warning in checked.document["warnings"]] == ["SM101", "SM202", "SM203"]
    shown = run("check", "--release", new_release).stdout
    assert "SM101 column-dropped (warning)" in shown
    assert shown.splitlines()[-1] == "flights_lake 1.1.0: 3 collection(s), 2 version(s) from 1.0.0 on. 3 warning(s)."


# --- files that use it --------------------------------------------------------------------------------------------------------------


def test_the_pre_commit_hooks_name_commands_that_exist() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert [(hook["id"], hook["entry"]) for hook in hooks] == [("schemamig-check", "schemamig check"), ("schemamig-lint", "schemamig lint")]
    for hook in hooks:
        assert hook["pass_filenames"] is False


def test_the_example_job_uses_what_exists() -> None:
    text = (ROOT / "docs/ci.md").read_text()
    job = yaml.safe_load(text.partition("`.github/workflows/release.yml`:\n\n```yaml\n")[2].partition("```")[0])
    runs = [step["run"] for step in job["jobs"]["check"]["steps"] if "run" in step]
    wheel = runs[0].removeprefix("pip install wheels/")
    assert f"dist/{wheel}[spark]" in (ROOT / "docs/installation.md").read_text(), "no package index has it: the job takes the wheel"
    assert runs[1:] == [
        "schemamig lint --release flights_lake --format github",
        "schemamig check --release flights_lake",
        "schemamig test --release flights_lake --tags 'v*' --spark none",
    ]
    assert len(RULES) >= 20


def test_a_file_that_cannot_be_written_is_a_refusal(run: Run, unchanged: Path, tmp_path: Path) -> None:
    refused(run, "report", "--env", unchanged, "--html", tmp_path / "nowhere" / "x.html", code="unwritable_file")
    (tmp_path / "file").write_text("")
    refused(run, "init", tmp_path / "file" / "x", code="unwritable_file")


def test_fixtures_and_test_of_a_release_as_init_made_it(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "flights_lake"
    for command in (("init", folder), ("fixtures", "--release", folder), ("test", "--release", folder, "--spark", "none")):
        done = run(*command)
        assert done.exit_code == 0, done.stdout + done.stderr


def test_snapshot_warns_of_another_schema_and_not_where_it_only_mends_a_file(run: Run, new_release: Path) -> None:
    frozen = new_release / "snapshots" / "1.1.0.sql"
    before = frozen.read_text()
    frozen.write_text(before.replace("BIGINT", "BIGINTEGER"))
    mended = run("snapshot", "--release", new_release).stdout
    assert frozen.read_text() == before
    assert "1.1.0 is frozen\n" in mended and "refuses" not in mended
    (new_release / "schema.sql").write_text(before.replace("gust DOUBLE", "gust STRING"))
    frozen.write_text((new_release / "schema.sql").read_text())  # by hand: the lock knows what was frozen
    assert "1.1.0 is frozen anew, with another schema" in run("snapshot", "--release", new_release).stdout
