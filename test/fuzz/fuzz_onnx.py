# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""ONNX files, up to where ONNX Runtime would take over."""

from __future__ import annotations

import tempfile

from fuzz_target import Target, scratch_folder
from mutation import spoil_bytes

from remote_inference.base.documents.document import DocumentError
from remote_inference.base.policy import PolicyError
from remote_inference.server.policies.onnx.file import read_onnx
from support.policies.onnx_models import make_model, move_weights_out

DATA = "weights.data"


def _read(data: bytes) -> None:
    path = scratch_folder() / "model.onnx"
    path.write_bytes(data)
    if not (beside := path.with_name(DATA)).exists():
        beside.write_bytes(bytes(100))
    read_onnx(path)


def _files() -> list[bytes]:
    models = [
        make_model(with_noise=True),
        make_model(batch=4),
        make_model(with_task=True, steps=2, delay_rows=4),
        make_model(edit=lambda model: move_weights_out(model, DATA)),
    ]
    return [model.SerializeToString() for model in models]


TARGETS = (
    Target("onnx", _read, _files, spoil_bytes, (PolicyError, DocumentError), 2, tempfile.gettempdir()),
)
