# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference clear-stop`."""

from remote_inference.cli.robot_calls import add_call_arguments as add_arguments
from remote_inference.cli.robot_calls import trigger as run

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES = ("remote-inference clear-stop robot_1",)
