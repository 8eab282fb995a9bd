"""Reads a migration module without running it: from its syntax tree to a docstring and steps.

A module that could import or compute would mean something else tomorrow; one that may only hold literals cannot.
"""

from __future__ import annotations

import ast
import inspect
import io
import re
import tokenize
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from airflow_provider_schemamig.core.release.folder.errors import FileRefusal
from airflow_provider_schemamig.core.release.steps import InvalidStep, Step, evolution, removal, replacement, rewrite
from airflow_provider_schemamig.exceptions import Refusal

PACKAGE = "airflow_provider_schemamig"
FACTORIES: Mapping[str, Callable[..., Step]] = MappingProxyType(
    {"evolution": evolution, "removal": removal, "replacement": replacement, "rewrite": rewrite}
)
_SHAPE = f"a docstring, `from {PACKAGE} import {', '.join(FACTORIES)}`, and one `STEPS = [...]` of calls with literal arguments"


#: What `schemamig new` leaves for its reader to decide: a comment that begins so, and a docstring that says Why so.
TODO = "TODO schemamig:"
WHY_PLACEHOLDER = "Why: TODO"
#: How the further lines of a question begin.
CONTINUED = "#   "
_TODO_COMMENT = re.compile(rf"#\s*{re.escape(TODO)}\s*(.*)")


@dataclass(frozen=True, slots=True)
class Migration:
    """One migration module: how its version is reached from the version before. ``lines[i]`` is where ``steps[i]`` begins (from 1)."""

    file: str
    docstring: str
    steps: tuple[Step, ...]
    lines: tuple[int, ...]


class ModuleSyntax(FileRefusal):
    code = "module_syntax"
    next_action = "Correct the line."
    column: int | None = None
    reason: str

    @property
    def message(self) -> str:
        column = "" if self.column is None else f", column {self.column}"
        return f"{self.where}{column} is not Python: {self.reason}."


class MissingDocstring(FileRefusal):
    code = "missing_docstring"
    message = "{file} does not begin with a docstring."
    next_action = 'Say in it what changes and why, as in """Carriers report delay in minutes.\\n\\nWhy: ..."""'


class ForbiddenStatement(FileRefusal):
    code = "forbidden_statement"
    message = "{where}: `{statement}` may not stand in a migration module, which is read and never run."
    next_action = f"A module holds {_SHAPE}; nothing else."
    statement: str


class ForbiddenImport(FileRefusal):
    code = "forbidden_import"
    message = "{where}: `{statement}`: a step may depend on nothing that can change under it."
    next_action = f"Import only {', '.join(FACTORIES)} from {PACKAGE}, under their own names."
    statement: str


class StepsMissing(FileRefusal):
    code = "steps_missing"
    message = "{file} has no `STEPS = [...]`."
    next_action = "Add it; STEPS = [] says that nothing needs a step."


class NotLiteral(FileRefusal):
    code = "not_literal"
    message = "{where}: `{found}` is not a literal."
    next_action = "Write strings, lists, dictionaries, True, False or None out; constants are copied in, never computed or imported."
    found: str


class UnfinishedMigration(FileRefusal):
    """Something that only the author can decide, left open by ``schemamig new``."""

    code = "unfinished_migration"
    next_action = "Decide it, correct the step if need be, and delete the comment (or replace the placeholder)."
    question: str

    @property
    def message(self) -> str:
        question = self.question if self.question.endswith("?") else f"{self.question.rstrip('.')}."
        return f"{self.where}: a question of `schemamig new` is not decided yet: {question}"


def read_module(text: str, file: str, refusals: list[Refusal]) -> Migration | None:
    """Return the migration that ``text`` declares, or None with every reason appended to ``refusals``."""
    before = len(refusals)
    tree = _parse(text, file, refusals)
    if tree is None:
        return None
    docstring = ast.get_docstring(tree)
    if not (docstring or "").strip():
        refusals.append(MissingDocstring(file=file))
    body = tree.body[1:] if docstring is not None else tree.body
    reader = _Reader(file, text.splitlines(), refusals)
    for node in body:
        reader.statement(node)
    if not reader.assigned and len(refusals) == before:
        refusals.append(StepsMissing(file=file))
    refusals.extend(_unfinished(text, file, docstring or ""))
    if len(refusals) > before or docstring is None:
        return None
    return Migration(file, docstring, tuple(step for step, _ in reader.steps), tuple(line for _, line in reader.steps))


def comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield the comments of a module that parses, each with its line (from 1)."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _unfinished(text: str, file: str, docstring: str) -> Iterator[UnfinishedMigration]:
    line = next((number for number, line in enumerate(docstring.splitlines(), start=1) if line.strip().startswith(WHY_PLACEHOLDER)), None)
    if line is not None:
        yield UnfinishedMigration(file=file, line=line, question="why is this migration made? The docstring still holds the placeholder")
    if TODO not in text:  # telling comments from strings takes ten times as long as reading the module
        return
    for line, question in _questions(text):
        yield UnfinishedMigration(file=file, line=line, question=question)


def _questions(text: str) -> Iterator[tuple[int, str]]:
    """Yield the questions with the lines they begin on; the comment's next lines belong to one."""
    found: list[tuple[int, str]] = []
    last = 0
    for line, comment in comments(text):
        match = _TODO_COMMENT.match(comment)
        if match is not None:
            found.append((line, match[1] or "?"))
            last = line
        elif found and line == last + 1 and comment.startswith(CONTINUED):
            found[-1] = (found[-1][0], f"{found[-1][1]} {comment.removeprefix(CONTINUED).strip()}")
            last = line
    yield from found


def _parse(text: str, file: str, refusals: list[Refusal]) -> ast.Module | None:
    try:
        return ast.parse(text, filename=file)
    except SyntaxError as error:
        refusals.append(ModuleSyntax(file=file, line=error.lineno, column=error.offset, reason=error.msg))
    except (ValueError, RecursionError, MemoryError) as error:  # null bytes; nesting deeper than the parser's stack
        refusals.append(ModuleSyntax(file=file, reason=str(error) or "nested too deeply"))
    return None


class _Reader:
    """Walks the statements after the docstring; collects steps with their lines, and refusals."""

    def __init__(self, file: str, lines: list[str], refusals: list[Refusal]) -> None:
        self.file = file
        self.lines = lines
        self.refusals = refusals
        self.imported: set[str] = set()
        self.assigned = False
        self.steps: list[tuple[Step, int]] = []

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.ImportFrom(module="airflow_provider_schemamig", names=names, level=0) if all(
                n.name in FACTORIES and n.asname is None for n in names
            ):
                self.imported.update(n.name for n in names)
            case ast.Import() | ast.ImportFrom():
                self.refusals.append(ForbiddenImport(file=self.file, line=node.lineno, statement=self._source(node)))
            case ast.Assign(targets=[ast.Name(id="STEPS")], value=ast.List(elts=calls)) if not self.assigned:
                self.assigned = True
                for call in calls:
                    self._step(call)
            case _:
                self.refusals.append(ForbiddenStatement(file=self.file, line=node.lineno, statement=self._source(node)))

    def _step(self, node: ast.expr) -> None:
        match node:
            case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in self.imported:
                try:
                    positional = [self._literal(arg) for arg in args]
                    named = self._named(keywords)
                    self.steps.append((self._make(name, positional, named), node.lineno))
                except FileRefusal as refusal:
                    self.refusals.append(refusal)
                except InvalidStep as refusal:
                    refusal.file, refusal.line = self.file, node.lineno
                    self.refusals.append(refusal)
            case _:
                self.refusals.append(ForbiddenStatement(file=self.file, line=node.lineno, statement=self._source(node)))

    def _make(self, name: str, positional: list[Any], named: dict[str, Any]) -> Step:
        factory = FACTORIES[name]
        try:
            bound = inspect.signature(factory).bind(*positional, **named)
        except TypeError as error:
            raise InvalidStep(reason=f"{name}: {error}") from None
        try:
            return factory(*bound.args, **bound.kwargs)
        except InvalidStep:
            raise
        except Refusal as refusal:  # a name that may not be: say where it stands
            raise InvalidStep(reason=refusal.message.rstrip("."), collection=refusal.collection) from refusal

    def _named(self, keywords: list[ast.keyword]) -> dict[str, Any]:
        named: dict[str, Any] = {}
        for keyword in keywords:
            if keyword.arg is None:
                raise NotLiteral(file=self.file, line=keyword.value.lineno, found=f"**{self._source(keyword.value)}")
            if keyword.arg in named:  # the compiler's check, which parsing alone does not make
                raise InvalidStep(reason=f"{keyword.arg} is given twice")
            named[keyword.arg] = self._literal(keyword.value)
        return named

    def _literal(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=str() as text) if _is_text(text):
                return text
            case ast.Constant(value=bool() | None):
                return node.value
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return [self._literal(item) for item in items]
            case ast.Dict(keys=keys, values=values) if all(isinstance(key, ast.Constant) for key in keys):
                pairs = [(self._literal(key), self._literal(value)) for key, value in zip(keys, values, strict=True) if key is not None]
                if len({key for key, _ in pairs}) < len(pairs):
                    raise InvalidStep(reason=f"a key stands twice in {self._source(node)}")
                return dict(pairs)
        raise NotLiteral(file=self.file, line=node.lineno, found=self._source(node))

    def _source(self, node: ast.expr | ast.stmt) -> str:
        # The line as written: unparsing recurses, and the text of a module is not ours.
        text = self.lines[node.lineno - 1].strip() if node.lineno <= len(self.lines) else ""
        return text if len(text) <= 80 else f"{text[:77]}..."


def _is_text(value: str) -> bool:
    """Return whether ``value`` can be written out: a lone surrogate, made by an escape, cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
