"""The one error tree of schemamig.

Every error is a class with fields, a ``message`` and a ``next_action``. These two are templates that its fields are put into, as in
``str.format``: ``message = "{uri} has no version {version}."``. A list shows as its items with commas between, or with what stands after
the colon (``{reasons:; }``), or as the first so many of them (``{paths:.8}``). What takes more logic than that is a property. The text is
made here, names the collection and ends with what to do. The base makes dataclasses of all: fields are given by name.

A *conflict* is retryable (try again, nothing is wrong), an *incompatibility* or a *refusal* is not: ``retryable`` says which,
and the CLI's exit code (75 or 1) and Airflow's retry policy both follow from it.

What an error tells, as text, as JSON, in a log or a traceback, goes through one door, here: no credential comes out, whatever its fields
hold. The fields themselves stay as they are, for programs.
"""

from __future__ import annotations

import functools
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, dataclass_transform

from airflow_provider_schemamig.visible import visible


@dataclass_transform(eq_default=False, kw_only_default=True)
@dataclass(eq=False, kw_only=True)
class SchemamigError(Exception):
    """Base of all errors. ``code`` is stable and may be matched by programs; ``message`` and ``next_action`` are for people."""

    code: ClassVar[str] = "error"
    retryable: ClassVar[bool] = False
    #: Its text has line ends of its own; in any other they come from somebody else, and are shown.
    has_lines: ClassVar[bool] = False

    collection: str | None = None

    def __init_subclass__(cls) -> None:
        cls.__repr__ = SchemamigError.__repr__  # type: ignore[method-assign]  # a dataclass would make its own, with every field
        dataclass(eq=False, kw_only=True)(cls)
        for name in ("message", "next_action"):
            made = cls.__dict__.get(name)
            if isinstance(made, str):
                setattr(cls, name, property(_without_credentials(_filled(made))))
            elif isinstance(made, property) and made.fget is not None:
                setattr(cls, name, property(_without_credentials(made.fget)))

    @property
    def message(self) -> str:
        """Return what is wrong, in one or two sentences."""
        return self.code

    @property
    def next_action(self) -> str:
        """Return what the reader should do next, as an imperative."""
        return "Read the documentation of this error code."

    @property
    def subject(self) -> str | None:
        """Return the collection, as it may be shown."""
        from airflow_provider_schemamig.credentials import blank_typed

        return None if self.collection is None else visible(blank_typed(self.collection))

    @property
    def headline(self) -> str:
        """Return code, collection and message: what a log has where the next action is somebody else's."""
        where = f"{self.subject}: " if self.collection else ""
        return visible(f"[{self.code}] {where}{self.message}", lines=self.has_lines)

    def __str__(self) -> str:
        return f"{self.headline} {visible(self.next_action, lines=self.has_lines)}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions pickle by positional args; ours have keyword-only fields, and Airflow moves exceptions between processes.
        return _rebuild, (type(self), {f.name: getattr(self, f.name) for f in fields(self)})

    def to_json(self) -> dict[str, Any]:
        """Return the document of an error: code, message, collection, next, retryable."""
        return {
            "code": self.code,
            "message": self.message,
            "collection": self.subject,
            "next": self.next_action,
            "retryable": self.retryable,
        }


class _Template(string.Formatter):
    """``str.format`` with the attributes of one object for names."""

    def get_value(self, key: int | str, args: Sequence[Any], kwargs: Any) -> Any:
        return getattr(args[0], str(key))

    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, list | tuple):
            return listed(value, int(format_spec[1:])) if format_spec.startswith(".") else (format_spec or ", ").join(value)
        return str(super().format_field(value, format_spec))


def listed(items: Sequence[str], most: int) -> str:
    """Return the first ``most`` items in words, and how many more there are."""
    shown = ", ".join(items[:most])
    return shown if len(items) <= most else f"{shown} and {len(items) - most} more"


def _filled(template: str) -> Callable[[Any], str]:
    def tell(error: Any) -> str:
        return _Template().format(template, error)

    return tell


def _without_credentials(tell: Callable[[Any], str]) -> Callable[[Any], str]:
    """Fill an error's fields into the text ``tell``. In the text alone there is no telling where a field ends that somebody typed."""

    @functools.wraps(tell)
    def told(error: Any) -> str:
        # In here: its patterns cost more to make than the rest of this module, and most processes tell no error.
        from airflow_provider_schemamig.credentials import blank_own, blank_typed

        text = tell(error)
        for value in vars(error).values():
            if isinstance(value, str) and (shown := blank_typed(value)) != value:
                text = text.replace(value, shown).replace(repr(value)[1:-1], repr(shown)[1:-1])
        return blank_own(text)

    return told


def _rebuild(kind: type[SchemamigError], values: dict[str, Any]) -> SchemamigError:
    return kind(**values)


class Conflict(SchemamigError):
    """Somebody else was first; the state was read again and the work may be tried again."""

    retryable = True


class Refusal(SchemamigError):
    """The request cannot be carried out as it stands; trying again changes nothing."""


class Refused(Refusal):
    """Several refusals found at once; nothing was written."""

    code = "refused"
    has_lines = True
    refusals: Sequence[SchemamigError] = ()

    @property
    def message(self) -> str:
        lines = "\n".join(f"  - {refusal}" for refusal in self.refusals)
        return f"{len(self.refusals)} reason(s) against it:\n{lines}\n"

    @property
    def next_action(self) -> str:
        return "Fix every reason listed above, then run the command again."


def refusals_of(error: SchemamigError) -> tuple[SchemamigError, ...]:
    """Return the refusals that ``error`` stands for: several, itself, or none where it is no refusal."""
    if isinstance(error, Refused):
        return tuple(error.refusals)
    return (error,) if isinstance(error, Refusal) else ()


def error_of(refusals: Sequence[SchemamigError]) -> SchemamigError:
    """Return the one error that stands for ``refusals`` (at least one)."""
    return refusals[0] if len(refusals) == 1 else Refused(refusals=tuple(refusals))


def raise_refusals(refusals: Sequence[SchemamigError]) -> None:
    """Raise nothing, the one refusal, or all of them together."""
    if refusals:
        raise error_of(refusals)
