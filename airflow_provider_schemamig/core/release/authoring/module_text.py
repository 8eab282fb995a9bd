"""A migration module as text: what ``schemamig new`` writes, and ``modules.read_module`` reads."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence

from airflow_provider_schemamig.core.release.authoring.draft import DraftStep
from airflow_provider_schemamig.core.release.folder.modules import CONTINUED, FACTORIES, PACKAGE, TODO, WHY_PLACEHOLDER
from airflow_provider_schemamig.core.release.steps import Evolution, Replacement, Rewrite, Step

_WIDTH = 120
_INDENT = "    "


_ASK_WHY = f"{WHY_PLACEHOLDER} say why, for the reader in two years."


def module_text(title: str, drafts: Sequence[DraftStep], why: str = _ASK_WHY) -> str:
    """Return the module with docstring, steps, and a comment for each open question. Equal input gives equal text."""
    sentence = title if title[-1] in ".!?" else f"{title}."
    lines = [f'"""{_escaped(sentence)}', "", _escaped(why), '"""', ""]
    used = [name for name in FACTORIES if any(draft.step.kind == name for draft in drafts)]
    if used:
        lines += [f"from {PACKAGE} import {', '.join(used)}", ""]
    if not drafts:
        return "\n".join([*lines, "STEPS = []", ""])
    lines.append("STEPS = [")
    for draft in drafts:
        for question in draft.questions:
            lines += _comment(question)
        lines += _call(draft.step)
    return "\n".join([*lines, "]", ""])


def _comment(question: str) -> list[str]:
    first, after = f"{_INDENT}# {TODO} ", f"{_INDENT}{CONTINUED}"
    return textwrap.wrap(question, _WIDTH, initial_indent=first, subsequent_indent=after, break_long_words=False, break_on_hyphens=False)


def _call(step: Step) -> list[str]:
    arguments = list(_arguments(step))
    line = f"{_INDENT}{step.kind}({', '.join(arguments)}),"
    if len(line) <= _WIDTH and "\n" not in line:
        return [line]
    return [f"{_INDENT}{step.kind}(", *(f"{_INDENT * 2}{argument}," for argument in arguments), f"{_INDENT}),"]


def _arguments(step: Step) -> Iterator[str]:
    yield _string(step.collection)
    match step:
        case Evolution():
            if step.rename:
                yield f"rename={{{', '.join(f'{_string(old)}: {_string(new)}' for old, new in step.rename)}}}"
            if step.drop:
                yield f"drop=[{', '.join(map(_string, step.drop))}]"
            if step.renamed_from is not None:
                yield f"renamed_from={_string(step.renamed_from)}"
        case Rewrite():
            yield f'up="""{_escaped(step.up)}"""'
            if step.down is not None:
                yield f'down="""{_escaped(step.down)}"""'
        case Replacement() if step.fill is not None:
            yield f'fill="""{_escaped(step.fill)}"""'


def _string(text: str) -> str:
    """Return a name as Python writes it; names hold neither quotes nor backslashes."""
    return json.dumps(text, ensure_ascii=False)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
