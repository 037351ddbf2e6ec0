# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Makes environments by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from remote_inference.core.environment import EnvError, Environment
from remote_inference.environments import ENVIRONMENTS, SCHEMES
from remote_inference.errors import UserError


def make_environment(name: str, options: Mapping[str, Any]) -> Environment:
    """Make an environment on the calling thread, which then owns it.

    name: a built-in name, `gymnasium:<id>`, `package.module:attribute` or the name of an entry point. Raises
    EnvError when it is unknown, its library is missing or its options do not fit; DocumentError for a file of
    its options.
    """
    scheme, _, rest = name.partition(":")
    try:
        if rest and scheme in SCHEMES.names:
            return SCHEMES.get(scheme)(rest, **options)
        return ENVIRONMENTS.get(name)(**options)
    except UserError:
        raise
    except Exception as error:  # a simulator may raise anything while it loads
        raise EnvError(f"environment {name}: {type(error).__name__}: {error}") from error
