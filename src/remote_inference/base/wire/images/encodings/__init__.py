# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The encodings of images that a contract may name: one file, which holds its options, too, and one line."""

from remote_inference.base.contract.image_source import IMAGE_ENCODINGS

__all__ = ["IMAGE_ENCODINGS"]

IMAGE_ENCODINGS.add("jpeg", f"{__name__}.jpeg:Jpeg")
IMAGE_ENCODINGS.add("png", f"{__name__}.png:Png")
