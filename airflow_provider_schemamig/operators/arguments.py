"""What operators take as arguments: a literal of the DAG, an XCom, or the text that a template renders to."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence, Set
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.credentials import blank_typed
from airflow_provider_schemamig.exceptions import Refusal

if TYPE_CHECKING:
    from airflow.sdk import Context

#: What Airflow's own TriggerDagRunOperator adds to a conf where OpenLineage is on.
_OF_AIRFLOW = frozenset({"openlineage"})
#: Digits of the longest number that is taken.
_DIGITS = 18


class BadArgument(Refusal):
    """An operator's argument, after templates were rendered, is not what the operator takes."""

    code = "bad_argument"
    message = "{argument} is {value!r}, but it must be {wanted}."
    next_action = "Correct {argument}: in the DAG, then clear the task; in the run's parameters, then trigger a new run."
    argument: str
    value: str
    wanted: str

    @classmethod
    def of(cls, argument: str, value: object, wanted: str) -> BadArgument:
        """Return the refusal of a value, whose credentials are blanked."""
        return cls(argument=argument, value=blank_typed("" if value is None else str(value)), wanted=wanted)


class UnknownParameter(Refusal):
    """A run's conf has a key that nothing reads: misspelt, it would leave the parameter that was meant at its default."""

    code = "bad_argument"
    message = "the run's conf has {names}, and the DAG has no such parameter: it would be left out."
    next_action = "Trigger a new run; the DAG's parameters are {known}."
    names: Sequence[str]
    known: Sequence[str]


def check_conf(context: Context) -> None:
    """Raise UnknownParameter for keys of the run's conf that are no parameter of its DAG."""
    known, run = context["dag"].params, context.get("dag_run")
    names = sorted(str(name) for name in (getattr(run, "conf", None) or {}) if name not in known and name not in _OF_AIRFLOW)
    if names:
        raise UnknownParameter(names=[repr(blank_typed(name)) for name in names], known=sorted(known))


def check_rendered(operator: Any) -> None:
    """Raise BadArgument for the text None, which ``{{ params.x }}`` makes of an empty parameter: no name, number or path is called so."""
    for argument in operator.template_fields:
        if getattr(operator, argument, "") == "None":
            raise BadArgument.of(argument, "None", "given, or empty where that means all: `{{ params.x or '' }}` is empty without a value")


def release_folder(release: object, context: Context) -> Path:
    """Return the release folder; a relative path is looked for in the folder of the DAG file, for workers share no current directory."""
    return Path(context["dag"].folder) / as_text("release", release, "the path of a release folder")


def check_task_id(operator: Any, argument: str, task_id: str) -> None:
    """Raise BadArgument for the id of a task that the operator's DAG does not have: with a group its id has the group's before it."""
    if task_id and operator.has_dag() and task_id not in operator.dag.task_dict:
        raise BadArgument.of(argument, task_id, "the whole id of a task of this DAG (group.task)")


def as_text(argument: str, value: object, wanted: str = "") -> str:
    """Return a text; a number as it is typed. None and '' are none, and refused where something is ``wanted``."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | None):
        raise BadArgument.of(argument, value, wanted or "a text")
    text = "" if value is None else str(value)
    if wanted and not text.strip():
        raise BadArgument.of(argument, text, wanted)
    return text


def as_place(argument: str, value: object, wanted: str) -> str:
    """Return a URI or an absolute path; a relative one would lie in the worker's current directory."""
    from airflow_provider_schemamig.hooks.schemamig import is_place

    text = as_text(argument, value, wanted)
    if not is_place(text):
        raise BadArgument.of(argument, text, wanted)
    return text


def as_generation(value: object) -> Generation:
    """Convert a generation that comes from a literal, an XCom or a rendered template."""
    number = _number(value)
    if number is None:
        raise BadArgument.of("generation", value, "a number, as the preflight task returns it")
    return Generation(number)


def as_number(argument: str, value: object, least: int = 1) -> int | None:
    """Convert a whole number, ``least`` or more, that comes from a literal or a rendered template; None and '' are none."""
    if value is None or value == "":
        return None
    number = _number(value)
    if number is None or number < least:
        raise BadArgument.of(argument, value, f"a whole number, {least} or more")
    return number


def _number(value: object) -> int | None:
    text = str(value).removesuffix(".0")  # what JSON counts as a whole number
    return int(text) if text.isdecimal() and len(text) <= _DIGITS else None


def as_flag(argument: str, value: object) -> bool:
    """Convert a yes or no that comes from a literal or a rendered template ('True', 'false')."""
    text = str(value).strip().lower()
    if text not in {"true", "false"}:
        raise BadArgument.of(argument, value, "true or false")
    return text == "true"


def as_hold(value: timedelta | float | str) -> timedelta:
    """Convert a hold time: a timedelta, or hours as a number or a rendered template."""
    return as_time("hold", value, "hours")


def as_time(argument: str, value: timedelta | float | str, unit: str) -> timedelta:
    """Convert a length of time: a timedelta, or a number of ``unit`` (``hours``, ``minutes``) from a literal or a rendered template."""
    if isinstance(value, timedelta):
        return value
    try:
        found = timedelta(**{unit: float(value)})
    except (ValueError, TypeError, OverflowError):
        found = timedelta(-1)
    if found < timedelta(0):
        raise BadArgument.of(argument, value, f"a number of {unit}, 0 or more")
    return found


def as_window(value: object) -> tuple[int, int] | None:
    """Convert ``22-6`` that comes from a literal or a rendered template; None and '' are none."""
    text = as_text("window", value)
    if not text:
        return None
    first, last = map(_number, text.partition("-")[::2])
    if first is None or last is None:
        raise BadArgument.of("window", value, "hours UTC such as 22-6")
    return first, last


def as_names(value: object) -> list[str]:
    """Convert names of collections; None and '' are none.

    They come as a list; or, from a rendered template, as a text with commas between them, or as the text of a list.
    """
    found: Collection[Any] | None = None
    if isinstance(value, str):
        found = _listed(value)
    elif isinstance(value, Sequence | Set) and not isinstance(value, bytes):
        found = value
    elif value is None:
        found = ()
    if found is None or not all(isinstance(name, str) for name in found):
        raise BadArgument.of("collections", value, "names of collections: a list, or one text with commas between them")
    return [name.strip() for name in found if name.strip()]


def as_chunk(value: object) -> list[str]:
    """Convert the names that a task before found for this one: a list, which may be empty, or its text."""
    if value is None or value == "":
        raise BadArgument.of("collections", value, "the names that a task before found; where it found none, an empty list")
    return as_names(value)


def as_choice(value: object) -> list[str]:
    """Convert the names that somebody chose; None and '' stand for all. A list without a name chooses nothing, and is refused."""
    names = as_names(value)
    if not names and value not in (None, ""):
        raise BadArgument.of("collections", value, "names of collections, or empty for all: a list without a name chooses nothing")
    return names


def as_mapping(argument: str, value: object, wanted: str) -> dict[str, str]:
    """Return a mapping of texts; what a template renders to is text, and refused, unless the DAG renders natively."""
    if not isinstance(value, Mapping) or not all(isinstance(text, str) for item in value.items() for text in item):
        raise BadArgument.of(argument, value, wanted)
    return dict(value)


def _listed(text: str) -> list[str] | None:
    """Return the names in a text with commas, or in the text of a list as Python and JSON write it; None if it is neither."""
    if not text.lstrip().startswith("["):
        return text.split(",")
    try:
        return list(ast.literal_eval(text.strip()))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None
