# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The manifest's section `weights`: whether a trainer may change the served policy, and where it connects."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from remote_inference.core.documents.document import Document


class WeightsSection(Document):
    """Live weights."""

    accept: Annotated[
        bool, Field(description="let a trainer change the policy's weights while robots use them")
    ] = False
    socket: Annotated[
        str,
        Field(
            description="socket at which trainers on this machine connect, which only the server's user can "
            "open; relative to the manifest's folder"
        ),
    ] = ""

    ros: Annotated[
        bool,
        Field(
            description="let trainers on other machines connect, over ROS: whoever may publish in this "
            "network may then change the policy, unless the fleet's access rules forbid it"
        ),
    ] = False

    @model_validator(mode="after")
    def _consistent(self) -> WeightsSection:
        if self.accept and not (self.socket or self.ros):
            raise ValueError(
                "socket: found nothing with accept: true, expected the path of a socket, or ros: true"
            )
        return self
