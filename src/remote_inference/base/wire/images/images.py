# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Images as sensor_msgs/Image, and what every image must keep to; `wire.images.encodings` encodes them.

Colour is uint8 RGB `[height, width, 3]`; depth is uint16 `[height, width]` in millimetres, 0 where nothing
was measured.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from sensor_msgs.msg import Image

from remote_inference.base.contract.image_source import Colour
from remote_inference.base.wire.arrays import ByteBuffer, WireError, bytes_field


def _make_bridge() -> Any:
    """Return a CvBridge that converted one pixel, or None. The trial finds a build for another numpy."""
    try:
        from cv_bridge import CvBridge  # noqa: PLC0415

        bridge = CvBridge()
        pixel = Image(height=1, width=1, encoding="bgr8", step=3, data=bytes_field(b"\0\0\0"))
        bridge.imgmsg_to_cv2(pixel, "rgb8")
    except Exception:  # absent or unusable: the table below is used instead
        return None
    return bridge


_BRIDGE = _make_bridge()
# Bound the time and memory that one message may cost: a header of a few bytes can announce gigapixels.
MAX_SIDE = 8192  # [px]
MAX_PIXELS = 4096 * 3072  # a camera of 12 megapixels

# Channel indices of red, green and blue in each encoding, and its number of channels.
_COLOUR = {
    "rgb8": ((0, 1, 2), 3),
    "bgr8": ((2, 1, 0), 3),
    "rgba8": ((0, 1, 2), 4),
    "bgra8": ((2, 1, 0), 4),
    "mono8": ((0, 0, 0), 1),
}
_MILLIMETRES = "16UC1"
_METRES = "32FC1"
_RAW: Mapping[Colour, tuple[str, ...]] = {"rgb": tuple(_COLOUR), "depth": (_MILLIMETRES, _METRES)}


class ImageError(WireError):
    """An image cannot be encoded, decoded or converted; the text says what was found and expected."""


def image_from_message(message: Image, colour: Colour | None = None) -> NDArray[Any]:
    """Return uint8 RGB `[height, width, 3]`, or uint16 `[height, width]` in millimetres for depth.

    Colour may be rgb8, bgr8, rgba8, bgra8 or mono8, and with cv_bridge also every encoding that it converts.
    Depth follows REP 118: 16UC1 is in millimetres; 32FC1 is in metres, where NaN and infinities become 0 and
    values beyond 65.535 m become 65535. Row padding and byte order are honoured. The result is C-contiguous
    and read-only; it shares the message's memory when nothing had to be converted.

    colour: of the camera, None where it is not known. Raises ImageError for another encoding, data that does
    not fill height and step, or a size beyond MAX_SIDE or MAX_PIXELS.
    """
    require_size(message.height, message.width)
    if len(message.data) != message.height * message.step:
        size = f"height {message.height} x step {message.step} = {message.height * message.step}"
        raise ImageError(f"data: found {len(message.data)} bytes, expected {size}")
    image: NDArray[Any]
    expected = _RAW[colour] if colour else (*_RAW["rgb"], *_RAW["depth"])
    if colour and (message.encoding in _RAW["depth"]) != (colour == "depth"):
        raise _unexpected(message, expected)
    if message.encoding == _MILLIMETRES:
        image = np.ascontiguousarray(_pixels(message, "u2", 1)[..., 0], np.uint16)
    elif message.encoding == _METRES:
        image = _to_millimetres(_pixels(message, "f4", 1)[..., 0])
    else:
        image = _to_rgb(message, expected)
    image.flags.writeable = False
    return image


def image_to_message(image: NDArray[Any]) -> Image:
    """Return uint8 RGB `[height, width, 3]` as rgb8, or uint16 `[height, width]` as 16UC1.

    The header is left empty. Raises ImageError for another shape or type.
    """
    encoding = "rgb8" if image.ndim == 3 else _MILLIMETRES
    require_image(image, *((np.uint8, (3,)) if image.ndim == 3 else (np.uint16, ())))
    height, width = image.shape[:2]
    return Image(
        height=height,
        width=width,
        encoding=encoding,
        is_bigendian=sys.byteorder == "big",
        step=image.nbytes // height,
        data=bytes_field(np.ascontiguousarray(image).reshape(-1).view(np.uint8).data),
    )


def _to_rgb(message: Image, expected: Sequence[str]) -> NDArray[np.uint8]:
    order, channels = _COLOUR.get(message.encoding, ((), 0))
    # cv_bridge shifts rows whose padding is not a whole number of pixels: the table converts padded images.
    if _BRIDGE and (not channels or message.step == message.width * channels):
        try:
            return np.ascontiguousarray(_BRIDGE.imgmsg_to_cv2(message, "rgb8"))
        except Exception as error:  # CvBridgeError, KeyError, TypeError, cv2.error
            raise ImageError(
                f"encoding {message.encoding!r}: cv_bridge cannot convert it to rgb8: {error}"
            ) from error
    if not channels:
        raise _unexpected(message, expected)
    pixels = _pixels(message, "u1", channels)
    if message.encoding == "rgb8":
        return np.ascontiguousarray(pixels)
    rgb = np.empty((message.height, message.width, 3), np.uint8)
    for channel, source in enumerate(order):
        rgb[..., channel] = pixels[..., source]
    return rgb


def _unexpected(message: Image, expected: Sequence[str]) -> ImageError:
    return ImageError(f"encoding: found {message.encoding!r}, expected one of {', '.join(expected)}")


def _to_millimetres(metres: NDArray[np.floating[Any]]) -> NDArray[np.uint16]:
    measured = np.where(np.isfinite(metres), metres, 0.0)
    return np.rint(np.clip(measured, 0.0, 65.535) * 1000.0).astype(np.uint16)


def _pixels(message: Image, kind: str, channels: int) -> NDArray[Any]:
    """Return a view of the message's data `[height, width, channels]`, without padding."""
    dtype = np.dtype((">" if message.is_bigendian else "<") + kind)
    pixel = dtype.itemsize * channels
    if message.step < message.width * pixel:
        expected = f"at least {message.width * pixel} for {message.width} pixels of {message.encoding}"
        raise ImageError(f"step: found {message.step} bytes, expected {expected}")
    shape = (message.height, message.width, channels)
    strides = (message.step, pixel, dtype.itemsize)
    view: NDArray[Any] = np.ndarray(shape, dtype, message.data, strides=strides)
    return view


def require_image(image: NDArray[Any], dtype: DTypeLike, channels: tuple[int, ...]) -> None:
    """Raise ImageError for another shape or type than `[height, width, *channels]` of a dtype."""
    if image.ndim != 2 + len(channels) or image.shape[2:] != channels or image.dtype != dtype:
        sides = ", ".join(("height", "width", *map(str, channels)))
        expected = f"{np.dtype(dtype)} [{sides}]"
        raise ImageError(f"image: found {image.dtype} {list(image.shape)}, expected {expected}")
    require_size(*image.shape[:2])


def require_size(height: int, width: int) -> None:
    """Raise ImageError for a size [px] beyond MAX_SIDE or MAX_PIXELS, or none."""
    if not (0 < height <= MAX_SIDE and 0 < width <= MAX_SIDE) or height * width > MAX_PIXELS:
        expected = f"1 to {MAX_SIDE} a side and at most {MAX_PIXELS} in all"
        raise ImageError(f"image: found {height} x {width} pixels, expected {expected}")


_SIGNATURES = {b"\xff\xd8\xff": "JPEG", b"\x89PNG\r\n\x1a\n": "PNG"}


def undecodable(data: ByteBuffer, kind: str, reason: object) -> ImageError:
    """Return the error for data that a decoder does not take. kind: of the encoding, in capitals."""
    head = bytes(data[:8])
    for begin, found in _SIGNATURES.items():
        if head.startswith(begin) and found != kind:
            return ImageError(f"{kind}: {len(data)} bytes are {found}, which is labelled {kind.lower()}")
    return ImageError(f"{kind}: {len(data)} bytes cannot be decoded: {reason}")
