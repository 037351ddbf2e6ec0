# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Documents as validated, frozen models; errors name the file, the key, what was found and expected."""

from __future__ import annotations

import ast
import inspect
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

from remote_inference.base.documents.problems import (
    describe_problems,
    find_no_text,
    show_value,
    with_sequences,
)
from remote_inference.base.documents.registry import DECLARED_PATTERN, PLACE_PATTERN, Registry
from remote_inference.base.documents.yaml_text import explain_yaml_error, load_yaml
from remote_inference.base.errors import UserError

# -- Marked values: places of a document that a person has to fill in before the document loads ----------

FILL_IN = "FILL_IN"  # a text that begins so is marked; what is expected there follows


def mark(expected: str) -> str:
    """Return the value that stands where `expected` is to be filled in."""
    return f"{FILL_IN}: {' '.join(expected.split())}"


def find_marks(content: Any, place: str = "") -> list[str]:
    """Return a line for each marked value of a document's content: the place, and what is expected there."""
    if isinstance(content, str) and content.startswith(FILL_IN):
        expected = content.removeprefix(FILL_IN).lstrip(": ") or "a value"
        return [f"{place}: to be filled in, expected {expected}"]
    items: Any = ()
    if isinstance(content, dict):
        items = content.items()
    elif isinstance(content, list):
        items = enumerate(content)
    return [line for key, item in items for line in find_marks(item, f"{place}.{key}" if place else str(key))]


Model = TypeVar("Model", bound="Document")


class DocumentError(UserError):
    """A document is missing, unreadable or invalid; one line per problem."""


class Document(BaseModel):
    """Base of everything read from YAML or JSON: unknown keys are errors, values are not coerced.

    A key is described by the text below it in its class, which `every_key` and the JSON schema show.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @classmethod
    def every_key(cls) -> Mapping[str, FieldInfo]:
        """Return the keys that the document may have, with their descriptions."""
        for owner in reversed(cls.__mro__):
            texts = _texts_below(owner) if issubclass(owner, Document) else {}
            for key in texts.keys() & cls.model_fields.keys():
                cls.model_fields[key].description = texts[key]
        return cls.model_fields

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        made = handler(schema)
        properties = handler.resolve_ref_schema(made).get("properties", {})
        for key, field in cls.every_key().items():
            if key in properties and field.description:
                properties[key]["description"] = field.description
        return made


@cache  # pydantic would read the source of each class as it is imported, which takes longer than the import
def _texts_below(owner: type[Document]) -> Mapping[str, str]:
    """Return the text below each key that a class declares, on one line; none where it has no source."""
    try:
        (declared,) = ast.parse(dedent(inspect.getsource(owner))).body
    except (OSError, TypeError):
        return {}
    assert isinstance(declared, ast.ClassDef)
    return {
        key.target.id: " ".join(text.value.value.split())
        for key, text in pairwise(declared.body)
        if isinstance(key, ast.AnnAssign) and isinstance(key.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
        if isinstance(text.value.value, str)
    }


class ForeignDocument(Document):
    """Of a file of another program, only the keys that are needed are read."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


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
        return load_yaml(text)
    except yaml.YAMLError as error:
        raise DocumentError(f"{source}: is not valid YAML: {explain_yaml_error(error)}") from error
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
        if problems := find_no_text(content):
            raise DocumentError("\n".join(f"{source}: {line}" for line in problems))
        # Tuples: strict validation keeps 'true' from becoming 1.0, but also refuses lists.
        return model.model_validate(with_sequences(content, tuple))
    except ValidationError as error:
        raise DocumentError(describe_problems(source, model, error.errors())) from None
    except RecursionError:
        raise DocumentError(f"{source}: is nested too deeply") from None


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        ((twice, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"key {twice!r} found twice")
    return content
