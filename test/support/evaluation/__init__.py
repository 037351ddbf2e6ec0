# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Evaluations of the drawer, with policies and simulators that misbehave."""
