# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The operator's program `remote-inference`: its verbs, set-up, doctor, keys, contracts and the demo."""
