# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Serves policies that LeRobot has trained; LeRobot is imported only when such a policy is loaded."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from remote_inference.base.policy import Policy, PolicyError
from remote_inference.server.manifest.manifest import ModelSource
from remote_inference.server.policies.lerobot.checkpoint import (
    LeRobotOptions,
    MissingProcessorError,
    read_checkpoint,
)


def load(source: ModelSource) -> Policy:
    """Load the policy of a manifest from a folder that LeRobot has written.

    Raises PolicyError or DocumentError naming file, key, what was found and expected; DeviceError, a
    PolicyError, when this machine cannot use the device. Nothing stays in memory then.
    """
    options = source.read_options(LeRobotOptions)
    _go_offline()
    try:
        checkpoint = read_checkpoint(source.path)
    except MissingProcessorError as error:
        raise MissingProcessorError(error.file, _find_migration(error.file)) from error
    try:
        import lerobot.policies  # noqa: F401, PLC0415  takes seconds, and defines the kinds of policies
    except ImportError as error:
        needed = "Python 3.12 and LeRobot 0.6: pip install 'ros-remote-inference[lerobot]'"
        raise PolicyError(f"model.backend: 'lerobot' needs {needed} ({error})") from error
    from remote_inference.server.policies.lerobot.loading import load_checkpoint  # noqa: PLC0415  imports LeRobot

    return load_checkpoint(checkpoint, source, options)


def _go_offline() -> None:
    """Let this process and its children find models and tokenizers on this machine only, and on no hub."""
    for variable in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        os.environ[variable] = "1"
    if hub := sys.modules.get("huggingface_hub.constants"):  # has read the variable when it was imported
        hub.HF_HUB_OFFLINE = True  # type: ignore[attr-defined]


def _find_migration(file: Path) -> str:
    """Return LeRobot's advice for a checkpoint from before processors were saved; empty when it has none."""
    try:
        from lerobot.processor.pipeline import (  # noqa: PLC0415
            PolicyProcessorPipeline,
            ProcessorMigrationError,
        )
    except ImportError:
        return ""
    try:
        PolicyProcessorPipeline.from_pretrained(str(file.parent), config_filename=file.name)
    except ProcessorMigrationError as error:
        return f"; in LeRobot's source folder run: {error.migration_command}"
    except FileNotFoundError:
        pass
    return ""
