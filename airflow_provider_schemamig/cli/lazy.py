"""Groups of commands whose modules are imported when a command is called or shown: ``schemamig status`` pays for no other command.

A command is the function of its own name in the module of its own name, below ``cli.commands``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from importlib import import_module
from typing import Any

import typer
from typer.main import get_command

from airflow_provider_schemamig.cli.usage import Command

#: Names of commands, in the order and under the headings of ``--help``.
Panels = Mapping[str | None, Sequence[str]]


class LazyCommands(MutableMapping[str, Any]):
    """Commands by name, each imported when it is first asked for; ``own``: those that are there already (groups), which come last."""

    def __init__(self, package: str, panels: Panels, own: Mapping[str, Any]) -> None:
        self._package = package
        self._panels = {name: panel for panel, names in panels.items() for name in names}
        self._made: dict[str, Any] = dict(own)
        self._names = [*self._panels, *own]

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _command(f"{self._package}.{name}", name, self._panels[name])
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._names += [] if name in self._names else [name]
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        raise TypeError("commands are not taken away")

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        """Return whether there is such a command, without its module."""
        return name in self._names


def _command(module: str, name: str, panel: str | None) -> Any:
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(name, rich_help_panel=panel, cls=Command)(getattr(import_module(module), name))
    return get_command(alone)
