# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Environments on HUD's wire `openpi/0`, on which the environment is the server and the agent its client."""
