# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Other people's wires into a server: one file, one section of the manifest and one line each.

A gateway is named like its section and is opened when the manifest has the section.
"""

from collections.abc import Callable
from typing import Any

from remote_inference.core.documents.registry import Registry
from remote_inference.gateways.gateway import Gateway, GatewayError, Host, Refused

__all__ = ["GATEWAYS", "Gateway", "GatewayError", "Host", "Refused"]

GATEWAYS = Registry[Callable[[Any, Host], Gateway]]("gateway")
GATEWAYS.add("openpi", f"{__name__}.openpi.front_door:FrontDoor", needs=("websockets",))
