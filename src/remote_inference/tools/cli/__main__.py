# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`python -m remote_inference.tools.cli`."""

import sys

from remote_inference.tools.cli import start

sys.exit(start())
