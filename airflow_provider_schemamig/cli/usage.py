"""Usage errors, without the credentials that somebody typed in the wrong place. Typer quotes what it cannot use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from airflow_provider_schemamig.visible import visible

#: Typer's ClickException, under whichever name it has it.
_CLICK_EXCEPTION: type[Any] = typer.BadParameter.__mro__[2]
_TYPED = f"{__name__}.typed"


def _without_types_of_flags(params: list[Any]) -> list[Any]:
    """Show no type beside an option that takes no value."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


class Command(TyperCommand):
    """A command whose help shows flags as flags."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types_of_flags(super().get_params(ctx))


class CommandGroup(TyperGroup):
    """A group of commands whose help shows flags as flags."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types_of_flags(super().get_params(ctx))


class BlankingGroup(CommandGroup):
    """The root of all commands: every usage error passes through it on its way to the terminal."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        typed = tuple(args)  # it is emptied below
        with _blanked(typed):
            context = super().make_context(info_name, args, parent, **extra)
        context.meta[_TYPED] = typed
        return context

    def invoke(self, ctx: Any) -> Any:
        with _blanked(ctx.meta.get(_TYPED, ())):
            return super().invoke(ctx)


@contextmanager
def _blanked(typed: tuple[str, ...]) -> Iterator[None]:
    try:
        yield
    except _CLICK_EXCEPTION as error:
        from airflow_provider_schemamig.credentials import blank_own, blank_typed  # costs more than --help should

        for argument in typed:
            # A value may stand alone, behind its option (`--table=...`) or behind a name (`flights=...`).
            for text in (argument, argument.partition("=")[2]):
                if (shown := blank_typed(text)) != text:
                    error.message = error.message.replace(text, shown).replace(repr(text)[1:-1], repr(shown)[1:-1])
        error.message = visible(blank_own(error.message), lines=True)
        raise
