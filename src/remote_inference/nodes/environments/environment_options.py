# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The parameters by which nodes name an environment and its options."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import Field

from remote_inference.nodes.runtime import StartupError

EnvironmentName = Annotated[
    str, Field(description="built-in name, gymnasium:<id>, package.module:attribute or an entry point")
]
EnvironmentOptions = Annotated[
    str, Field(description='options of the environment, as JSON: `{"mapping": "pusht.yaml"}`')
]


def read_options(text: str) -> dict[str, Any]:
    """Return the options in the parameter's text. Raises StartupError for anything but a JSON object."""
    try:
        options = json.loads(text)
    except ValueError as error:
        raise StartupError(f"parameter options: found {text!r}, expected JSON: {error}") from error
    if not isinstance(options, dict):
        raise StartupError(f"parameter options: found {text!r}, expected a JSON object")
    return options
