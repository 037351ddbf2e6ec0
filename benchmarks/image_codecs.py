# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Measures image encoding and field assignment on this machine, each beside the package's choice.

Run `python benchmarks/image_codecs.py [-n 200]`. cv2 is measured too where it is installed.
"""

from __future__ import annotations

import argparse
import statistics
import time
from array import array
from collections.abc import Callable

import numpy as np
from sensor_msgs.msg import CompressedImage

from remote_inference.base.wire.images.encodings.jpeg import JPEG_LIBRARIES

HEIGHT, WIDTH, QUALITY = 480, 640, 90
FIELD_BYTES = 256 * 1024


class OpenCv:
    """OpenCV's codec with the conversion to and from its BGR."""

    name = "cv2"

    def __init__(self, cv2) -> None:
        self._cv2 = cv2
        sampling = cv2.IMWRITE_JPEG_SAMPLING_FACTOR, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420
        self._options = (*sampling, cv2.IMWRITE_JPEG_QUALITY)
        cv2.setNumThreads(1)

    def encode(self, rgb: np.ndarray, quality: int) -> bytes:
        bgr = self._cv2.cvtColor(rgb, self._cv2.COLOR_RGB2BGR)
        return self._cv2.imencode(".jpg", bgr, (*self._options, quality))[1].tobytes()

    def decode(self, data: bytes) -> np.ndarray:
        bgr = self._cv2.imdecode(np.frombuffer(data, np.uint8), self._cv2.IMREAD_COLOR)
        return self._cv2.cvtColor(bgr, self._cv2.COLOR_BGR2RGB)


def camera_image() -> np.ndarray:
    """Soft shading, sixty hard-edged boxes and sensor noise."""
    random = np.random.default_rng(0)
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    shading = [120 + 80 * np.sin(x / 90), 110 + 70 * np.cos(y / 70), 90 + 60 * np.sin((x + y) / 130)]
    image = np.stack(shading, axis=-1)
    for _ in range(60):
        top, left = random.integers(0, HEIGHT - 40), random.integers(0, WIDTH - 60)
        height, width = random.integers(8, 120, 2)
        image[top : top + height, left : left + width] = random.integers(0, 255, 3)
    return (image + random.normal(0, 4, image.shape)).clip(0, 255).astype(np.uint8)


def median_ms(call: Callable[[], object], repetitions: int) -> float:
    call()
    durations = []
    for _ in range(repetitions):
        start = time.perf_counter()
        call()
        durations.append(time.perf_counter() - start)
    return 1000 * statistics.median(durations)


def measure_jpeg(repetitions: int) -> None:
    libraries = list(JPEG_LIBRARIES)
    try:
        import cv2  # noqa: PLC0415
    except ImportError:
        pass
    else:
        libraries.append(OpenCv(cv2))
    image = camera_image()
    print(f"JPEG {WIDTH}x{HEIGHT} quality {QUALITY}, median of {repetitions}, ratio to {libraries[0].name}")
    print(f"{'library':<12}{'encode ms':>10}{'ratio':>7}{'decode ms':>11}{'ratio':>7}{'KB':>7}")
    first: tuple[float, float] | None = None
    for library in libraries:
        data = library.encode(image, QUALITY)
        encode = median_ms(lambda: library.encode(image, QUALITY), repetitions)  # noqa: B023
        decode = median_ms(lambda: library.decode(data), repetitions)  # noqa: B023
        first = first or (encode, decode)
        ratios = f"{encode:>10.2f}{encode / first[0]:>7.2f}{decode:>11.2f}{decode / first[1]:>7.2f}"
        print(f"{library.name:<12}{ratios}{len(data) / 1000:>7.1f}")


def measure_assignment(repetitions: int) -> None:
    values = np.random.default_rng(0).integers(0, 256, FIELD_BYTES, np.uint8)
    message = CompressedImage(check_fields=False)  # checking refuses numpy
    kinds = {"array": array("B", values.tobytes()), "bytes": values.tobytes(), "numpy": values}
    kinds["memoryview"] = values.data
    print(f"\nassigning {FIELD_BYTES // 1024} KB to a uint8[] field, ratio to array")
    print(f"{'type':<12}{'ms':>10}{'ratio':>9}")
    first = 0.0
    for name, value in kinds.items():
        cost = median_ms(lambda: setattr(message, "data", value), min(repetitions, 20))  # noqa: B023
        first = first or cost
        print(f"{name:<12}{cost:>10.3f}{cost / first:>9.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-n", type=int, default=200, help="repetitions per measurement")
    repetitions = parser.parse_args().n
    measure_jpeg(repetitions)
    measure_assignment(repetitions)


if __name__ == "__main__":
    main()
