"""The latest runs of the DAGs behind the page's buttons, and failed upgrades: by whom, about what, when, and how each run stands.

Read from Airflow's database, for who may see a DAG's runs. Why a run failed is what its note says (``run_notes``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from sqlalchemy import select
from sqlalchemy.orm import Session

from airflow_provider_schemamig.credentials import blank_typed
from airflow_provider_schemamig.exceptions import Refused
from airflow_provider_schemamig.run_notes import MARK, last_sentences
from airflow_provider_schemamig.web.access import may_see_runs
from airflow_provider_schemamig.web.places import Place, environment_of_run
from airflow_provider_schemamig.web.runs import CONTROL, RESTORE, ROLLBACK, address_of, claim_of, upgrade_dags

#: So long a run is told of, and so many at most.
LATELY = timedelta(days=1)
_MOST = 200
#: So far back, and over so many runs, an upgrade is looked for that failed and was not made good.
_UNMENDED = timedelta(days=30)
_MOST_UPGRADES = 1000
_VERBS = MappingProxyType({ROLLBACK: "rollback", RESTORE: "restore"})
_KINDS = MappingProxyType({"success": "good", "failed": "bad"})
_CODE = re.compile(r"\[([a-z_]+)\]")


@dataclass(frozen=True, slots=True)
class AskedRun:
    """One run. ``given``: the environment as its form has it; ``about``: a collection or a generation, else ""; ``told``: its note."""

    dag_id: str
    run_id: str
    given: str
    verb: str
    about: str
    who: str
    at: str
    state: str
    told: str

    @property
    def address(self) -> str:
        """Return the path of its page in Airflow."""
        return address_of(self.dag_id, self.run_id)

    @property
    def kind(self) -> str:
        """Return the class of how it stands. Where it tells a refusal nothing was done, whatever Airflow calls that."""
        return "bad" if self.code else _KINDS.get(self.state, "busy")

    @property
    def code(self) -> str | None:
        """Return the code of the refusal that its note tells; of several the first."""
        found = _CODE.findall(self.told)
        return next((code for code in found if code != Refused.code), found[0] if found else None)

    @property
    def mark(self) -> str:
        """Return what changes when there is something new to draw."""
        return f"{self.run_id} {self.state} {len(self.told)}"


def asked_lately(user: BaseUser) -> tuple[AskedRun, ...]:
    """Return the runs that the user may see, the newest first."""
    seen = [dag_id for dag_id in (CONTROL, ROLLBACK, RESTORE) if may_see_runs(user, dag_id)]
    query = (
        select(DagRun)
        .where(DagRun.dag_id.in_(seen), DagRun.run_after >= datetime.now(UTC) - LATELY)
        .order_by(DagRun.run_after.desc(), DagRun.id.desc())
        .limit(_MOST)
    )
    with create_session() as session:
        runs = session.scalars(query).all() if seen else ()
        told = _told(session, runs)
        return tuple(_asked(run, told[run.id]) for run in runs)


def of_place(runs: Iterable[AskedRun], place: Place) -> tuple[AskedRun, ...]:
    """Return those that work on an environment, however their form calls it."""
    names = {place.given} | (set() if place.options else {place.location, place.uri})  # with other options it is another store
    return tuple(run for run in runs if run.given in names)


def unmended(runs: Iterable[AskedRun]) -> tuple[AskedRun, ...]:
    """Return the failed and refused ones that nobody has asked for anew since."""
    return tuple(run for run in _newest(runs) if run.kind == "bad")


def failed_upgrades(user: BaseUser) -> tuple[AskedRun, ...]:
    """Return the newest failed run of each upgrade DAG and environment, of those that the user may see, until one succeeded since."""
    dags = {dag.dag_id: dag for dag in upgrade_dags()}
    query = (
        select(DagRun)
        .where(DagRun.dag_id.in_(dags), DagRun.state.in_(_KINDS), DagRun.run_after >= datetime.now(UTC) - _UNMENDED)
        .order_by(DagRun.run_after.desc(), DagRun.id.desc())
        .limit(_MOST_UPGRADES)
    )
    newest: dict[tuple[str, str], DagRun] = {}
    with create_session() as session:
        for run in session.scalars(query) if dags else ():
            newest.setdefault((run.dag_id, dags[run.dag_id].given(_form(run))), run)
        failed = [(given, run) for (dag_id, given), run in newest.items() if _state(run) == "failed" and may_see_runs(user, dag_id)]
        told = _told(session, [run for _, run in failed])
        found = [_asked(run, told[run.id], "upgrade", given) for given, run in failed]
    return tuple(run if run.given else replace(run, given=environment_of_run(run.dag_id, run.run_id) or "") for run in found)


def unclaimed(runs: Iterable[AskedRun], claims: Iterable[str]) -> tuple[AskedRun, ...]:
    """Return the runs that have claimed no generation: of the others the deployment tells."""
    claimed = {claim_of(claim) for claim in claims}
    return tuple(run for run in runs if (run.dag_id, run.run_id) not in claimed)


def run_told(dag_id: str, run_id: str) -> AskedRun | None:
    """Return how one run stands, and what it told."""
    with create_session() as session:
        run = session.scalar(select(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
        return None if run is None else _asked(run, _told(session, [run])[run.id])


def _told(session: Session, runs: Iterable[DagRun]) -> dict[int, str]:
    """Return what each run told last, by the id of its row; "" where it told nothing."""
    ids = [run.id for run in runs]
    found = last_sentences(session, ids)
    return {number: found.get(number, "").removeprefix(MARK) for number in ids}


def _newest(runs: Iterable[AskedRun]) -> Iterator[AskedRun]:
    known = set()
    for run in runs:
        if (same := (run.verb, run.about)) not in known:
            known.add(same)
            yield run


def _form(run: DagRun) -> dict[str, Any]:
    return run.conf if isinstance(run.conf, dict) else {}


def _state(run: DagRun) -> str:
    return str(getattr(run.state, "value", run.state))


def _asked(run: DagRun, told: str, verb: str = "", given: str = "") -> AskedRun:
    conf = _form(run)
    verb = verb or _VERBS.get(run.dag_id) or str(conf.get("action") or "")
    subject = conf.get("collection") or (f"generation {conf['generation']}" if conf.get("generation") else "")
    return AskedRun(
        dag_id=run.dag_id,
        run_id=run.run_id,
        given=given or str(conf.get("environment") or conf.get("target") or ""),
        verb=verb,
        about=blank_typed(str(subject)),
        who=run.triggering_user_name or "",
        at=run.run_after.isoformat(),
        state=_state(run),
        told=told,
    )
