# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Exports of bags: control ticks as a data set or a table."""
