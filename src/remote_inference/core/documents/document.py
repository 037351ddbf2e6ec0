# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Documents as validated, frozen models; errors name the file, the key, what was found and expected."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

from remote_inference.core.documents.marks import find_marks
from remote_inference.core.documents.problems import describe_problems, show_value
from remote_inference.core.documents.registry import DECLARED_PATTERN, PLACE_PATTERN, Registry
from remote_inference.errors import UserError

MERGE_TAG = "tag:yaml.org,2002:merge"  # of the key `<<`
MAX_DEPTH = 50  # of nested values; a contract has five
TOO_DEEP = f"it is nested too deeply, expected at most {MAX_DEPTH} levels"
MAX_VALUES = (
    100_000  # of a document with its aliases (`*name`) written out: a few lines can stand for billions
)

Model = TypeVar("Model", bound="Document")


class DocumentError(UserError):
    """A document is missing, unreadable or invalid; one line per problem."""


class Document(BaseModel):
    """Base of everything read from YAML or JSON: unknown keys are errors, values are not coerced."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @classmethod
    def every_key(cls) -> Mapping[str, FieldInfo]:
        """Return the keys that the document may have."""
        return cls.model_fields


@dataclass(frozen=True)
class NameIn:
    """Annotates a string that names an entry of a registry; entries may be added until it is validated."""

    registry: Registry[Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.registry.check)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        names = {"type": "string", "enum": list(self.registry.names)}
        patterns = [PLACE_PATTERN] if self.registry.takes_places else []
        patterns += [DECLARED_PATTERN] if self.registry.group else []
        if not patterns:
            return names
        return {"anyOf": [names, *({"type": "string", "pattern": pattern} for pattern in patterns)]}


def allowed_names(field: FieldInfo) -> tuple[str, ...]:
    """Return the built-in names that a field accepts; empty for a field without NameIn."""
    return next((mark.registry.names for mark in field.metadata if isinstance(mark, NameIn)), ())


def load_document(path: str | Path, model: type[Model]) -> Model:
    """Read and validate one file.

    Raises DocumentError with file, key, what was found and what was expected.
    """
    return parse_document(read_yaml(path), model, str(path))


def read_yaml(path: str | Path) -> Any:
    """Return the unchecked content of a YAML file, or of a JSON file by its suffix.

    Raises DocumentError when the file cannot be read or parsed.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise DocumentError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DocumentError(f"{path}: is not UTF-8 text (byte {error.start})") from error
    if path.suffix == ".json":
        return parse_json(text, str(path))
    return parse_yaml(text, str(path))


def parse_yaml(text: str, source: str) -> Any:
    """Return the unchecked content of a YAML text.

    Raises DocumentError naming `source` for invalid YAML, and for aliases that hold themselves or stand for
    more than MAX_VALUES values.
    """
    try:
        return yaml.load(text, _UniqueKeyLoader)
    except yaml.YAMLError as error:
        raise DocumentError(f"{source}: is not valid YAML: {_explain_yaml(error)}") from error
    except RecursionError:
        raise DocumentError(f"{source}: is not valid YAML: it is nested too deeply") from None
    except Exception as error:  # PyYAML's constructors raise what int(), date() and others raise
        raise DocumentError(f"{source}: is not valid YAML: {error}") from error


def parse_json(text: str | bytes, source: str) -> Any:
    """Return the unchecked content of a JSON text. Raises DocumentError naming `source` for invalid JSON."""
    try:
        return json.loads(text, object_pairs_hook=_unique_keys)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise DocumentError(f"{source}: is not valid JSON: {place}: {error.msg}") from error
    except UnicodeDecodeError as error:
        raise DocumentError(f"{source}: is not UTF-8 text (byte {error.start})") from error
    except ValueError as error:
        raise DocumentError(f"{source}: is not valid JSON: {error}") from error
    except RecursionError:
        raise DocumentError(f"{source}: is not valid JSON: it is nested too deeply") from None


def parse_document(content: Any, model: type[Model], source: str) -> Model:
    """Validate the parsed content of a document; `source` names it in errors.

    Raises DocumentError, for a document with marked values with a line for each of them.
    """
    if not isinstance(content, dict):
        raise DocumentError(f"{source}: found {show_value(content)}, expected a mapping of keys")
    try:
        if marks := find_marks(content):
            raise DocumentError("\n".join(f"{source}: {line}" for line in marks))
        return model.model_validate(_with_tuples(content))
    except ValidationError as error:
        raise DocumentError(describe_problems(source, model, error.errors())) from None
    except RecursionError:
        raise DocumentError(f"{source}: is nested too deeply") from None


def _explain_yaml(error: yaml.YAMLError) -> str:
    """Return place and problem on one line, without the name that PyYAML would give the text."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return " ".join(str(error).split())
    mark = error.problem_mark
    context = f", {error.context}" if error.context else ""
    return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}{context}"


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        twice = next(key for index, (key, _) in enumerate(pairs) if key in dict(pairs[:index]))
        raise ValueError(f"key {twice!r} found twice")
    return content


class _UniqueKeyLoader(yaml.SafeLoader):
    """Refuses equal keys: PyYAML keeps the last one, which hides the one that a reader sees first.

    Refuses endless and huge aliases, too: what reads the content would not end. So does deep nesting, on
    which PyYAML spends the square of the depth.
    """

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._depth += 1
        if parent is not None and self._depth > MAX_DEPTH:
            raise yaml.constructor.ConstructorError(None, None, TOO_DEEP, parent.start_mark)
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def get_single_node(self) -> yaml.Node | None:
        node = super().get_single_node()
        if node is not None:
            _count_values(node, {})
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != MERGE_TAG:
                if key.value in seen:
                    text = f"key {key.value!r} found twice"
                    raise yaml.constructor.ConstructorError(None, None, text, key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def _count_values(node: yaml.Node, counts: dict[int, int]) -> int:
    """Return how many values a node holds with its aliases written out. counts: of the nodes seen so far."""
    if isinstance(node, yaml.ScalarNode):
        return 1
    if (known := counts.get(id(node))) is not None:
        if known == 0:  # its own count is under way
            raise yaml.constructor.ConstructorError(None, None, "an alias holds itself", node.start_mark)
        return known
    counts[id(node)] = 0
    pairs = node.value if isinstance(node, yaml.MappingNode) else [(item,) for item in node.value]
    count = 1 + sum(_count_values(item, counts) for pair in pairs for item in pair)
    if count > MAX_VALUES:
        text = f"found {count} values with aliases written out, expected at most {MAX_VALUES}"
        raise yaml.constructor.ConstructorError(None, None, text, node.start_mark)
    counts[id(node)] = count
    return count


def _with_tuples(value: Any) -> Any:
    """Return lists as tuples: strict validation keeps 'true' from becoming 1.0, but also refuses lists."""
    if isinstance(value, dict):
        return {key: _with_tuples(item) for key, item in value.items()}
    if isinstance(value, list):
        return tuple(_with_tuples(item) for item in value)
    return value
