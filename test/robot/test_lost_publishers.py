# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Publishers that are gone from the graph: named, and a reason to end only after a freeze."""

from __future__ import annotations

from remote_inference.robot.lost_publishers import AFTERMATH_NS, FREEZE_NS, LostPublishers

SECOND_NS = 1_000_000_000
LOOK_NS = SECOND_NS // 10
MAX_NS = 60 * SECOND_NS
ARM, CAMERA, LENS = "joint_states", "front", "wrist"


class World:
    """A robot whose driver publishes the joints, and whose camera node publishes two topics."""

    def __init__(self) -> None:
        self.graph = {ARM: {"/driver"}, CAMERA: {"/camera"}, LENS: {"/camera"}}
        self.stale: set[str] = set()
        self.now_ns = 0
        self.lost = LostPublishers(MAX_NS)
        self.pass_time(SECOND_NS)

    def pass_time(self, passed_ns: int) -> None:
        """Look all the time."""
        end_ns = self.now_ns + passed_ns
        while self.now_ns < end_ns:
            self.now_ns += LOOK_NS
            self.lost.update(self.graph, self.stale, self.graph.__getitem__, self.now_ns)

    def freeze(self, frozen_ns: int) -> None:
        self.now_ns += frozen_ns - LOOK_NS
        self.stale = set(self.graph)  # nothing came meanwhile
        self.pass_time(LOOK_NS)
        self.stale = set()

    def lose(self, *topics: str) -> None:
        for topic in topics:
            self.graph[topic] = set()
            self.stale.add(topic)

    @property
    def named(self) -> list[str]:
        return [str(lost) for lost in self.lost.lost]

    @property
    def cut_off(self) -> str:
        return self.lost.find_cut_off(self.now_ns)


def test_a_node_that_is_gone_is_named_with_each_of_its_stale_topics_until_it_is_back() -> None:
    world = World()
    world.lose(CAMERA, LENS)
    world.pass_time(LOOK_NS)
    assert world.named == ["front: /camera", "wrist: /camera"]
    world.graph |= {CAMERA: {"/camera"}, LENS: {"/camera"}}
    world.pass_time(LOOK_NS)
    assert world.named == []


def test_a_node_that_hangs_is_not_lost() -> None:
    world = World()
    world.freeze(2 * SECOND_NS)
    world.stale |= {CAMERA, LENS}
    world.pass_time(2 * MAX_NS)
    assert world.named == []
    assert world.cut_off == ""


def test_a_topic_that_never_had_a_publisher_has_lost_none() -> None:
    world = World()
    world.graph["top"] = set()
    world.stale.add("top")
    world.pass_time(SECOND_NS)
    assert world.named == []


def test_a_publisher_that_the_graph_shows_late_is_known() -> None:
    world = World()
    world.graph["top"] = set()  # its first message came before
    world.pass_time(LOOK_NS)
    world.graph["top"] = {"/top"}
    world.pass_time(LOOK_NS)
    world.lose("top")
    world.pass_time(LOOK_NS)
    assert world.named == ["top: /top"]


def test_the_publisher_that_came_last_is_the_one_that_is_lost() -> None:
    world = World()
    world.lose(ARM)
    world.pass_time(SECOND_NS)
    world.graph[ARM] = {"/other_driver"}
    world.stale.clear()
    world.pass_time(SECOND_NS)
    world.lose(ARM)
    world.pass_time(SECOND_NS)
    assert world.named == ["joint_states: /other_driver"]


def test_a_process_that_froze_and_lost_a_node_thereupon_is_cut_off_when_the_time_is_over() -> None:
    world = World()
    world.freeze(FREEZE_NS)
    world.lose(CAMERA, LENS)
    world.pass_time(MAX_NS)
    assert world.cut_off == ""
    world.pass_time(LOOK_NS)
    assert world.cut_off == "/camera"


def test_a_node_that_came_back_in_time_ends_nothing() -> None:
    world = World()
    world.freeze(2 * SECOND_NS)
    world.lose(CAMERA, LENS)
    world.pass_time(MAX_NS // 2)
    world.graph |= {CAMERA: {"/camera"}, LENS: {"/camera"}}
    world.stale.clear()
    world.pass_time(MAX_NS)
    assert world.cut_off == ""


def test_a_driver_that_ends_is_no_link() -> None:
    """Without a freeze, after one that costs no link, and long after one."""
    for frozen_ns, later_ns in ((LOOK_NS, 0), (FREEZE_NS - LOOK_NS, 0), (FREEZE_NS, AFTERMATH_NS + LOOK_NS)):
        world = World()
        world.freeze(frozen_ns)
        world.pass_time(later_ns)
        world.lose(CAMERA, LENS)
        world.pass_time(2 * MAX_NS)
        assert world.named, frozen_ns
        assert world.cut_off == "", frozen_ns


def test_a_node_that_still_delivers_another_topic_is_not_behind_a_dead_link() -> None:
    world = World()
    world.freeze(2 * SECOND_NS)
    world.lose(CAMERA)
    world.pass_time(2 * MAX_NS)
    assert world.named == ["front: /camera"]
    assert world.cut_off == ""
