# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Contracts begun by the program: what it knows is written, the rest is marked for a person to fill in.

A draft is made from a running robot, from a LeRobot data set or from a HUD contract.
"""
