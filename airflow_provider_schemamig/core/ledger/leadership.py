"""Who leads: what a leader-mode append is made under, and the refusal of who does not lead any more."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_schemamig.core.delta.commit.fence import Fenced
from airflow_provider_schemamig.core.ledger.errors import LedByAnother
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import Epoch, Generation


@dataclass(frozen=True)
class Leadership:
    """What a leader-mode append is made under."""

    generation: Generation
    epoch: Epoch


def check_authority(state: State, authority: Leadership) -> None:
    """Raise Fenced unless the leader row says that this generation leads in this epoch."""
    leader = state.leader
    if leader is None or (leader.generation, leader.epoch) != (authority.generation, authority.epoch):
        raise overtaken(state, authority.generation, authority.epoch)


def overtaken(state: State, generation: Generation, held: Epoch) -> Fenced:
    """Return the error of a generation that does not lead, or not in the epoch it ``held``; it names the one that does."""
    leader = state.leader
    winner = state.deployments.get(leader.generation) if leader is not None else None
    if leader is None or winner is None or leader.generation == generation:
        return Fenced(what=f"generation {generation}", held_epoch=held, current_epoch=leader.epoch if leader else Epoch(0))
    return LedByAnother(
        what=f"generation {generation}",
        held_epoch=held,
        current_epoch=leader.epoch,
        winner=leader.generation,
        does=f"{winner.source or 'a new environment'} -> {winner.target}, {winner.state.value}",
        since=leader.since.to_datetime_string() + " UTC",
        by=f"{winner.promoted_by or 'somebody'}, claimed as {winner.claim_id}",
    )
