# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The verbs by subject.

Of each VERB a module has its arguments in EXAMPLES, `add_VERB(parser)`, and `run_VERB(arguments)`, which
returns the exit code unless it is 0; or `add_VERB` says by the default `run` what runs. A module imports at
its top only what its arguments need. What runs imports the rest, so that help, completion and a misspelt
option take no time.
"""
