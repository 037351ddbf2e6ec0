# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Devices as torch names them: opened with errors for the manifest's author, and freed."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from remote_inference.base.policy import DeviceError, PolicyError


def parse_device(name: str) -> torch.device:
    """Return torch's device of a name. Raises PolicyError for a name that torch does not know."""
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise PolicyError(f"model.device: found {name!r}, expected a device of torch: {error}") from error


@contextmanager
def using_device(name: str) -> Iterator[None]:
    """Raise DeviceError for what torch raises within on a machine without the device."""
    try:
        yield
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        expected = f"a device of this machine: {reason}"
        raise DeviceError(f"model.device: found {name!r}, expected {expected}") from error


def free_network(network: torch.nn.Module, device: torch.device) -> None:
    """Free a network's memory, whoever still refers to it; on a GPU also the memory that torch caches."""
    network.to("meta")
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
