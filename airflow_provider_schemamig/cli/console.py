"""The terminal, to which no text of anybody else gives orders."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from airflow_provider_schemamig.visible import visible


class PlainConsole(Console):
    """Rich's console, with control characters shown instead of obeyed: names and CHECKs of tables are anybody's text."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text, lines=True), segment.style)
