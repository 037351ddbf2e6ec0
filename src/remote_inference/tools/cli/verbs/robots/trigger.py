# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference resume` and the other verbs that call a robot's service of their name."""

from remote_inference.tools.cli.robot_calls import add_call_arguments as add_arguments, trigger as run

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES = ("remote-inference VERB robot_1",)
