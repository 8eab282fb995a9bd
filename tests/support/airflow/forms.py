"""What a person has to say to a shipped DAG: the fields that have no default, with something that is taken."""

from __future__ import annotations

from typing import Any

SAID: dict[str, dict[str, Any]] = {
    "schemamig_alter": {"statement": "ALTER TABLE flights ADD COLUMN gate STRING"},
    "schemamig_approve": {"generation": 7, "plan": "d" * 64},
    "schemamig_cancel": {"generation": 7},
    "schemamig_end_hold": {"generation": 7},
    "schemamig_force": {"collection": "flights"},
    "schemamig_pin": {"collection": "flights", "hours": 400},
    "schemamig_restore": {"collection": "flights"},
    "schemamig_revert": {"collection": "flights"},
    "schemamig_unmanage": {"collection": "flights"},
    "schemamig_unpin": {"collection": "flights"},
}
