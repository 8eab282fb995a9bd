"""The terminal, to which no text of anybody else gives orders."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from airflow_provider_schemamig.cli.given import given
from airflow_provider_schemamig.core.typed_commands import edits
from airflow_provider_schemamig.visible import visible


class PlainConsole(Console):
    """Rich's console, with control characters shown instead of obeyed: names and CHECKs of tables are anybody's text.

    Commands that a text names are shown as they can be typed.
    """

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*objects, **{"crop": False, **options})  # a command that is longer than the line stays whole

    def render_str(self, text: str, **options: Any) -> Text:
        return completed(super().render_str(text, **options))

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        found = options or self.options
        width, is_whole = found.max_width, found.no_wrap or getattr(renderable, "no_wrap", False)
        if isinstance(renderable, Text) and width == self.width and not is_whole:
            renderable = Text("\n", end=renderable.end, no_wrap=True, overflow="ignore").join(lines_of(renderable, width))
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text, lines=True), segment.style)


def completed(text: Text) -> Text:
    """Return a text with environment and release in its commands, if the command line had to give them."""
    for edit in edits(text.plain, *given()):
        text = text[: edit.start].append(edit.new).append_text(text[edit.end :])
    return text


def lines_of(text: Text, width: int) -> list[Text]:
    """Return a completed text in lines of at most ``width`` characters; a command, or a word, that is longer is a line that is not broken:
    whoever copies it gets it whole."""
    return [part for line in completed(text).split("\n", allow_blank=True) for part in _parts(line, width)]


def _parts(line: Text, width: int) -> Iterator[Text]:
    rest = line
    while len(rest) > width:
        indent = len(rest.plain) - len(rest.plain.lstrip())
        spaces = [at for at in _breaks(rest.plain) if at > indent]
        at = max((space for space in spaces if space <= width), default=min(spaces, default=len(rest)))
        yield rest[:at]
        rest = rest[at + 1 :]
    if rest or not line:
        yield rest


def _breaks(line: str) -> list[int]:
    """Return the spaces that stand in no command."""
    commands = [found.span() for found in re.finditer(r"`schemamig [^`]*`", line)]
    return [at for at, letter in enumerate(line) if letter == " " and not any(start < at < end for start, end in commands)]
