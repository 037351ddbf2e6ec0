# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Generated contracts: what the program knows is written, the rest is marked for a person to fill in.

They are made of a running robot, or imported from a file of another program. An importer takes the file's
content and its name for errors, and raises DocumentError. Other distributions add one by an entry point of
GROUP; its name NAME gives the verb `contract from-NAME`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from remote_inference.base.documents.registry import Registry

if TYPE_CHECKING:
    from remote_inference.base.contract.generated import GeneratedContract

GROUP = "remote_inference.contract_importers"
Importer: TypeAlias = "Callable[[bytes, str], GeneratedContract]"

IMPORTERS = Registry[Importer]("contract importer", group=GROUP)
IMPORTERS.add("lerobot", "remote_inference.base.lerobot_format:import_contract")
IMPORTERS.add("rosetta", "remote_inference.tools.contracts.rosetta.importer:import_contract")
IMPORTERS.add("hud", "remote_inference.learn.hud.contract:import_contract")
