# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Environments by name: robots with tasks that policies can attempt. Each is one file and one line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from remote_inference.base.documents.registry import Registry
from remote_inference.base.errors import UserError

if TYPE_CHECKING:
    from remote_inference.learn.environment import Environment

__all__ = ["ENVIRONMENTS", "MakeEnvironment", "make_environment"]

GROUP = "remote_inference.environments"  # of the entry points by which other distributions add environments

# Makes an environment of its options on the calling thread, which then owns it. Raises EnvError or
# DocumentError.
MakeEnvironment = Callable[..., "Environment"]

# One of your own needs no line here: `my_package.my_module:MyEnvironment` names it, or an entry point.
ENVIRONMENTS = Registry[MakeEnvironment]("environment", takes_places=True, group=GROUP)
ENVIRONMENTS.add("belt_arm", f"{__name__}.belt_arm.environment:BeltArmEnvironment", needs=("mujoco",))
ENVIRONMENTS.add(
    "recording", f"{__name__}.recorded_environment:RecordedEnvironment", needs=("pyarrow", "av", "PIL")
)


def make_environment(name: str, options: Mapping[str, Any]) -> Environment:
    """Make an environment on the calling thread, which then owns it.

    name: a built-in name, `gymnasium:<id>`, `package.module:attribute` or the name of an entry point. Raises
    EnvError when it is unknown, its library is missing or its options do not fit; DocumentError for a file of
    its options.
    """
    from remote_inference.learn.environment import EnvError  # noqa: PLC0415  imports numpy

    scheme, _, gym_id = name.partition(":")
    try:
        if gym_id and scheme == "gymnasium":
            from remote_inference.learn.environments import gymnasium_environment  # noqa: PLC0415  optional

            return gymnasium_environment.GymnasiumEnvironment(gym_id, **options)
        return ENVIRONMENTS.get(name)(**options)
    except UserError:
        raise
    except Exception as error:  # a simulator may raise anything while it loads
        raise EnvError(f"environment {name}: {type(error).__name__}: {error}") from error
