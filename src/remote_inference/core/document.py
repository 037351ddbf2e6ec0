# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""YAML documents as validated, frozen models; errors name the file, the key, what was found and expected."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

from remote_inference.core.registry import Registry

MERGE_TAG = "tag:yaml.org,2002:merge"  # of the key `<<`

Model = TypeVar("Model", bound="Document")


class DocumentError(Exception):
    """A YAML document is missing, unreadable or invalid; one line per problem."""


class Document(BaseModel):
    """Base of everything read from YAML: unknown keys are errors, values are not coerced."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


@dataclass(frozen=True)
class NameIn:
    """Annotates a string: the name of an entry of a registry, whatever has been added to it by then."""

    registry: Registry[Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.registry.check)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"type": "string", "enum": list(self.registry.names)}


def allowed_names(field: FieldInfo) -> tuple[str, ...]:
    """Return the names of which a field takes one; empty for a field without NameIn."""
    return next((mark.registry.names for mark in field.metadata if isinstance(mark, NameIn)), ())


def load_document(path: str | Path, model: type[Model]) -> Model:
    """Read and validate one YAML file.

    Raises DocumentError with file, key, what was found and what was expected.
    """
    return parse_document(read_yaml(path), model, str(path))


def read_yaml(path: str | Path) -> Any:
    """Return the content of one YAML file, unchecked. Raises DocumentError when it is none."""
    path = Path(path)
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _UniqueKeyLoader)
    except OSError as error:
        raise DocumentError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DocumentError(f"{path}: is not UTF-8 text (byte {error.start})") from error
    except yaml.YAMLError as error:
        raise DocumentError(f"{path}: is not valid YAML: {' '.join(str(error).split())}") from error


def parse_document(content: Any, model: type[Model], source: str) -> Model:
    """Validate the parsed content of a document; `source` names it in errors."""
    if not isinstance(content, dict):
        raise DocumentError(f"{source}: found {_show(content)}, expected a mapping of keys")
    try:
        return model.model_validate(_with_tuples(content))
    except ValidationError as error:
        problems = error.errors()
        places = [problem["loc"] for problem in problems]
        # A list with an invalid item is reported as too short as well: the item says it all.
        innermost = [p for p in problems if not any(_encloses(p["loc"], place) for place in places)]
        raise DocumentError("\n".join(_describe(source, problem) for problem in innermost)) from None


class _UniqueKeyLoader(yaml.SafeLoader):
    """YAML keeps the last of two equal keys, which would hide the one a reader sees first."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != MERGE_TAG:
                if key.value in seen:
                    text = f"key {key.value!r} found twice"
                    raise yaml.constructor.ConstructorError(None, None, text, key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def _encloses(place: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return len(place) < len(other) and other[: len(place)] == place


def _with_tuples(value: Any) -> Any:
    """Strict validation keeps 'true' from becoming 1.0, but also refuses a list for a tuple."""
    if isinstance(value, dict):
        return {key: _with_tuples(item) for key, item in value.items()}
    if isinstance(value, list):
        return tuple(_with_tuples(item) for item in value)
    return value


def _describe(source: str, problem: Any) -> str:
    key = ".".join(str(part) for part in problem["loc"])
    where = f"{source}: {key}" if key else source
    kind = problem["type"]
    if kind == "missing":
        return f"{where}: missing, expected a value"
    if kind == "extra_forbidden":
        return f"{where}: unknown key"
    if kind == "value_error":  # raised by a validator of ours, which says found and expected itself
        return f"{where}: {problem['ctx']['error']}"
    if kind == "too_short":
        context = problem["ctx"]
        return f"{where}: found {context['actual_length']} items, expected at least {context['min_length']}"
    expected = str(problem["msg"]).removeprefix("Input should be ")
    return f"{where}: found {_show(problem['input'])}, expected {expected}"


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
