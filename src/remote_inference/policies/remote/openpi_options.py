# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What `model.options` says for the back end `openpi`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from remote_inference.policies.remote.options import Names, RemoteImage, RemoteOptions


class OpenpiImage(RemoteImage):
    """One camera of a policy behind openpi's wire."""

    inside: Annotated[
        str, Field(description="entry whose map holds the key, for example `images`; empty: the observation")
    ] = ""


class OpenpiOptions(RemoteOptions):
    """Keys of `model.options` for the back end `openpi`."""

    url: Annotated[
        str,
        Field(
            pattern=r"^wss?://[^/\s]+(/\S*)?$",
            description="the server's, such as `ws://gpu:8000`, or with a path as vLLM-Omni's",
        ),
    ]
    images: Annotated[
        Mapping[str, OpenpiImage],
        Field(description="cameras, by the feature that the robots send"),
    ] = {}
    layout: Annotated[
        Literal["hwc", "chw"], Field(description="order of an image's axes: height, width, channels")
    ] = "hwc"
    prompt: Annotated[str, Field(min_length=1, description="entry of the task")] = "prompt"
    action_names: Annotated[Names, Field(description="columns of a chunk: the contract's names")]
    endpoints: Annotated[
        bool,
        Field(
            description="say `endpoint: infer` in each request, and `endpoint: reset` between episodes of an "
            "exclusive policy: RoboArena's and vLLM-Omni's servers know both, openpi's has no reset"
        ),
    ] = False
