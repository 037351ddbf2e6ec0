# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Robots with tasks that policies can attempt: one folder or file and one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from remote_inference.core.documents.registry import Registry

if TYPE_CHECKING:
    from remote_inference.core.environment import Environment

__all__ = ["ENVIRONMENTS", "SCHEMES", "MakeEnvironment"]

GROUP = "remote_inference.environments"  # of the entry points by which other distributions add environments


class MakeEnvironment(Protocol):
    """Makes an environment on the calling thread, which then owns it."""

    def __call__(self, **options: Any) -> Environment:
        """Raise EnvError or DocumentError when it cannot be made."""


class Scheme(Protocol):
    """Makes one of the environments that another library knows by its own names."""

    def __call__(self, name: str, **options: Any) -> Environment:
        """Do as MakeEnvironment does. name: what follows the colon."""


# One of your own needs no line here: `my_package.my_module:MyEnvironment` names it, or an entry point.
ENVIRONMENTS = Registry[MakeEnvironment]("environment", takes_places=True, group=GROUP)
ENVIRONMENTS.add("belt_arm", f"{__name__}.belt_arm.environment:BeltArmEnvironment", needs=("mujoco",))

ENVIRONMENTS.add(
    "recording",
    "remote_inference.recording.recorded_environment:RecordedEnvironment",
    needs=("pyarrow", "av", "PIL"),
)

SCHEMES = Registry[Scheme]("kind of environment")  # named as in `gymnasium:CartPole-v1`
SCHEMES.add("gymnasium", f"{__name__}.gymnasium_environment:make", needs=("gymnasium",))
