# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The contract's section about the controllers that the command watchdog switches."""

from __future__ import annotations

from typing import Annotated

from pydantic import (
    Field,
    model_validator,
)

from remote_inference.core.contract.fields import NodeName
from remote_inference.core.documents.document import Document

Controllers = tuple[Annotated[str, Field(min_length=1)], ...]


class ControllerSwitch(Document):
    """Which controllers the command watchdog wants to run in place of which others."""

    controller_manager: Annotated[
        NodeName,
        Field(description="node of the controller manager, relative to the robot's namespace"),
    ] = "controller_manager"
    activate: Annotated[
        Controllers, Field(description="controllers to activate, for example one that holds the arm")
    ] = ()
    deactivate: Annotated[
        Controllers, Field(description="controllers to deactivate: those that `commands` feeds")
    ] = ()

    @model_validator(mode="after")
    def _names_controllers(self) -> ControllerSwitch:
        if not self.activate and not self.deactivate:
            raise ValueError("found no controller in activate and deactivate, expected one at least")
        if both := sorted(set(self.activate) & set(self.deactivate)):
            raise ValueError(f"found {', '.join(both)} in activate and in deactivate, expected one of them")
        return self
