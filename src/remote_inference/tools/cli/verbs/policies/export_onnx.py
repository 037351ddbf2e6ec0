# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference export-onnx`."""

from __future__ import annotations

import argparse
import sys
from contextlib import redirect_stdout
from pathlib import Path

from remote_inference.base.errors import UserError
from remote_inference.tools.cli.output import add_output_arguments, print_json

EXAMPLES = (
    "remote-inference export-onnx config/models/belt_arm --out my_models/belt_arm",
    "remote-inference export-onnx runs/step_2000.safetensors --out my_models/belt_arm --force",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("policy", type=Path, help="folder of a chunk policy, or its weights file")
    parser.add_argument("--out", type=Path, required=True, help="folder that gets a model.onnx")
    parser.add_argument("--force", action="store_true", help="replace the model.onnx if it exists")
    shape = '{"path", "name", "revision", "fingerprint", "bytes", "largest_difference", "left_out"}'
    add_output_arguments(parser, json_shape=shape)


def run(arguments: argparse.Namespace) -> int:
    target = arguments.out / "model.onnx"
    if target.exists() and not arguments.force:
        raise UserError(f"--out: {target} exists, expected a folder without, or --force to replace it")
    from remote_inference.server.policies.onnx.export import export_policy  # noqa: PLC0415  imports torch and onnx

    with redirect_stdout(sys.stderr):  # the exporter may print
        export = export_policy(arguments.policy, arguments.out)
    spec, size = export.spec, export.path.stat().st_size
    left_out = "" if export.left_out.value == "none" else export.left_out.value
    if arguments.json:
        print_json(
            {
                "path": str(export.path),
                "name": spec.name,
                "revision": spec.revision,
                "fingerprint": spec.fingerprint,
                "bytes": size,
                "largest_difference": export.largest_difference,
                "left_out": left_out,
            }
        )
    elif not arguments.quiet:
        print(f"{export.path}: {spec.name}, revision {spec.revision}, {size / 1e6:.1f} MB")
        print(f"its normalised actions differ by at most {export.largest_difference:.1e} from torch's")
        if left_out:
            print(f"left out: {left_out}; the exported policy continues no prefixes")
    return 0
