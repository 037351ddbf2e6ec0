# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What `model.options` says for the back end `gr00t`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from remote_inference.policies.remote.options import Entry, RemoteOptions, names_of


class Gr00tOptions(RemoteOptions):
    """Keys of `model.options` for the back end `gr00t`."""

    host: Annotated[str, Field(min_length=1, description="machine of the GR00T server")]
    port: Annotated[int, Field(ge=1, le=65_535, description="its TCP port")] = 5555
    actions: Annotated[
        tuple[Entry, ...],
        Field(min_length=1, description="entries that make a row, in the order of the contract's names"),
    ]

    @property
    def action_names(self) -> tuple[str, ...]:
        """The names of a chunk's columns, in the order of the entries."""
        return names_of(self.actions)
