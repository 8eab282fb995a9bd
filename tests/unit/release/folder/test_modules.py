"""Migration modules are read, never run."""

from __future__ import annotations

import pytest

from airflow_provider_schemamig import evolution, replacement, rewrite
from airflow_provider_schemamig.core.release.folder.errors import FileRefusal
from airflow_provider_schemamig.core.release.folder.modules import (
    ForbiddenImport,
    ForbiddenStatement,
    MissingDocstring,
    ModuleSyntax,
    NotLiteral,
    StepsMissing,
    read_module,
)
from airflow_provider_schemamig.core.release.steps import InvalidStep
from airflow_provider_schemamig.exceptions import Refusal

FILE = "migrations/v1_1_0.py"
HEAD = '"""Doc."""\nfrom airflow_provider_schemamig import evolution, rewrite, replacement\n'


def test_a_module_as_design_shows_it() -> None:
    text = '''"""Carriers report minutes.

Why: asked for.
"""
from airflow_provider_schemamig import evolution
from airflow_provider_schemamig import replacement, rewrite

STEPS = [
    evolution("flights", rename={"a": "b"}, drop=["hour", "origin.code"]),
    replacement(
        "stats",
        fill="""SELECT 1
                FROM {flights}""",
        snapshot=True,
    ),
    evolution("x", drop=("a", "b")),
    rewrite("y", up="SELECT 1", down="SELECT 2", cardinality="any", lookups=["x"]),
]
'''
    refusals: list[Refusal] = []
    found = read_module(text, FILE, refusals)
    assert not refusals
    assert found is not None
    assert found.docstring.startswith("Carriers report minutes.")
    assert found.lines == (9, 10, 16, 17)
    assert found.steps[0] == evolution("flights", rename={"a": "b"}, drop=["hour", "origin.code"])
    assert found.steps[1] == replacement("stats", fill="SELECT 1\n                FROM {flights}", snapshot=True)
    assert found.steps[3] == rewrite("y", up="SELECT 1", down="SELECT 2", cardinality="any", lookups=["x"])


def test_no_steps_is_a_statement_too() -> None:
    found = read_module('"""Nothing needs a step."""\nSTEPS = []\n', FILE, [])
    assert found is not None
    assert found.steps == ()


BAD = [
    ("STEPS = []", MissingDocstring, None),
    ('"""  """\nSTEPS = []', MissingDocstring, None),
    ('"""Doc."""', StepsMissing, None),
    ('"""Doc."""\nimport os\nSTEPS = []', ForbiddenImport, 2),
    ('"""Doc."""\nfrom os import path\nSTEPS = []', ForbiddenImport, 2),
    ('"""Doc."""\nfrom airflow_provider_schemamig import *\nSTEPS = []', ForbiddenImport, 2),
    ('"""Doc."""\nfrom airflow_provider_schemamig import evolution as e\nSTEPS = []', ForbiddenImport, 2),
    ('"""Doc."""\nfrom airflow_provider_schemamig import core\nSTEPS = []', ForbiddenImport, 2),
    ('"""Doc."""\nfrom airflow_provider_schemamig.core.release.steps import evolution\nSTEPS = []', ForbiddenImport, 2),
    ('"""Doc."""\nfrom . import evolution\nSTEPS = []', ForbiddenImport, 2),
    ('"""Doc."""\nSTEPS = [evolution("a")]', ForbiddenStatement, 2),  # not imported
    (HEAD + "STEPS = []\nSTEPS = []", ForbiddenStatement, 4),
    (HEAD + "NAME = 'a'\nSTEPS = []", ForbiddenStatement, 3),
    (HEAD + "STEPS: list = []", ForbiddenStatement, 3),
    (HEAD + "STEPS = A = []", ForbiddenStatement, 3),
    (HEAD + "STEPS = ()", ForbiddenStatement, 3),
    (HEAD + "STEPS = [] + []", ForbiddenStatement, 3),
    (HEAD + "STEPS = [1]", ForbiddenStatement, 3),
    (HEAD + "STEPS = [*[]]", ForbiddenStatement, 3),
    (HEAD + "STEPS = [evolution.x('a')]", ForbiddenStatement, 3),
    (HEAD + "STEPS = [x for x in []]", ForbiddenStatement, 3),
    (HEAD + "def f(): pass\nSTEPS = []", ForbiddenStatement, 3),
    (HEAD + "print('hi')\nSTEPS = []", ForbiddenStatement, 3),
    (HEAD + "STEPS = [\nevolution(NAME)]", NotLiteral, 4),
    (HEAD + "STEPS = [\nevolution(f'{1}')]", NotLiteral, 4),
    (HEAD + "STEPS = [\nevolution('a' + 'b')]", NotLiteral, 4),
    (HEAD + "STEPS = [\nevolution('a', drop=['a',\n open('x')])]", NotLiteral, 5),
    (HEAD + "STEPS = [\nevolution('a', rename={'a': __import__('os')})]", NotLiteral, 4),
    (HEAD + "STEPS = [\nevolution('a', rename={**{}})]", NotLiteral, 4),
    (HEAD + "STEPS = [\nevolution('a', rename={['a']: 'b'})]", NotLiteral, 4),
    (HEAD + "STEPS = [\nevolution(*['a'])]", NotLiteral, 4),
    (HEAD + "STEPS = [\nevolution('a', **{'drop': ['b']})]", NotLiteral, 4),
    (HEAD + "STEPS = [\nevolution('a', drop=[b'x'])]", NotLiteral, 4),
    (HEAD + "STEPS = [\nevolution('\\ud800')]", NotLiteral, 4),
    (HEAD + "STEPS = [\nevolution()]", InvalidStep, 4),
    (HEAD + "STEPS = [\nevolution('a', 'b')]", InvalidStep, 4),
    (HEAD + "STEPS = [\nevolution('a', colour='red')]", InvalidStep, 4),
    (HEAD + "STEPS = [\nevolution('a', drop=['x'], drop=['y'])]", InvalidStep, 4),
    (HEAD + "STEPS = [\nevolution('a', rename={'x': 'y', 'x': 'z'})]", InvalidStep, 4),
    (HEAD + "STEPS = [\nevolution('A')]", InvalidStep, 4),
    (HEAD + "STEPS = [\nevolution('a', drop=[None])]", InvalidStep, 4),
    (HEAD + "STEPS = [\nrewrite('a')]", InvalidStep, 4),
    (HEAD + "STEPS = [\nrewrite('a', up='SELECT 1', cardinality='most')]", InvalidStep, 4),
    (HEAD + "STEPS = [\nrewrite('a', up='SELECT 1', lookups='b')]", InvalidStep, 4),
    (HEAD + "STEPS = [", ModuleSyntax, 3),
    ("<<<<<<< ours\n", ModuleSyntax, 1),
    ('"""Doc."""\0', ModuleSyntax, None),
    ("(" * 5000, ModuleSyntax, None),
    ('"""Doc."""\nSTEPS = [' + "-" * 100_000 + "1]", ModuleSyntax, None),
]


@pytest.mark.parametrize("text, kind, line", BAD, ids=[f"{kind.__name__}-{n}" for n, (_, kind, _) in enumerate(BAD)])
def test_modules_refused(text: str, kind: type[Refusal], line: int | None) -> None:
    refusals: list[Refusal] = []
    assert read_module(text, FILE, refusals) is None
    assert [type(refusal) for refusal in refusals] == [kind]
    refusal = refusals[0]
    assert isinstance(refusal, FileRefusal | InvalidStep)
    assert refusal.file == FILE
    if line is not None:
        assert refusal.line == line
    assert FILE in refusal.message
    assert refusal.next_action


def test_everything_wrong_is_said_at_once() -> None:
    refusals: list[Refusal] = []
    text = "import os\nfrom airflow_provider_schemamig import evolution\nSTEPS = [evolution(x), evolution(y), evolution('B')]\nprint()\n"
    assert read_module(text, FILE, refusals) is None
    assert [refusal.code for refusal in refusals] == [
        "missing_docstring",
        "forbidden_import",
        "not_literal",
        "not_literal",
        "invalid_step",
        "forbidden_statement",
    ]
