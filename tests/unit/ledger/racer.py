"""A process that appends to a ledger until it is told to stop or is killed: ``python -m tests.unit.ledger.racer URI NAME JOURNAL``.

With ``--bare`` it appends without waiting for its turn, so that appends collide. Each append counts a shared counter up by one and adds
a row of its own. The journal, flushed line by line, is what the process knows:
``try <commit id>`` before a commit is sent, ``done <version> <count>`` once it was acknowledged. It ends when standard input is closed.
"""

from __future__ import annotations

import os
import random
import select
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from airflow_provider_schemamig.core.ledger.errors import LedgerConflict
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerWriter, Put, Update
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from tests.unit.ledger.samples import counter

COUNTER = CollectionName("counter")
Append = Callable[[LedgerWriter, str], State]


def run(uri: str, name: str, journal: Path, append: Append, *, wait: bool) -> None:
    with journal.open("a", buffering=1) as log:

        def note(moment: str, what: str, key: str) -> None:
            if (moment, what) == ("before", "ledger"):
                log.write(f"try {key}\n")

        writer = LedgerWriter(replace(EnvironmentRoot.open(uri), on_write=note))
        if wait:
            writer.create(name)
            log.write(f"ready {writer.state().config.env_id}\n")
            sys.stdin.readline()
        number = 0
        while not _stopped():
            number += 1
            state = append(writer, f"{name}_{os.getpid()}_{number}")
            log.write(f"done {state.version} {state.objects[COUNTER].schema_id}\n")


def in_turn(writer: LedgerWriter, key: str) -> State:
    return writer.transact(lambda state: _decide(state, key))


def bare(writer: LedgerWriter, key: str) -> State:
    while True:
        state = writer.state()
        try:
            return writer.compare_and_append(state, _decide(state, key))
        except LedgerConflict:
            time.sleep(random.uniform(0, 0.02))


def _decide(state: State, key: str) -> Sequence[Update]:
    row = state.objects.get(COUNTER)
    count = row.schema_id + 1 if row else 1
    return [Put(counter(count)), Put(counter(count, key))]


def _stopped() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], Path(sys.argv[3]), bare if "--bare" in sys.argv else in_turn, wait="--wait" in sys.argv)
