# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Joints are picked by name and images are made ready for the wire, in every form that drivers send."""

from __future__ import annotations

import io
from array import array

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from PIL import Image as PillowImage
from sensor_msgs.msg import CompressedImage, Image, JointState

from remote_inference.base.contract.image_source import COMPRESSED_IMAGE, IMAGE, ImageSource
from remote_inference.base.contract.state_source import JOINT_STATE, StateSource
from remote_inference.base.exchange import ImageFeature
from remote_inference.base.wire.arrays import SensorError, bytes_field
from remote_inference.base.wire.images.encodings.jpeg import Jpeg, decode_jpeg, encode_jpeg
from remote_inference.base.wire.images.encodings.png import decode_png, encode_png
from remote_inference.base.wire.images.images import image_from_message, image_to_message
from remote_inference.base.wire.sensors.joint_merge import JointReader
from remote_inference.base.wire.sensors.state_readers import CameraReader

RED = np.full((16, 24, 3), (255, 0, 0), np.uint8)
DEPTH = np.arange(48, dtype=np.uint16).reshape(6, 8) * 1000


def joint_reader(*names: str, field: str = "position") -> JointReader:
    return JointReader(StateSource(topic="joint_states", type=JOINT_STATE, field=field, names=names))


class TestJointReader:
    @settings(deadline=None)
    @given(st.permutations(["a", "b", "c", "d"]))
    def test_joints_are_picked_by_name(self, order):
        values = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}
        message = JointState(name=order, position=[values[name] for name in order])
        read = joint_reader("d", "a", "c").read(message)
        assert read.dtype == np.float64
        assert read.tolist() == [4.0, 1.0, 3.0]

    def test_joints_may_change_their_order_between_messages(self):
        reader = joint_reader("a", "b")
        assert reader.read(JointState(name=["a", "b"], position=[1.0, 2.0])).tolist() == [1.0, 2.0]
        assert reader.read(JointState(name=["b", "a"], position=[1.0, 2.0])).tolist() == [2.0, 1.0]
        assert reader.read(JointState(name=["x", "a", "b"], position=[0.0, 1.0, 2.0])).tolist() == [1.0, 2.0]

    def test_a_name_list_that_changes_in_place_is_noticed(self):
        reader, message = joint_reader("a", "b"), JointState(name=["a", "b"], position=[1.0, 2.0])
        reader.read(message)
        message.name.reverse()
        assert reader.read(message).tolist() == [2.0, 1.0]

    def test_names_are_looked_up_once_while_they_stay(self, monkeypatch):
        reader = joint_reader("a")
        calls = []
        locate = reader._locate
        monkeypatch.setattr(reader, "_locate", lambda names: calls.append(names) or locate(names))
        for value in range(5):
            reader.read(JointState(name=["b", "a"], position=[0.0, float(value)]))
        assert len(calls) == 1

    def test_the_result_is_a_copy_of_the_message_s_values(self):
        message = JointState(name=["a"], position=[1.0])
        read = joint_reader("a").read(message)
        message.position[0] = 9.0
        assert read.tolist() == [1.0]

    @pytest.mark.parametrize("field", ["velocity", "effort"])
    def test_another_field_is_read(self, field):
        message = JointState(name=["a", "b"], position=[9.0, 9.0], **{field: [1.0, 2.0]})
        assert joint_reader("b", field=field).read(message).tolist() == [2.0]

    def test_missing_joints_are_named(self):
        with pytest.raises(SensorError, match="joint_states: position: found no b, c among a, d"):
            joint_reader("a", "b", "c").read(JointState(name=["a", "d"], position=[1.0, 2.0]))

    def test_an_empty_message_names_every_joint(self):
        with pytest.raises(SensorError, match="joint_states: position: found no a, b among no names"):
            joint_reader("a", "b").read(JointState())

    def test_a_message_after_a_refused_one_is_read(self):
        reader = joint_reader("a")
        with pytest.raises(SensorError):
            reader.read(JointState(name=["b"], position=[1.0]))
        assert reader.read(JointState(name=["a"], position=[1.0])).tolist() == [1.0]

    @pytest.mark.parametrize("values", [[], [1.0]])
    def test_a_field_that_is_missing_or_short_is_refused(self, values):
        message = JointState(name=["a", "b"], position=[1.0, 2.0], velocity=values)
        with pytest.raises(
            SensorError, match=f"joint_states: velocity: found {len(values)} values for 2 names"
        ):
            joint_reader("a", field="velocity").read(message)

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_a_value_that_is_not_finite_is_refused_naming_the_joint(self, value):
        message = JointState(name=["a", "b"], position=array("d", [1.0, value]))
        with pytest.raises(
            SensorError, match=r"joint_states: position: found b = (nan|inf), expected finite"
        ):
            joint_reader("a", "b").read(message)

    def test_a_joint_outside_the_contract_may_have_any_value(self):
        message = JointState(name=["a", "b"], position=array("d", [1.0, np.nan]))
        assert joint_reader("a").read(message).tolist() == [1.0]


def camera(kind: str, colour: str = "rgb", quality: int = 90) -> CameraReader:
    source = ImageSource(topic="front/image_raw", type=kind, colour=colour, jpeg_quality=quality)
    return CameraReader(source, ImageFeature("images.front", source.travels_as))


def stamped(message):
    message.header.frame_id = "optical"
    message.header.stamp.sec = 42
    return message


def bgr(rgb: np.ndarray) -> Image:
    message = image_to_message(rgb[..., ::-1])
    message.encoding = "bgr8"
    return message


class TestCameraReader:
    @pytest.mark.parametrize("message", [image_to_message(RED), bgr(RED)], ids=["rgb8", "bgr8"])
    def test_red_is_red_in_the_jpeg(self, message):
        sent = camera(IMAGE).read(message)
        assert isinstance(sent, CompressedImage)
        assert sent.format == "jpeg"
        assert isinstance(sent.data, array)
        assert np.abs(decode_jpeg(sent.data).astype(int) - RED).max() <= 4

    def test_quality_is_the_contracts(self):
        noise = image_to_message(np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8))
        assert len(camera(IMAGE, quality=30).read(noise).data) < len(
            camera(IMAGE, quality=95).read(noise).data
        )

    def test_depth_becomes_png(self):
        sent = camera(IMAGE, "depth").read(image_to_message(DEPTH))
        assert sent.format == "png"
        assert np.array_equal(decode_png(sent.data), DEPTH)

    @pytest.mark.parametrize(("colour", "pixels"), [("rgb", RED), ("depth", DEPTH)])
    def test_quality_0_passes_the_image_on(self, colour, pixels):
        message = image_to_message(pixels)
        assert camera(IMAGE, colour, quality=0).read(message) is message

    def test_quality_0_converts_what_the_wire_does_not_carry(self):
        sent = camera(IMAGE, quality=0).read(stamped(bgr(RED)))
        assert sent.encoding == "rgb8"
        assert np.array_equal(image_from_message(sent), RED)
        assert sent.header.frame_id == "optical"

    @pytest.mark.parametrize(
        "name",
        [
            "jpeg",
            "jpg",
            "JPEG",
            "rgb8; jpeg compressed bgr8",
            "bgr8; jpeg compressed bgr8",
            "mono8; jpeg compressed ",
            "nv21; jpeg compressed bgr8",
            "8UC3; jpeg compressed ",
            "rgb16; jpeg compressed ",
            "; jpeg compressed ",
        ],
    )
    def test_jpeg_passes_untouched(self, name, monkeypatch):
        monkeypatch.setattr(Jpeg, "encode", lambda *_: pytest.fail("encoded again"))
        message = stamped(CompressedImage(format=name, data=bytes_field(encode_jpeg(RED, 90))))
        sent = camera(COMPRESSED_IMAGE).read(message)
        assert sent.data == message.data
        assert sent.format == "jpeg"
        assert sent.header == message.header

    @pytest.mark.parametrize("name", ["png", "16UC1; png compressed "])
    def test_png_depth_passes_untouched(self, name):
        message = CompressedImage(format=name, data=bytes_field(encode_png(DEPTH)))
        sent = camera(COMPRESSED_IMAGE, "depth").read(message)
        assert sent.data == message.data
        assert sent.format == "png"

    @pytest.mark.parametrize(
        "name", ["png", "", "h264", "rgb8; png compressed bgr8", "16UC1; compressedDepth png"]
    )
    def test_other_formats_are_refused_by_name(self, name):
        message = CompressedImage(format=name, data=bytes_field(encode_jpeg(RED, 90)))
        expected = rf"front/image_raw \(images.front\): format: found '{name}', expected jpeg for rgb"
        with pytest.raises(SensorError, match=expected):
            camera(COMPRESSED_IMAGE).read(message)

    @pytest.mark.parametrize(
        ("name", "origin"),
        [
            ("bayer_rggb8; jpeg compressed ", "bayer_rggb8"),
            ("yuv422_yuy2; jpeg compressed mono8", "yuv422_yuy2"),
            ("16UC1; jpeg compressed ", "16UC1"),
            ("16UC1; jpeg compressed bgr8", "16UC1"),
        ],
    )
    def test_what_lost_its_colour_when_it_was_compressed_is_refused(self, name, origin):
        message = CompressedImage(format=name, data=bytes_field(encode_jpeg(RED, 90)))
        with pytest.raises(
            SensorError, match=f"format: found '{name}', made of {origin}, expected rgb made of"
        ):
            camera(COMPRESSED_IMAGE).read(message)

    def test_metres_that_were_compressed_are_no_depth(self):
        message = CompressedImage(format="32FC1; png compressed ", data=bytes_field(encode_png(DEPTH)))
        with pytest.raises(SensorError, match="made of 32FC1, expected depth made of 16UC1, mono16"):
            camera(COMPRESSED_IMAGE, "depth").read(message)

    def test_compressed_depth_of_image_transport_is_refused(self):
        message = CompressedImage(format="16UC1; compressedDepth png", data=bytes_field(encode_png(DEPTH)))
        with pytest.raises(SensorError, match="expected png for depth"):
            camera(COMPRESSED_IMAGE, "depth").read(message)

    def test_data_that_is_not_what_its_format_says_is_refused(self):
        out = io.BytesIO()
        PillowImage.fromarray(RED).save(out, "PNG")
        problem = r"front/image_raw \(images.front\): JPEG: \d+ bytes are PNG, which is labelled jpeg$"
        with pytest.raises(SensorError, match=problem):
            camera(COMPRESSED_IMAGE).read(CompressedImage(format="jpeg", data=bytes_field(out.getvalue())))

    @pytest.mark.parametrize(
        ("colour", "pixels", "encoding", "expected"),
        [
            ("rgb", DEPTH, "16UC1", "rgb8, bgr8, rgba8, bgra8, mono8"),
            ("depth", RED, "rgb8", "16UC1, 32FC1"),
        ],
    )
    def test_depth_is_not_colour_and_colour_is_not_depth(self, colour, pixels, encoding, expected):
        with pytest.raises(SensorError, match=f"found '{encoding}', expected one of {expected}$"):
            camera(IMAGE, colour).read(image_to_message(pixels))

    def test_a_malformed_image_is_refused_naming_topic_and_feature(self):
        message = image_to_message(RED)
        message.data = message.data[:-1]
        with pytest.raises(SensorError, match=r"front/image_raw \(images.front\): data: found 1151 bytes"):
            camera(IMAGE).read(message)

    @pytest.mark.parametrize("quality", [0, 90])
    def test_frame_and_stamp_are_the_sensors(self, quality):
        message = stamped(image_to_message(RED))
        assert camera(IMAGE, quality=quality).read(message).header == message.header

    def test_size_is_that_of_the_last_image(self):
        raw, compressed, depth = camera(IMAGE), camera(COMPRESSED_IMAGE), camera(COMPRESSED_IMAGE, "depth")
        assert raw.size == (0, 0)
        raw.read(image_to_message(RED))
        compressed.read(CompressedImage(format="jpeg", data=bytes_field(encode_jpeg(RED, 90))))
        depth.read(CompressedImage(format="png", data=bytes_field(encode_png(DEPTH))))
        assert raw.size == compressed.size == (16, 24)
        assert depth.size == (6, 8)
