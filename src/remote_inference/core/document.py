# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""YAML documents as validated, frozen models; errors name the file, the key, what was found and expected."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

Model = TypeVar("Model", bound="Document")


class DocumentError(Exception):
    """A YAML document is missing, unreadable or invalid; one line per problem."""


class Document(BaseModel):
    """Base of everything read from YAML: unknown keys are errors, values are not coerced."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def load_document(path: str | Path, model: type[Model]) -> Model:
    """Read and validate one YAML file.

    Raises DocumentError with file, key, what was found and what was expected.
    """
    path = Path(path)
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DocumentError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DocumentError(f"{path}: is not UTF-8 text (byte {error.start})") from error
    except yaml.YAMLError as error:
        raise DocumentError(f"{path}: is not valid YAML: {' '.join(str(error).split())}") from error
    return parse_document(content, model, str(path))


def parse_document(content: Any, model: type[Model], source: str) -> Model:
    """Validate the parsed content of a document; `source` names it in errors."""
    if not isinstance(content, dict):
        raise DocumentError(f"{source}: found {_show(content)}, expected a mapping of keys")
    try:
        return model.model_validate(_with_tuples(content))
    except ValidationError as error:
        raise DocumentError("\n".join(_describe(source, problem) for problem in error.errors())) from None


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
    expected = str(problem["msg"]).removeprefix("Input should be ")
    return f"{where}: found {_show(problem['input'])}, expected {expected}"


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
