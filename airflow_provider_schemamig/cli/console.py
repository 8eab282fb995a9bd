"""The terminal, to which no text of anybody else gives orders."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from airflow_provider_schemamig.cli.given import given
from airflow_provider_schemamig.typed_commands import edits
from airflow_provider_schemamig.visible import visible


class PlainConsole(Console):
    """Rich's console, with control characters shown instead of obeyed: names and CHECKs of tables are anybody's text.

    Commands that a text names are shown as they can be typed.
    """

    def render_str(self, text: str, **options: Any) -> Text:
        return completed(super().render_str(text, **options))

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(completed(renderable) if isinstance(renderable, Text) else renderable, options):
            yield segment if segment.control else Segment(visible(segment.text, lines=True), segment.style)


def completed(text: Text) -> Text:
    """Return a text with the environment and the release in the commands that it names, where the command line had to give them."""
    for edit in edits(text.plain, *given()):
        text = text[: edit.start].append(edit.new).append_text(text[edit.end :])
    return text
