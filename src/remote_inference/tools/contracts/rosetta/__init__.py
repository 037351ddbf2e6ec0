# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Contracts made of those of rosetta (schema of 0.2): `document` reads one, `importer` translates it."""
