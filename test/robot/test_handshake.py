# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The way to a session: pauses, the order of servers, deadlines and epochs."""

from __future__ import annotations

import random

import pytest

from remote_inference.base.exchange import SessionReply, StatusReply
from remote_inference.robot.requests.handshake import DISCOVERY_NS, MISSED, Phase
from remote_inference.robot.requests.server_list import JITTER, ServerList
from remote_inference.robot.safety.effects import GetStatus, Warn
from support.builders import CAMERA, JOINTS, ns
from support.robot.handshakes import INITIAL_S, MAXIMUM_S, REPLY, STATUS, TIMEOUT_S, make_handshake, walk


def make_servers(*servers: str, seed: int = 0) -> ServerList:
    return ServerList(servers or ("/a",), INITIAL_S, MAXIMUM_S, random.Random(seed))


def test_the_first_latency_is_the_shorter_round_trip_and_what_the_server_measured():
    handshake = make_handshake()
    handshake.advance(0)
    status = StatusReply(True, image_features=(CAMERA,), response_s=0.5)
    handshake.take_status_reply("/a", status, "", ns(0.3))  # it had to be discovered
    handshake.take_session_reply("/a", handshake.epoch, REPLY, ns(0.4))
    assert handshake.expected_latency_s == pytest.approx(0.6)


def test_an_offer_carries_the_tags_of_the_robot_s_configuration():
    handshake = walk(make_handshake(tags=("site=lab_2", "run=7")), Phase.OPENING, 0)
    assert handshake.offer.tags == {"site": "lab_2", "run": "7"}


def test_pauses_double_to_the_maximum_with_a_jitter_of_a_quarter():
    ratios: list[float] = []
    for seed in range(200):
        servers = make_servers(seed=seed)
        ratios += [servers.fail() / 1e9 / expected_s for expected_s in (0.5, 1, 2, 4, 8, 10, 10, 10)]
    assert 0.75 <= min(ratios) < 0.76
    assert 1.24 < max(ratios) <= 1.25


def test_robots_do_not_return_in_step():
    """After a server's restart a fleet would otherwise knock at the same instant, again and again."""
    assert len({make_servers(seed=seed).fail() for seed in range(20)}) > 10


def test_backoff_survives_a_week_offline():
    servers = make_servers()
    assert max(servers.fail() for _ in range(100_000)) <= ns(MAXIMUM_S * (1 + JITTER))


def test_each_server_is_tried_at_once_and_the_pause_comes_after_the_last():
    servers = make_servers("/a", "/b", "/c")
    tried = [(servers.current, servers.fail()) for _ in range(3)]
    assert tried[:2] == [("/a", 0), ("/b", 0)]
    assert tried[2][0] == "/c"
    assert tried[2][1] > 0
    assert servers.current == "/a"


def test_the_second_round_pauses_longer():
    servers = make_servers("/a", "/b")
    pauses = [servers.fail() for _ in range(4)]
    assert pauses[1] <= ns(INITIAL_S * (1 + JITTER))
    assert pauses[3] >= ns(2 * INITIAL_S * (1 - JITTER))


def test_success_ends_the_doubling():
    servers = make_servers()
    for _ in range(6):
        servers.fail()
    servers.succeed()
    assert ns(INITIAL_S * (1 - JITTER)) <= servers.fail() <= ns(INITIAL_S * (1 + JITTER))


def test_a_server_loads_until_it_says_otherwise_or_is_silent_since():
    servers = make_servers("/a", "/b")
    for server in ("/b", "/a", "/another"):
        servers.note(server, ns(2), loading=True)
    assert list(servers.loading) == ["/a", "/b"]
    servers.note("/a", ns(1), loading=False)  # an attempt from before it said so
    assert list(servers.loading) == ["/a", "/b"]
    servers.note("/a", ns(2), loading=False)
    assert list(servers.loading) == ["/b"]


def test_a_server_that_loads_is_the_instance_that_said_so_last():
    """A journal of before names none in the answer to an attempt."""
    servers = make_servers("/a")
    for instance_id, known in (("", ""), ("one", "one"), ("", "one"), ("two", "two")):
        servers.note("/a", ns(1), loading=True, instance_id=instance_id)
        assert servers.loading == {"/a": known}


def test_an_attempt_that_is_not_answered_takes_back_that_a_server_loads():
    handshake = walk(make_handshake(), Phase.CHECKING, ns(1))
    loading = StatusReply(accepting=False, loading=True)
    assert handshake.take_status_reply("/a", loading, "", ns(1)) == []
    assert handshake.servers.loading == {"/a": ""}
    handshake.advance(ns(10))
    assert handshake.servers.loading == {"/a": ""}
    handshake.advance(ns(10 + TIMEOUT_S))
    assert handshake.servers.loading == {}


def test_the_first_attempt_is_immediate():
    assert make_handshake().advance(0) == [GetStatus("/a")]


def test_a_failed_attempt_is_followed_by_a_pause():
    handshake = walk(make_handshake(), Phase.CHECKING, 0)
    handshake.take_status_reply("/a", None, "", 0)
    assert handshake.advance(ns(INITIAL_S * (1 - JITTER)) - 1) == []
    assert handshake.advance(ns(INITIAL_S * (1 + JITTER))) == [GetStatus("/a")]


def test_after_a_loss_the_same_server_is_tried_at_once():
    handshake = walk(make_handshake("/a", "/b"), Phase.OPEN, 0)
    handshake.take_delivery()
    handshake.lose(ns(5), move_on=False)
    assert handshake.phase is Phase.WAITING
    assert handshake.session is None
    assert handshake.advance(ns(5)) == [GetStatus("/a")]


def test_a_session_that_never_delivered_counts_as_a_failed_attempt():
    """A server that grants sessions and drops them at once would be asked without a pause."""
    handshake = make_handshake()
    for attempt in range(3):
        now_ns = ns(100 * attempt)
        walk(handshake, Phase.OPEN, now_ns)
        handshake.lose(now_ns, move_on=False)
        assert handshake.advance(now_ns + ns(2**attempt * INITIAL_S * (1 - JITTER)) - 1) == []


def test_moving_on_takes_the_next_server_at_once_and_wraps_around():
    handshake = make_handshake("/a", "/b")
    for now_s, following in ((0, "/b"), (5, "/a")):
        walk(handshake, Phase.OPEN, ns(now_s))
        handshake.take_delivery()
        handshake.lose(ns(now_s + 5), move_on=True)
        assert handshake.server == following
    assert handshake.advance(ns(10)) == [GetStatus("/a")]


def test_a_server_that_is_not_discovered_yet_is_no_news():
    """At every start, the first attempt comes before discovery."""
    handshake = make_handshake()
    walk(handshake, Phase.CHECKING, ns(1))
    assert handshake.take_status_reply("/a", None, "", ns(1)) == []
    for _ in range(2):  # servers
        handshake.advance(ns(1) + DISCOVERY_NS)
        handshake.take_status_reply(handshake.server, None, "", ns(1) + DISCOVERY_NS - 1)
    later_ns = ns(1) + 10 * DISCOVERY_NS
    handshake.advance(later_ns)
    server = handshake.server
    assert handshake.take_status_reply(server, None, "", later_ns) == [Warn(f"server {server} is silent")]


def test_a_server_s_remarks_are_told_once_for_each_of_its_instances():
    handshake = make_handshake()

    def told(instance_id: str, now_s: float) -> list[Warn]:
        reply = SessionReply(
            accepted=True,
            chunk_size=20,
            server_instance_id=instance_id,
            action_names=JOINTS,
            warnings=("no RTC",),
        )
        handshake.advance(ns(now_s))
        handshake.take_status_reply(handshake.server, STATUS, "", ns(now_s))
        effects = handshake.take_session_reply(handshake.server, handshake.epoch, reply, ns(now_s))
        handshake.take_delivery()
        handshake.lose(ns(now_s), move_on=False)
        return [effect for effect in effects if isinstance(effect, Warn)]

    warning = Warn(f"server {handshake.server}: no RTC")
    assert [told(instance, 10.0 * turn) for turn, instance in enumerate("aab", 1)] == [
        [warning],
        [],
        [warning],
    ]


def test_two_servers_of_one_name_are_both_named_and_no_restart():
    """Their statuses come in turn; an instance that has been replaced never comes back."""
    handshake = walk(make_handshake(), Phase.OPEN, ns(1))
    session = REPLY.server_instance_id
    assert handshake.duplicate_servers.note_sender("/a", session, ns(1)) == []
    assert handshake.duplicate_servers.note_sender("/a", "other", ns(2)) == []
    assert handshake.take_server_status("/a", "other", ()) == "server restarted"
    (warning,) = handshake.duplicate_servers.note_sender("/a", session, ns(3))
    assert warning == Warn(f"servers of one name, /a: instances {session} and other; end all but one")
    assert handshake.duplicate_servers.note_sender("/a", "other", ns(4)) == []  # told
    assert handshake.take_server_status("/a", "other", ()) == ""
    assert handshake.duplicate_servers.note_sender("/a", "third", ns(5)) == []
    assert handshake.take_server_status("/a", "third", ()) == "server restarted"


@pytest.mark.parametrize("phase", [Phase.CHECKING, Phase.OPENING, Phase.MATCHING])
def test_every_step_of_the_handshake_has_its_own_deadline(phase: Phase):
    """A request whose server dies never completes. What changes nothing there, get_status, is sent twice."""
    handshake = walk(make_handshake(), phase, ns(3))
    repeated = [GetStatus("/a")] if phase is Phase.CHECKING else []
    assert handshake.advance(ns(3 + TIMEOUT_S) - 1) == repeated
    assert Warn(f"server /a {MISSED[phase]} within 2 s") in handshake.advance(ns(3 + TIMEOUT_S))
    assert handshake.phase is Phase.WAITING


def test_a_server_that_does_not_answer_get_status_is_asked_a_second_time_before_the_deadline():
    """Under rmw_zenoh one answer in some is lost at a robot's start; a pause would follow."""
    handshake = walk(make_handshake(), Phase.CHECKING, ns(3))
    half_way_ns = ns(3 + TIMEOUT_S / 2)
    assert handshake.advance(half_way_ns - 1) == []
    assert handshake.advance(half_way_ns) == [GetStatus("/a")]
    assert handshake.advance(half_way_ns + 1) == []
    assert handshake.take_status_reply("/a", STATUS, "", half_way_ns + 1) != []
    assert handshake.phase is Phase.OPENING
    assert handshake.take_status_reply("/a", STATUS, "", half_way_ns + 2) == [], "the first answer, late"
    assert handshake.epoch == 1


def test_an_open_session_has_no_deadline():
    handshake = walk(make_handshake(), Phase.OPEN, 0)
    assert handshake.open
    assert handshake.advance(ns(1e6)) == []
    assert handshake.open


def test_each_opening_has_a_new_epoch():
    handshake = make_handshake()
    epochs = []
    for attempt in range(3):
        now_ns = ns(100 * attempt)
        epochs.append(walk(handshake, Phase.OPENING, now_ns).epoch)
        handshake.take_session_reply("/a", handshake.epoch, None, now_ns)
    assert epochs == [1, 2, 3]
