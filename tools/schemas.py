# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""JSON Schema files of the YAML files that people write, for completion and checks in editors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import Document
from remote_inference.learn.evaluation.document import Evaluation
from remote_inference.server.manifest.manifest import Manifest

FOLDER = Path(__file__).parents[1] / "config" / "schema"


def _make_schema(model: type[Document]) -> str:
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema()}
    return json.dumps(_without_titles(schema), indent=2, ensure_ascii=False) + "\n"


def _without_titles(value: Any) -> Any:
    """Leave out the titles, which only say a key's name again."""
    if isinstance(value, dict):
        return {key: _without_titles(item) for key, item in value.items() if not _is_title(key, item)}
    return [_without_titles(item) for item in value] if isinstance(value, list) else value


def _is_title(key: str, item: Any) -> bool:
    return key == "title" and isinstance(item, str)  # a key of ours called title would hold a schema


SCHEMAS = {
    "contract.schema.json": _make_schema(Contract),
    "evaluation.schema.json": _make_schema(Evaluation),
    "manifest.schema.json": _make_schema(Manifest),
}
