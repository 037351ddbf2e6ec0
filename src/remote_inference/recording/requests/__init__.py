# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a server keeps of its requests: log, captures and their replay."""
