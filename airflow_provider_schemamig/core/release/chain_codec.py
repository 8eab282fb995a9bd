"""A chain as JSON and back, exactly: it is stored with the deployment, so that no later task needs the release folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_schemamig.core.jsonable import from_json, to_json
from airflow_provider_schemamig.core.release.merged import Chain


def chain_to_json(chain: Chain) -> dict[str, Any]:
    """A JSON object; ``chain_from_json`` gives an equal chain."""
    data: dict[str, Any] = to_json(chain)
    return data


def chain_from_json(data: Mapping[str, Any]) -> Chain:
    """Raises ValueError, KeyError or TypeError if ``data`` is not a chain, InvalidName for a version that is none."""
    chain: Chain = from_json(Chain, data)
    return chain
