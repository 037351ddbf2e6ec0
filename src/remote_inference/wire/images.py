# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Images as JPEG (colour), PNG (16-bit depth) and sensor_msgs/Image.

Colour is uint8 RGB `[height, width, 3]`; depth is uint16 `[height, width]` in millimetres, 0 where nothing
was measured.
"""

from __future__ import annotations

import io
import struct
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from PIL import Image as PillowImage
from sensor_msgs.msg import Image

from remote_inference.core.exchange import ImageFeature
from remote_inference.wire.arrays import ByteBuffer, WireError, bytes_field
from remote_inference.wire.jpeg import JPEG_LIBRARIES


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
_JPEG = JPEG_LIBRARIES[0]
_PNG_HEADER = struct.Struct(
    ">8s4x4sIIBB"
)  # signature, (length), "IHDR", width, height, bit depth, colour type
_PNG_GREYSCALE = 0
_PNG_COMPRESS_LEVEL = 1  # ten times as fast as the default, at 6 % more bytes

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


class ImageError(WireError):
    """An image cannot be encoded, decoded or converted; the text says what was found and expected."""


def encode_jpeg(rgb: NDArray[np.uint8], quality: int) -> bytes:
    """Return the JPEG of uint8 RGB `[height, width, 3]` with quality 1 to 100.

    Raises ImageError for another shape, type or quality.
    """
    _require(rgb, np.uint8, (3,))
    if not 1 <= quality <= 100:
        raise ImageError(f"JPEG quality: found {quality}, expected 1 to 100")
    return _JPEG.encode(np.ascontiguousarray(rgb), quality)


def decode_jpeg(data: ByteBuffer) -> NDArray[np.uint8]:
    """Return uint8 RGB `[height, width, 3]`; greyscale becomes RGB.

    Raises ImageError for corrupt or truncated data, or a size beyond MAX_SIDE or MAX_PIXELS.
    """
    jpeg_size(data)
    try:
        return _JPEG.decode(data)
    except Exception as error:  # decoders raise a dozen types on corrupt data
        raise _undecodable(data, "JPEG", error) from error


def jpeg_size(data: ByteBuffer) -> tuple[int, int]:
    """Return `(height, width)` [px] from a JPEG's header.

    Raises ImageError for data that is not JPEG, or a size beyond MAX_SIDE or MAX_PIXELS.
    """
    try:
        height, width = _JPEG.size(data)
    except Exception as error:
        raise _undecodable(data, "JPEG", error) from error
    _require_size(height, width)
    return height, width


def encode_png(depth: NDArray[np.uint16]) -> bytes:
    """Return the PNG of uint16 `[height, width]`. Raises ImageError for another shape or type."""
    _require(depth, np.uint16, ())
    out = io.BytesIO()
    image = PillowImage.fromarray(np.ascontiguousarray(depth))
    image.save(out, "PNG", compress_level=_PNG_COMPRESS_LEVEL)
    return out.getvalue()


def decode_png(data: ByteBuffer) -> NDArray[np.uint16]:
    """Return uint16 `[height, width]` from a 16-bit greyscale PNG.

    Raises ImageError for another kind of PNG, corrupt or truncated data, or a size beyond MAX_SIDE or
    MAX_PIXELS.
    """
    png_size(data)
    try:
        with PillowImage.open(io.BytesIO(data), formats=["PNG"]) as image:
            return np.array(image).astype(np.uint16, copy=False)  # some releases of Pillow decode to int32
    except Exception as error:  # decoders raise a dozen types on corrupt data
        raise _undecodable(data, "PNG", error) from error


def png_size(data: ByteBuffer) -> tuple[int, int]:
    """Return `(height, width)` [px] from a 16-bit greyscale PNG's header.

    Raises ImageError for another kind of PNG, other data, or a size beyond MAX_SIDE or MAX_PIXELS.
    """
    if len(data) < _PNG_HEADER.size:
        raise _undecodable(data, "PNG", f"a header takes {_PNG_HEADER.size}")
    signature, kind, width, height, bits, colour = _PNG_HEADER.unpack_from(data)
    if (signature, kind) != (b"\x89PNG\r\n\x1a\n", b"IHDR"):
        raise _undecodable(data, "PNG", "it does not begin with a PNG header")
    if (bits, colour) != (16, _PNG_GREYSCALE):
        raise ImageError(
            f"PNG: found {bits} bits of colour type {colour}, expected 16 bits of greyscale (type 0)"
        )
    _require_size(height, width)
    return height, width


def image_from_message(message: Image) -> NDArray[Any]:
    """Return uint8 RGB `[height, width, 3]`, or uint16 `[height, width]` in millimetres for depth.

    Colour may be rgb8, bgr8, rgba8, bgra8 or mono8, and with cv_bridge also every encoding that it converts.
    Depth follows REP 118: 16UC1 is in millimetres; 32FC1 is in metres, where NaN and infinities become 0 and
    values beyond 65.535 m become 65535. Row padding and byte order are honoured. The result is C-contiguous
    and read-only; it shares the message's memory when nothing had to be converted.

    Raises ImageError for another encoding, data that does not fill height and step, or a size beyond MAX_SIDE
    or MAX_PIXELS.
    """
    _require_size(message.height, message.width)
    if len(message.data) != message.height * message.step:
        raise ImageError(
            f"data: found {len(message.data)} bytes, "
            f"expected height {message.height} x step {message.step} = {message.height * message.step}"
        )
    image: NDArray[Any]
    if message.encoding == _MILLIMETRES:
        image = np.ascontiguousarray(_pixels(message, "u2", 1)[..., 0], np.uint16)
    elif message.encoding == _METRES:
        image = _to_millimetres(_pixels(message, "f4", 1)[..., 0])
    else:
        image = _to_rgb(message)
    image.flags.writeable = False
    return image


def image_to_message(image: NDArray[Any]) -> Image:
    """Return uint8 RGB `[height, width, 3]` as rgb8, or uint16 `[height, width]` as 16UC1.

    The header is left empty. Raises ImageError for another shape or type.
    """
    encoding = "rgb8" if image.ndim == 3 else _MILLIMETRES
    _require(image, *((np.uint8, (3,)) if image.ndim == 3 else (np.uint16, ())))
    height, width = image.shape[:2]
    return Image(
        height=height,
        width=width,
        encoding=encoding,
        is_bigendian=sys.byteorder == "big",
        step=image.nbytes // height,
        data=bytes_field(np.ascontiguousarray(image).reshape(-1).view(np.uint8).data),
    )


def require_possible_sizes(features: Sequence[ImageFeature]) -> None:
    """Check the sizes that a robot announces before it sends an image; unknown sizes (0) pass.

    Raises ImageError naming the feature for a size beyond MAX_SIDE or MAX_PIXELS.
    """
    for feature in features:
        if feature.height and feature.width:
            try:
                _require_size(feature.height, feature.width)
            except ImageError as error:
                raise ImageError(f"{feature.name}: {error}") from error


def _to_rgb(message: Image) -> NDArray[np.uint8]:
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
        expected = ", ".join((*_COLOUR, _MILLIMETRES, _METRES))
        raise ImageError(f"encoding: found {message.encoding!r}, expected one of {expected}")
    pixels = _pixels(message, "u1", channels)
    if message.encoding == "rgb8":
        return np.ascontiguousarray(pixels)
    rgb = np.empty((message.height, message.width, 3), np.uint8)
    for channel, source in enumerate(order):
        rgb[..., channel] = pixels[..., source]
    return rgb


def _to_millimetres(metres: NDArray[np.floating[Any]]) -> NDArray[np.uint16]:
    measured = np.where(np.isfinite(metres), metres, 0.0)
    return np.rint(np.clip(measured, 0.0, 65.535) * 1000.0).astype(np.uint16)


def _pixels(message: Image, kind: str, channels: int) -> NDArray[Any]:
    """Return a view of the message's data `[height, width, channels]`, without padding."""
    dtype = np.dtype((">" if message.is_bigendian else "<") + kind)
    pixel = dtype.itemsize * channels
    if message.step < message.width * pixel:
        raise ImageError(
            f"step: found {message.step} bytes, expected at least {message.width * pixel} "
            f"for {message.width} pixels of {message.encoding}"
        )
    shape = (message.height, message.width, channels)
    strides = (message.step, pixel, dtype.itemsize)
    view: NDArray[Any] = np.ndarray(shape, dtype, message.data, strides=strides)
    return view


def _require(image: NDArray[Any], dtype: DTypeLike, channels: tuple[int, ...]) -> None:
    if image.ndim != 2 + len(channels) or image.shape[2:] != channels or image.dtype != dtype:
        sides = ", ".join(("height", "width", *map(str, channels)))
        raise ImageError(
            f"image: found {image.dtype} {list(image.shape)}, expected {np.dtype(dtype)} [{sides}]"
        )
    _require_size(*image.shape[:2])


def _require_size(height: int, width: int) -> None:
    if not (0 < height <= MAX_SIDE and 0 < width <= MAX_SIDE) or height * width > MAX_PIXELS:
        raise ImageError(
            f"image: found {height} x {width} pixels, expected 1 to {MAX_SIDE} a side "
            f"and at most {MAX_PIXELS} in all"
        )


def _undecodable(data: ByteBuffer, kind: str, reason: object) -> ImageError:
    return ImageError(f"{kind}: {len(data)} bytes cannot be decoded: {reason}")
