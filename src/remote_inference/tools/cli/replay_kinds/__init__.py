# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The kinds of `remote-inference replay`: an addition is one module, and its name in KINDS.

A module has OPTION (with the keywords of argparse's add_argument), EXAMPLES, TAKES (the names of the other
arguments that it takes, with their attributes in the parsed arguments, each without a default), JSON_SHAPE,
add_arguments(parser) and run(arguments), which returns the exit code. Kinds that share an option share its
declaration.
"""

KINDS = ("decisions", "policy", "server", "arm", "capture")
BAG = "BAG"
BAG_ARGUMENTS = {BAG: "bag", "--namespace": "namespace"}  # of the kinds that read a bag
