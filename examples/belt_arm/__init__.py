# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Trains the policies of the simulated belt arm, measures them and writes their model cards.

Run by `make train-demo` and `make study`, from data that the scripted expert labels.
"""
