"""The one door into the core: every verb of the command line and of Airflow as a function.

A verb's home is imported when it is first asked for: who only pauses an environment pays for no planner.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider_schemamig.core.ledger.admin.backup import backup as backup_ledger
    from airflow_provider_schemamig.core.ledger.admin.backup import restore as restore_ledger
    from airflow_provider_schemamig.core.ledger.admin.edit import edit_row
    from airflow_provider_schemamig.core.ledger.admin.maintenance import compact as compact_ledger
    from airflow_provider_schemamig.core.ledger.admin.maintenance import dump as dump_ledger
    from airflow_provider_schemamig.core.ledger.admin.size import size as ledger_size
    from airflow_provider_schemamig.core.ledger.admin.verify_tables import verify_ledger
    from airflow_provider_schemamig.core.ledger.history import read_history
    from airflow_provider_schemamig.core.ledger.store import read_state
    from airflow_provider_schemamig.core.release.authoring.new import new as new_release
    from airflow_provider_schemamig.core.release.authoring.new import rebase as rebase_release
    from airflow_provider_schemamig.core.release.authoring.scaffold import init as init_release
    from airflow_provider_schemamig.core.release.authoring.scaffold import snapshot as snapshot_release
    from airflow_provider_schemamig.core.release.check import load_checked
    from airflow_provider_schemamig.core.release.lint.run import review
    from airflow_provider_schemamig.core.replication.cluster.registry import exchange, refresh
    from airflow_provider_schemamig.core.replication.cluster.status import cluster_status, schema_status
    from airflow_provider_schemamig.core.replication.replicate import follow, replicate_once
    from airflow_provider_schemamig.core.replication.restore.restore import restore as restore_rows
    from airflow_provider_schemamig.core.replication.restore_all import restore_all
    from airflow_provider_schemamig.core.replication.stream.stored_state import read_states as stream_states
    from airflow_provider_schemamig.core.replication.stream.stored_state import wake
    from airflow_provider_schemamig.core.replication.watch import look, mismatches
    from airflow_provider_schemamig.core.schema.diff.compare import diff
    from airflow_provider_schemamig.core.spark.jars import fetch as fetch_jars
    from airflow_provider_schemamig.core.spark.jars import verified as verified_jars
    from airflow_provider_schemamig.core.testing.rehearse import rehearsal
    from airflow_provider_schemamig.core.testing.rows.fixtures import write_fixtures
    from airflow_provider_schemamig.core.testing.run_all import run_all
    from airflow_provider_schemamig.core.upgrade.adopt.adopt import adopt
    from airflow_provider_schemamig.core.upgrade.alter import alter, plan_alter
    from airflow_provider_schemamig.core.upgrade.compare_and_evolve import compare_and_evolve_schema
    from airflow_provider_schemamig.core.upgrade.context.controls import force, pause, postpone, resume, still_paused, throttle
    from airflow_provider_schemamig.core.upgrade.documents.deployment import deployment_document
    from airflow_provider_schemamig.core.upgrade.documents.drift import drift_document
    from airflow_provider_schemamig.core.upgrade.documents.history import history_document, last_failure
    from airflow_provider_schemamig.core.upgrade.documents.report_file import write_report_file
    from airflow_provider_schemamig.core.upgrade.documents.rollback import rollback_document
    from airflow_provider_schemamig.core.upgrade.documents.table import table_document
    from airflow_provider_schemamig.core.upgrade.drift.accept import accept
    from airflow_provider_schemamig.core.upgrade.drift.revert import revert
    from airflow_provider_schemamig.core.upgrade.drift.unmanage import unmanage
    from airflow_provider_schemamig.core.upgrade.ledger_format import upgrade_ledger
    from airflow_provider_schemamig.core.upgrade.rebuild.rebuild import rebuild as rebuild_ledger
    from airflow_provider_schemamig.core.upgrade.table_changes import table_changes, tables_now
    from airflow_provider_schemamig.core.upgrade.tables.pins import pin, unpin
    from airflow_provider_schemamig.core.upgrade.tasks.gate import approve, meet_rejection, reject
    from airflow_provider_schemamig.core.upgrade.tasks.leader import (
        cancel,
        change,
        cleanup,
        compact,
        contract,
        cutover,
        expand,
        promote,
        rollback,
    )
    from airflow_provider_schemamig.core.upgrade.tasks.read_only import (
        approved,
        behind,
        fill,
        followed,
        open_claims,
        plan,
        plan_digest,
        preflight,
        schema_age,
        status,
        tail,
        to_change,
    )
    from airflow_provider_schemamig.core.upgrade.tasks.upgrade import go_through, upgrade
    from airflow_provider_schemamig.core.upgrade.verify.verify import verify_environment
    from airflow_provider_schemamig.core.upgrade.verify.watch_keys import watch_keys

#: The verb, the module of ``core`` that it lives in, and its name there.
_HOMES = {
    "accept": ("upgrade.drift.accept", "accept"),
    "adopt": ("upgrade.adopt.adopt", "adopt"),
    "alter": ("upgrade.alter", "alter"),
    "approve": ("upgrade.tasks.gate", "approve"),
    "approved": ("upgrade.tasks.read_only", "approved"),
    "backup_ledger": ("ledger.admin.backup", "backup"),
    "behind": ("upgrade.tasks.read_only", "behind"),
    "cancel": ("upgrade.tasks.leader", "cancel"),
    "change": ("upgrade.tasks.leader", "change"),
    "cleanup": ("upgrade.tasks.leader", "cleanup"),
    "cluster_status": ("replication.cluster.status", "cluster_status"),
    "compact": ("upgrade.tasks.leader", "compact"),
    "compact_ledger": ("ledger.admin.maintenance", "compact"),
    "compare_and_evolve_schema": ("upgrade.compare_and_evolve", "compare_and_evolve_schema"),
    "contract": ("upgrade.tasks.leader", "contract"),
    "cutover": ("upgrade.tasks.leader", "cutover"),
    "deployment_document": ("upgrade.documents.deployment", "deployment_document"),
    "diff": ("schema.diff.compare", "diff"),
    "drift_document": ("upgrade.documents.drift", "drift_document"),
    "dump_ledger": ("ledger.admin.maintenance", "dump"),
    "edit_row": ("ledger.admin.edit", "edit_row"),
    "exchange": ("replication.cluster.registry", "exchange"),
    "expand": ("upgrade.tasks.leader", "expand"),
    "fetch_jars": ("spark.jars", "fetch"),
    "fill": ("upgrade.tasks.read_only", "fill"),
    "follow": ("replication.replicate", "follow"),
    "followed": ("upgrade.tasks.read_only", "followed"),
    "force": ("upgrade.context.controls", "force"),
    "go_through": ("upgrade.tasks.upgrade", "go_through"),
    "history_document": ("upgrade.documents.history", "history_document"),
    "init_release": ("release.authoring.scaffold", "init"),
    "last_failure": ("upgrade.documents.history", "last_failure"),
    "ledger_size": ("ledger.admin.size", "size"),
    "load_checked": ("release.check", "load_checked"),
    "look": ("replication.watch", "look"),
    "meet_rejection": ("upgrade.tasks.gate", "meet_rejection"),
    "mismatches": ("replication.watch", "mismatches"),
    "new_release": ("release.authoring.new", "new"),
    "open_claims": ("upgrade.tasks.read_only", "open_claims"),
    "pause": ("upgrade.context.controls", "pause"),
    "pin": ("upgrade.tables.pins", "pin"),
    "plan": ("upgrade.tasks.read_only", "plan"),
    "plan_alter": ("upgrade.alter", "plan_alter"),
    "plan_digest": ("upgrade.tasks.read_only", "plan_digest"),
    "postpone": ("upgrade.context.controls", "postpone"),
    "preflight": ("upgrade.tasks.read_only", "preflight"),
    "promote": ("upgrade.tasks.leader", "promote"),
    "read_history": ("ledger.history", "read_history"),
    "rebase_release": ("release.authoring.new", "rebase"),
    "rebuild_ledger": ("upgrade.rebuild.rebuild", "rebuild"),
    "refresh": ("replication.cluster.registry", "refresh"),
    "read_state": ("ledger.store", "read_state"),
    "rehearsal": ("testing.rehearse", "rehearsal"),
    "reject": ("upgrade.tasks.gate", "reject"),
    "replicate_once": ("replication.replicate", "replicate_once"),
    "restore_all": ("replication.restore_all", "restore_all"),
    "restore_ledger": ("ledger.admin.backup", "restore"),
    "restore_rows": ("replication.restore.restore", "restore"),
    "resume": ("upgrade.context.controls", "resume"),
    "revert": ("upgrade.drift.revert", "revert"),
    "review": ("release.lint.run", "review"),
    "rollback": ("upgrade.tasks.leader", "rollback"),
    "rollback_document": ("upgrade.documents.rollback", "rollback_document"),
    "run_all": ("testing.run_all", "run_all"),
    "schema_age": ("upgrade.tasks.read_only", "schema_age"),
    "schema_status": ("replication.cluster.status", "schema_status"),
    "snapshot_release": ("release.authoring.scaffold", "snapshot"),
    "status": ("upgrade.tasks.read_only", "status"),
    "still_paused": ("upgrade.context.controls", "still_paused"),
    "stream_states": ("replication.stream.stored_state", "read_states"),
    "table_changes": ("upgrade.table_changes", "table_changes"),
    "table_document": ("upgrade.documents.table", "table_document"),
    "tables_now": ("upgrade.table_changes", "tables_now"),
    "tail": ("upgrade.tasks.read_only", "tail"),
    "throttle": ("upgrade.context.controls", "throttle"),
    "to_change": ("upgrade.tasks.read_only", "to_change"),
    "unmanage": ("upgrade.drift.unmanage", "unmanage"),
    "unpin": ("upgrade.tables.pins", "unpin"),
    "upgrade": ("upgrade.tasks.upgrade", "upgrade"),
    "upgrade_ledger": ("upgrade.ledger_format", "upgrade_ledger"),
    "verified_jars": ("spark.jars", "verified"),
    "verify_environment": ("upgrade.verify.verify", "verify_environment"),
    "verify_ledger": ("ledger.admin.verify_tables", "verify_ledger"),
    "wake": ("replication.stream.stored_state", "wake"),
    "watch_keys": ("upgrade.verify.watch_keys", "watch_keys"),
    "write_fixtures": ("testing.rows.fixtures", "write_fixtures"),
    "write_report_file": ("upgrade.documents.report_file", "write_report_file"),
}

__all__ = [
    "accept",
    "adopt",
    "alter",
    "approve",
    "approved",
    "backup_ledger",
    "behind",
    "cancel",
    "change",
    "cleanup",
    "cluster_status",
    "compact",
    "compact_ledger",
    "compare_and_evolve_schema",
    "contract",
    "cutover",
    "deployment_document",
    "diff",
    "drift_document",
    "dump_ledger",
    "edit_row",
    "exchange",
    "expand",
    "fetch_jars",
    "fill",
    "follow",
    "followed",
    "force",
    "go_through",
    "history_document",
    "init_release",
    "last_failure",
    "ledger_size",
    "load_checked",
    "look",
    "meet_rejection",
    "mismatches",
    "new_release",
    "open_claims",
    "pause",
    "pin",
    "plan",
    "plan_alter",
    "plan_digest",
    "postpone",
    "preflight",
    "promote",
    "read_history",
    "read_state",
    "rebase_release",
    "rebuild_ledger",
    "refresh",
    "rehearsal",
    "reject",
    "replicate_once",
    "restore_all",
    "restore_ledger",
    "restore_rows",
    "resume",
    "revert",
    "review",
    "rollback",
    "rollback_document",
    "run_all",
    "schema_age",
    "schema_status",
    "snapshot_release",
    "status",
    "still_paused",
    "stream_states",
    "table_changes",
    "table_document",
    "tables_now",
    "tail",
    "throttle",
    "to_change",
    "unmanage",
    "unpin",
    "upgrade",
    "upgrade_ledger",
    "verified_jars",
    "verify_environment",
    "verify_ledger",
    "wake",
    "watch_keys",
    "write_fixtures",
    "write_report_file",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home, own = _HOMES[name]
    return getattr(import_module(f"{__package__}.{home}"), own)
