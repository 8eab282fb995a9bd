"""A plan as a tree: when each thing happens, to which collections, what it costs; with ``--explain`` also what it means for others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from rich.text import Text
from rich.tree import Tree

from airflow_provider_schemamig.cli.render.common import COST_STYLES, show_error, show_notes, show_pending, way
from airflow_provider_schemamig.core.html.moments import MOMENTS
from airflow_provider_schemamig.core.upgrade.plan.explain import Explanation
from airflow_provider_schemamig.core.upgrade.plan.stages import Online
from airflow_provider_schemamig.exceptions import Refused

if TYPE_CHECKING:
    from rich.console import Console

    from airflow_provider_schemamig.core.names import Version
    from airflow_provider_schemamig.core.upgrade.plan.estimate import Timing
    from airflow_provider_schemamig.core.upgrade.prepare.preflight import PlanReport, Preflight

#: Why a change costs what it costs (docs/schema-changes.md has the rule for each).
REASONS = {
    "none": "recorded in the ledger; the table is not touched for it",
    "instant": "one metadata commit a table; no row is read or written, however large the table is",
    "online": "rows are checked or filled in batches while readers and writers go on",
    "rewrite": "every row is written into a new table by Spark",
}

#: So many columns of a table that is made anew are shown without ``--explain``.
COLUMNS_SHOWN = 20
#: So many names are spelled out when one thing happens to many collections alike.
NAMES_SHOWN = 3


def show_plan(to: Console, report: PlanReport, *, explain: bool) -> None:
    """Print the plan as it would run, then every reason against it."""
    target = report.plan.target
    heading = Text.assemble((target.name, "bold cyan"), "  ").append_text(way(_text(target.source), str(target.version)))
    to.print(heading.append(f"   plan {report.plan.digest[:12]}", style="dim"))
    stages = report.explained
    for tree in plan_tree(stages, explain=explain):
        to.print()
        to.print(tree)
    show_pending(to, report.to_json()["pending"])
    show_notes(to, report.notes)
    to.print()
    if report.timing is not None:
        to.print(_timing(report.timing, stages), style="dim")
    if report.refusals:
        show_error(to, Refused(refusals=report.refusals))
    else:
        to.print(_summary(stages, report))
        if not explain:
            _show_footer(to, stages)


def _show_footer(to: Console, stages: Sequence[Explanation]) -> None:
    """Print how many effects are for good, and of how many collections readers or writers will notice. ``--explain`` tells more of both."""
    for_good = len({(stage.collection, line) for stage in stages for line in stage.irreversible})
    broken = {stage.collection for stage in stages if stage.breaks and stage.collection}  # a stage of several names none
    parts = [(f"{for_good} effect(s) for good", "red")] if for_good else []
    parts += [(f"readers or writers of {len(broken)} collection(s) will notice", "yellow")] if broken else []
    if parts:
        text = Text(", ").join([Text(part, style=style) for part, style in parts])
        to.print(text.append(": --explain says what.", style="default"))


def show_preflight(to: Console, found: Preflight) -> None:
    """Print the claimed plan, and the commands that approve it and go on with it."""
    show_plan(to, found.report, explain=True)
    if found.generation is None:
        return
    to.print(Text.assemble("generation ", (str(found.generation), "bold"), ", report ", (found.report_uri or "", "cyan")))
    to.print(f"To approve it: `schemamig approve --generation {found.generation} --plan {found.plan_digest}`")
    to.print(f"To go on then: `schemamig promote --generation {found.generation}`")


def _timing(timing: Timing, stages: Sequence[Explanation]) -> str:
    checked = f"Checked in {timing.checked_seconds:.1f} s."
    if timing.seconds is None:
        return f"{checked} Spark would read {timing.rows:,} rows; how long that takes is not known before the first copy here."
    if not timing.rows and any(stage.kind == Online.kind for stage in stages):
        return f"{checked} Nothing would be copied; how long the online changes take is not estimated."
    if not timing.rows:
        return f"{checked} No row would be read or written."
    return f"{checked} Spark would read {timing.rows:,} rows, in about {timing.seconds:,.0f} s at the speed of earlier copies here."


def _text(version: Version | None) -> str | None:
    return None if version is None else str(version)


def _summary(stages: Sequence[Explanation], report: PlanReport) -> Text:
    if not stages:
        return Text("A hold is over: contract is due." if report.due_holds else "Nothing to do.", style="green")
    collections = {stage.collection for stage in stages if stage.collection}
    dearest = max((stage.cost for stage in stages), key=lambda cost: cost.rank)
    text = Text(f"{len(collections):,} collection(s) in {len(stages):,} stage(s); the dearest is ")
    return text.append(dearest.value, style=COST_STYLES[dearest.value]).append(".")


def plan_tree(stages: Sequence[Explanation], *, explain: bool) -> Iterable[Tree]:
    """Yield one tree a moment; collections to which exactly the same happens share a branch. What a cost means is said once."""
    told: set[str] = set()
    for title, meaning, kinds in MOMENTS:
        mine = [stage for stage in stages if stage.kind in kinds]
        if not mine:
            continue
        tree = Tree(Text.assemble((title, "bold"), (f"  {meaning}", "dim")), guide_style="dim")
        groups = _alike(mine)
        common = _common(groups) if explain else {}
        elsewhere = {line for lines in common.values() for _, _, line in lines}
        for alike in groups:
            branch = _branch(tree, alike)
            _columns(branch, alike[0].columns, most=None if explain else COLUMNS_SHOWN)
            if explain:
                _explained(branch, alike[0], told, elsewhere)
        for names, lines in common.items():
            branch = tree.add(Text(_names(names), style="cyan"))
            for label, style, line in lines:
                branch.add(Text.assemble((label, style), line))
        yield tree


#: What is said of a stage beside its changes: the field, how it begins, its style.
_ASIDES = (("breaks", "breaks    ", "yellow"), ("irreversible", "for good  ", "red"), ("rollback", "rollback  ", "magenta"))


def _common(groups: Sequence[Sequence[Explanation]]) -> dict[tuple[str, ...], list[tuple[str, str, str]]]:
    """Return what is said alike of several branches (label, style, line), by the collections it is said of: it stands once, below them."""
    named: dict[tuple[str, str, str], list[Sequence[Explanation]]] = {}
    for alike in groups:
        for field, label, style in _ASIDES:
            for line in getattr(alike[0], field):
                named.setdefault((label, style, line), []).append(alike)
    found: dict[tuple[str, ...], list[tuple[str, str, str]]] = {}
    for text, among in named.items():
        if len(among) > 1:
            names = tuple(stage.collection for alike in among for stage in alike if stage.collection)
            found.setdefault(names, []).append(text)
    return found


def _alike(stages: Sequence[Explanation]) -> list[list[Explanation]]:
    groups: dict[tuple[object, ...], list[Explanation]] = {}
    for stage in stages:
        groups.setdefault(
            (stage.kind, stage.summary, stage.lines, stage.cost, stage.irreversible, stage.columns, stage.queries), []
        ).append(stage)
    return list(groups.values())


def _branch(tree: Tree, alike: Sequence[Explanation]) -> Tree:
    stage = alike[0]
    names = _names([item.collection for item in alike if item.collection])
    # One change stands beside the name, several below it; a stage without changes is its own sentence, and its lines explain it.
    changes = stage.lines if stage.kind != "copy" else ()
    beside = "" if len(changes) > 1 else (changes or (stage.summary,))[0]
    label = Text("  ").join(part for part in (Text(names, style="cyan"), Text(beside), _cost(stage)) if part)
    branch = tree.add(label)
    if len(changes) > 1:
        for line in changes:
            branch.add(Text(line))
    return branch


def _columns(branch: Tree, columns: Sequence[str], most: int | None) -> None:
    for line in columns[:most]:
        branch.add(Text(line))
    if most is not None and len(columns) > most:
        branch.add(Text(f"and {len(columns) - most:,} more: --explain shows them", style="dim"))


def _cost(stage: Explanation) -> Text:
    return Text(stage.cost.value, style=COST_STYLES[stage.cost.value])


def _names(names: Sequence[str]) -> str:
    if len(names) <= NAMES_SHOWN + 1:
        return ", ".join(names)
    return f"{', '.join(names[:NAMES_SHOWN])} and {len(names) - NAMES_SHOWN:,} more"


def _explained(branch: Tree, stage: Explanation, told: set[str], elsewhere: Collection[str]) -> None:
    is_change = stage.lines or stage.cost.value == "rewrite"  # any other stage's summary says it all
    if is_change and stage.cost.value not in told:
        told.add(stage.cost.value)
        branch.add(Text.assemble(("costs     ", "dim"), f"{stage.cost.value}: {REASONS[stage.cost.value]}"))
    for name, sql in stage.queries:
        branch.add(Text.assemble((f"{name:<10}", "dim"), sql.replace("\n", "\n" + " " * 10)))
    if stage.kind == "copy":
        for line in stage.lines:
            branch.add(Text.assemble(("how       ", "dim"), line))
    for field, label, style in _ASIDES:
        for line in getattr(stage, field):
            if line not in elsewhere:
                branch.add(Text.assemble((label, style), line))
