"""Types for ids, and the validation every name passes before it reaches a path or SQL."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NewType

from airflow_provider_schemamig.exceptions import Refusal

CollectionName = NewType("CollectionName", str)
ShardId = NewType("ShardId", str)
Generation = NewType("Generation", int)
Epoch = NewType("Epoch", int)
SchemaId = NewType("SchemaId", int)
Fingerprint = NewType("Fingerprint", str)
#: A dotted path to a field: ``origin.code``; through arrays ``tags.element.x``, through maps ``m.value.x``.
ColumnPath = NewType("ColumnPath", str)

#: Marks everything in an environment that is ours and not a user's row: folders, constraints, txn application ids.
RESERVED_PREFIX = "schemamig"
#: The CHECK that seals a table; the shard the rows have moved to follows, so that a writer's error says where.
SEAL_PREFIX = f"{RESERVED_PREFIX}_moved_to_"
#: Application ids of the checkpoints that streams keep in their target's table begin so; origin and its shard follow.
STREAM_PREFIX = f"{RESERVED_PREFIX}:replica:"

_COLLECTION = re.compile(r"[a-z][a-z0-9_]{0,62}")
# What Delta refuses without column mapping (space ,;{}()\n\t=), plus dot (paths), quotes and backtick (SQL).
_COLUMN = re.compile(r"[^\s,;{}()=.`'\"\\\x00-\x1f\x7f]{1,255}")
# A CHECK's name becomes part of a property's key, and goes into other writers' ALTER statements and error texts.
_CONSTRAINT = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_VERSION = re.compile(r"(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})")


class InvalidName(Refusal):
    """A name that may not reach a path or SQL."""

    code = "invalid_name"
    message = "{name!r} is not a valid {kind} name: {rule}."
    next_action = "Choose another {kind} name."
    kind: str
    name: str
    rule: str


def check_label(kind: str, text: str) -> None:
    """Raise ``InvalidName`` for a user's own text that is empty, or holds a credential: the ledger keeps it and ``status`` shows it."""
    from airflow_provider_schemamig.credentials import blank_typed  # takes longer than this module

    if not text:
        raise InvalidName(kind=kind, name=text, rule="it is empty")
    if blank_typed(text) != text:
        raise InvalidName(kind=kind, name=text, rule="it holds what looks like a credential, and the ledger would keep and show it")


@dataclass(frozen=True, order=True, slots=True)
class Version:
    """A release's version, ``major.minor.patch``; ordered."""

    major: int
    minor: int
    patch: int

    @classmethod
    @functools.lru_cache(maxsize=4096)  # a registry of 50 environments names the same few versions 25,000 times
    def parse(cls, text: str) -> Version:
        match = _VERSION.fullmatch(text)
        if match is None:
            raise InvalidName(kind="version", name=text, rule="it has the form 1.2.3")
        return cls(*(int(part) for part in match.groups()))

    @property
    def module_name(self) -> str:
        """Return the migration module's name: ``v1_1_0``."""
        return f"v{self.major}_{self.minor}_{self.patch}"

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


def collection_name(text: str) -> CollectionName:
    """Validate a collection's name; it becomes a folder below the environment's root."""
    if _COLLECTION.fullmatch(text) is None or text.startswith(RESERVED_PREFIX):
        rule = f"lower-case letters, digits and underscores, a letter first, at most 63, not beginning with {RESERVED_PREFIX}"
        raise InvalidName(kind="collection", name=text, rule=rule)
    return CollectionName(text)


def constraint_rule(text: str) -> str | None:
    """Return what is wrong with the name of a CHECK or a key; None if nothing is."""
    if text.lower().startswith(RESERVED_PREFIX):
        return f"names beginning with {RESERVED_PREFIX} are its own"
    return None if _CONSTRAINT.fullmatch(text) else "letters, digits and underscores, no digit first, at most 255"


def column_name(text: str, collection: str | None = None) -> str:
    """Validate one column or field name (no dots: those separate the parts of a path)."""
    if _COLUMN.fullmatch(text) is None:
        rule = "1 to 255 characters, without white space, quotes, backslash or any of , ; { } ( ) = ."
        raise InvalidName(kind="column", name=text, rule=rule, collection=collection)
    return text


def name_key(name: str) -> str:
    """Return the same key for all names that Spark takes for one. Both cases of each character count, so a long s is an s."""
    lower = name.lower()
    return lower if lower.isascii() else "".join(map(_character_key, name))


def moved_name(given: Sequence[str], wanted: Sequence[str]) -> str | None:
    """Return the first name of ``given`` that stands at another place in ``wanted``; None if each of them stands there or nowhere."""
    places = {name_key(name): number for number, name in enumerate(wanted)}
    return next((name for number, name in enumerate(given) if places.get(name_key(name), number) != number), None)


def _character_key(character: str) -> str:
    upper = character.upper()
    return (upper if len(upper) == 1 else character).lower()[0]  # as Java: one character has one of each case


def quote(identifier: str) -> str:
    """Put an identifier in backticks, always: there is no list of reserved words to get wrong."""
    return "`" + identifier.replace("`", "``") + "`"
