"""What Airflow learns about this package when it discovers providers.

Must not import Airflow: discovery runs before Airflow's configuration is ready.
"""

from __future__ import annotations

from typing import Any

from airflow_provider_schemamig.config import OPTIONS, SECTION

PACKAGE = "airflow-provider-schemamig"
INTEGRATION = "schemamig"


_PLACEHOLDERS = {
    "environment_uri": "s3://lake/prod",
    "spark_conn_id": "spark_default",
    "storage_options": '{"aws_region": "eu-central-1"}',
    "spark_conf": '{"spark.executor.memory": "4g"}',
    "spark_jars": "/opt/jars/hadoop-aws-3.5.0.jar,/opt/jars/bundle-2.35.4.jar",
    "storage_secrets": '{"aws_access_key_id": "...", "aws_secret_access_key": "..."}',
}


def get_provider_info() -> dict[str, Any]:
    """Return provider info in the shape of ``airflow/provider_info.schema.json`` (entry point ``apache_airflow_provider``)."""
    return {
        "package-name": PACKAGE,
        "name": "schemamig",
        "description": "Schema upgrades of Delta lakes, from one release of a data product to the next.",
        "integrations": [{"integration-name": INTEGRATION, "tags": ["software"]}],
        "operators": _modules(
            "operators.read_only",
            "operators.gate",
            "operators.leader",
            "operators.rollback",
            "operators.alter",
            "operators.compaction",
            "operators.verification",
            "operators.control",
            "operators.drift",
            "operators.ledger",
            "operators.replicas",
        ),
        "sensors": _modules("sensors.fingerprint", "sensors.promotion", "sensors.replicas"),
        "hooks": _modules("hooks.schemamig", "hooks.spark"),
        "triggers": _modules("triggers.ledger", "triggers.replicas"),
        "notifications": ["airflow_provider_schemamig.notifications.schemamig.SchemamigNotifier"],
        "extra-links": [
            "airflow_provider_schemamig.links.plan.PlanLink",
            "airflow_provider_schemamig.links.deployment.DeploymentLink",
        ],
        "connection-types": [_connection_type()],
        "asset-uris": [
            {
                "schemes": ["schemamig"],
                "handler": "airflow_provider_schemamig.assets.schemamig.sanitize_uri",
                "factory": "airflow_provider_schemamig.assets.schemamig.table_asset",
                "to_openlineage_converter": "airflow_provider_schemamig.assets.schemamig.to_openlineage",
            }
        ],
        "config": {
            SECTION: {
                "description": "Defaults of schemamig's operators, sensors and shipped DAGs.",
                "options": {option.name: option.to_provider_info() for option in OPTIONS},
            }
        },
    }


def _modules(*names: str) -> list[dict[str, Any]]:
    modules = [f"airflow_provider_schemamig.{name}" for name in names]
    return [{"integration-name": INTEGRATION, "python-modules": modules}]


def _connection_type() -> dict[str, Any]:
    """Describe the connection form. Everything is an extra: Airflow's own URI form of a connection would damage a URI in the host field."""
    return {
        "connection-type": "schemamig",
        "hook-class-name": "airflow_provider_schemamig.hooks.schemamig.SchemamigHook",
        "hook-name": "schemamig environment",
        "ui-field-behaviour": {
            "hidden-fields": ["host", "schema", "login", "password", "port"],
            "relabeling": {},
            "placeholders": _PLACEHOLDERS,
        },
        "conn-fields": {
            "environment_uri": _field("Environment URI", "Root of the environment: a path, or a file, s3, gs, abfs(s) or az URI."),
            "spark_conn_id": _field(
                "Spark connection",
                "Connection of type spark (spark-submit) or spark_connect. Empty or 'local': Spark inside the task's process.",
            ),
            "storage_options": _field(
                "Storage options",
                "JSON object of object store settings, as delta-rs takes them, without credentials: this field is shown.",
            ),
            "storage_secrets": _field(
                "Storage secrets",
                "JSON object of the object store's credentials, as delta-rs takes them. Airflow hides it.",
                format="password",
            ),
            "spark_conf": _field(
                "Spark settings",
                "JSON object of settings for Spark in the task's process or by spark-submit. No credentials: this field is shown.",
            ),
            "spark_jars": _field("Spark JARs", "JARs for Spark beside Delta's, with commas between: paths or URIs."),
        },
    }


def _field(label: str, description: str, **schema: str) -> dict[str, Any]:
    return {"label": label, "description": description, "schema": {"type": ["string", "null"], **schema}}
