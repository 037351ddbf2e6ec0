# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a robot offers and is granted, and what ends its session or the pause before the next."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from remote_inference.base.admission import CAPACITY_REJECTION, NAME_REJECTION, FatalMismatch
from remote_inference.base.exchange import SessionReply, StatusReply
from remote_inference.robot.requests.handshake import Handshake, Phase
from remote_inference.robot.requests.server_list import MAX_INSTANCES, DuplicateServers, Invitations
from remote_inference.robot.safety.effects import CloseSession, GetStatus, OpenSession, Warn
from support.builders import CAMERA, ns
from support.robot.handshakes import REPLY, STATUS, TIMEOUT_S, make_handshake, walk

SERVER = REPLY.server_instance_id
FULL = SessionReply(accepted=False, rejection=CAPACITY_REJECTION, message="all places are taken")


def refuse(handshake: Handshake, reply: SessionReply, now_ns: int) -> None:
    walk(handshake, Phase.OPENING, now_ns)
    handshake.take_session_reply(handshake.server, handshake.epoch, reply, now_ns)
    assert handshake.phase is Phase.WAITING


# -- the offer -----------------------------------------------------------------------------------------------


def test_an_offer_says_who_asks_for_what() -> None:
    handshake = make_handshake(merge_mode="replace")
    handshake.advance(0)
    (effect,) = handshake.take_status_reply("/a", STATUS, "fold the towel", 0)
    assert effect == OpenSession("/a", handshake.offer)
    offer = handshake.offer
    assert (offer.client, offer.robot_namespace) == ("/robot_1/client", "/robot_1")
    assert offer.task == "fold the towel"
    assert (offer.session_epoch, offer.wants_rtc) == (1, True)
    assert re.fullmatch("[0-9a-f]{12}", offer.client_instance_id)
    assert make_handshake().offer.client_instance_id != offer.client_instance_id
    assert not make_handshake(merge_mode="append").offer.wants_rtc


def test_a_server_that_changes_its_policy_while_it_is_asked_is_left_when_it_has_answered() -> None:
    handshake = make_handshake(servers=("/a", "/b"))
    handshake.note_policy("/a", ("picker",))
    handshake.note_policy("/b", ("placer",))
    handshake.use_policy("picker", 0)
    walk(handshake, Phase.OPENING, 0)
    handshake.note_policy("/a", ("placer",))
    handshake.note_policy("/b", ("picker",))
    assert handshake.server == "/a", "it is still asked"
    granted = replace(REPLY, policy_name="placer")
    effects = handshake.take_session_reply("/a", handshake.epoch, granted, 1)
    assert CloseSession("/a", granted.session_id, granted.session_token) in effects
    assert (handshake.session, handshake.phase) == (None, Phase.WAITING)
    handshake.note_policy("/b", ("picker",))
    assert handshake.server == "/b"


def test_a_server_that_accepts_nobody_is_offered_nothing() -> None:
    handshake = walk(make_handshake(), Phase.CHECKING, 0)
    assert handshake.take_status_reply("/a", replace(STATUS, accepting=False), "", 0) == [
        Warn("server /a accepts no sessions")
    ]
    assert (handshake.phase, handshake.epoch) == (Phase.WAITING, 0)


def test_the_round_trip_is_the_handshake_s_whenever_it_began() -> None:
    handshake = make_handshake()
    handshake.advance(ns(5.0))
    handshake.take_status_reply("/a", STATUS, "", ns(5.3))
    handshake.take_session_reply("/a", handshake.epoch, REPLY, ns(6.0))
    assert handshake.expected_latency_s == pytest.approx(0.3)


# -- the answer ----------------------------------------------------------------------------------------------


def test_a_refusal_is_told_and_followed_by_a_pause() -> None:
    handshake = walk(make_handshake(), Phase.OPENING, 0)
    refusal = Warn("server /a refuses (capacity): all places are taken")
    assert handshake.take_session_reply("/a", 1, FULL, 0) == [refusal]
    assert (handshake.phase, handshake.session) == (Phase.WAITING, None)
    assert handshake.advance(1) == []


def test_a_session_whose_rows_cannot_work_is_refused_for_good() -> None:
    handshake = make_handshake(max_action_age_s=0.05)
    walk(handshake, Phase.OPENING, 0)
    with pytest.raises(FatalMismatch, match=r"max_action_age_s: found .*, expected more than an action"):
        handshake.take_session_reply("/a", 1, REPLY, 0)
    assert handshake.session is None


def test_an_answer_is_checked_also_where_the_policy_leaves_a_camera_out() -> None:
    handshake = make_handshake()
    handshake.advance(0)
    handshake.take_status_reply("/a", StatusReply(accepting=True, image_features=()), "", 0)
    assert handshake.offer.images == ()
    with pytest.raises(FatalMismatch):
        handshake.take_session_reply("/a", 1, replace(REPLY, action_names=("elbow", "shoulder")), 0)


def test_a_robot_that_was_taken_over_by_its_name_gives_up_once_it_had_a_session() -> None:
    taken = SessionReply(accepted=False, rejection=NAME_REJECTION, message="taken")
    refuse(make_handshake(), taken, 0)
    handshake = walk(make_handshake(), Phase.OPEN, 0)
    handshake.take_delivery()
    handshake.lose(0, move_on=False)
    walk(handshake, Phase.OPENING, 0)
    with pytest.raises(FatalMismatch, match="another process has taken this robot over"):
        handshake.take_session_reply("/a", handshake.epoch, taken, 0)


# -- while a session is open ---------------------------------------------------------------------------------


def test_a_session_opens_only_when_it_was_granted_whoever_is_matched() -> None:
    handshake = walk(make_handshake(), Phase.CHECKING, 0)
    handshake.take_presence(True)
    assert handshake.advance(1) == []
    assert handshake.phase is Phase.CHECKING


def test_presence_is_lost_once_and_only_of_an_open_session() -> None:
    handshake = walk(make_handshake(), Phase.OPENING, 0)
    assert [handshake.take_presence(matched) for matched in (True, False)] == ["", ""]
    handshake.take_session_reply("/a", handshake.epoch, REPLY, 0)
    handshake.take_presence(True)
    handshake.advance(0)
    assert [handshake.take_presence(matched) for matched in (True, False, False)] == [
        "",
        "server's presence lost",
        "",
    ]


def test_a_status_from_before_the_session_ends_it_at_the_third_time() -> None:
    handshake = walk(make_handshake(), Phase.OPEN, 0)
    found = [handshake.take_server_status("/a", SERVER, ("another",)) for _ in range(3)]
    assert found == ["", "", "server closed the session"]


def test_a_session_that_was_listed_is_closed_when_it_is_listed_no_more() -> None:
    handshake = walk(make_handshake(), Phase.OPEN, 0)
    assert handshake.take_server_status("/a", SERVER, ("another",)) == ""
    assert handshake.take_server_status("/a", SERVER, ("another", "s")) == ""
    assert handshake.take_server_status("/a", SERVER, ("another",)) == "server closed the session"


def test_a_new_session_is_given_its_own_statuses() -> None:
    handshake = walk(make_handshake(), Phase.OPEN, 0)
    for _ in range(2):
        assert handshake.take_server_status("/a", SERVER, ()) == ""
    handshake.take_delivery()
    handshake.lose(0, move_on=False)
    walk(handshake, Phase.OPEN, 0)
    found = [handshake.take_server_status("/a", SERVER, ()) for _ in range(3)]
    assert found == ["", "", "server closed the session"]


@pytest.mark.parametrize("phase", [Phase.WAITING, Phase.MATCHING])
def test_a_status_ends_no_session_that_is_not_open(phase: Phase) -> None:
    handshake = walk(make_handshake(), phase, 0)
    assert handshake.take_server_status("/a", "another instance", ()) == ""


def test_a_status_ends_no_session_that_this_robot_has_closed_nor_that_of_another_server() -> None:
    handshake = walk(make_handshake("/a", "/b"), Phase.OPEN, 0)
    assert handshake.take_server_status("/b", "another instance", ()) == ""
    assert handshake.close() == [CloseSession("/a", "s", REPLY.session_token)]
    assert handshake.take_server_status("/a", "another instance", ()) == ""
    assert handshake.close() == []


# -- losses and pauses ---------------------------------------------------------------------------------------


def is_tried_at_once(handshake: Handshake, now_ns: int) -> bool:
    return bool(handshake.advance(now_ns))


def test_a_session_counts_as_failed_though_the_one_before_it_delivered() -> None:
    handshake = walk(make_handshake(), Phase.OPEN, 0)
    handshake.take_delivery()
    handshake.lose(0, move_on=False)
    walk(handshake, Phase.OPEN, 0)
    handshake.lose(0, move_on=False)
    assert not is_tried_at_once(handshake, 1)


def test_a_session_that_delivered_ends_the_doubling_of_the_pauses() -> None:
    """`make_handshake` begins with a pause of half a second."""
    handshake, now_ns = make_handshake(), 0
    for _ in range(4):
        refuse(handshake, FULL, now_ns)
        now_ns += ns(100)
    walk(handshake, Phase.OPEN, now_ns)
    handshake.take_delivery()
    handshake.lose(now_ns, move_on=False)
    refuse(handshake, FULL, now_ns)
    assert is_tried_at_once(handshake, now_ns + ns(0.5 * 1.25))


def test_a_silent_server_is_told_from_five_seconds_after_the_first_attempt_on() -> None:
    for after_s, told in ((4.9, []), (5.0, [Warn("server /a is silent")])):
        handshake = walk(make_handshake(), Phase.CHECKING, ns(1.0))
        assert handshake.take_status_reply("/a", None, "", ns(1.0 + after_s)) == told


# -- invitations ---------------------------------------------------------------------------------------------


def pausing(seed: int = 0) -> Handshake:
    """Return a handshake in a pause of more than a second, before its first server is tried again."""
    pauses = {"reconnect_initial_backoff_s": 8.0, "reconnect_max_backoff_s": 9.0}
    handshake = make_handshake("/a", "/b", seed=seed, **pauses)
    for _ in range(2):
        refuse(handshake, FULL, 0)
    assert handshake.server == "/a"
    return handshake


def invited_after_s(handshake: Handshake, limit_s: float = 1.0) -> float | None:
    """Return when the next attempt comes, None when it does not within the limit."""
    for step in range(round(limit_s * 1000) + 1):
        if handshake.advance(ns(1.0) + step * 1_000_000):
            return step / 1000
    return None


def test_a_server_that_accepts_again_ends_the_pause_of_a_fleet_within_moments() -> None:
    """Not of all robots at the same instant, nor in the past."""
    moments = []
    for seed in range(40):
        handshake = pausing(seed)
        handshake.take_invitation("/b", "i", True, ns(1.0), ())
        assert handshake.server == "/b"
        assert handshake.advance(ns(1.0) - 1) == []
        moments.append(invited_after_s(handshake))
    found = [moment for moment in moments if moment is not None]
    assert len(found) == 40
    assert 0.15 < max(found) <= 0.2
    assert min(found) < 0.05


def test_a_server_that_accepts_nobody_does_not_invite() -> None:
    handshake = pausing()
    handshake.take_invitation("/b", "i", False, ns(1.0), ())
    assert handshake.server == "/a"
    assert invited_after_s(handshake) is None


def test_an_invitation_moves_no_attempt_to_later_and_disturbs_none() -> None:
    handshake = pausing()
    handshake.take_invitation("/b", "i", True, ns(1.0), ())
    due_s = invited_after_s(handshake)
    handshake = pausing()
    for later_s in (1.0, 1.1, 1.15):
        handshake.take_invitation("/b", "i", True, ns(later_s), ())
    assert due_s is not None
    found_s = invited_after_s(handshake)
    assert found_s is not None
    assert found_s <= due_s
    assert handshake.phase is Phase.CHECKING
    handshake.take_invitation("/a", "j", True, ns(1.3), ())
    assert (handshake.phase, handshake.server) == (Phase.CHECKING, "/b")
    assert handshake.advance(ns(1.0 + found_s) + 1) == []


def let_both_refuse(handshake: Handshake, rejection: str) -> None:
    """Let /b, which has invited, answer with a refusal, and /a after it; the pause is long then."""
    assert invited_after_s(handshake) is not None
    if rejection == "accepts nobody":
        handshake.take_status_reply("/b", replace(STATUS, accepting=False), "", ns(2.0))
    else:
        handshake.take_status_reply("/b", STATUS, "", ns(2.0))
        refusal = SessionReply(accepted=False, rejection=rejection, message="no")
        handshake.take_session_reply("/b", handshake.epoch, refusal, ns(2.0))
    assert handshake.server == "/a", "tried at once: not all have failed since"
    refuse(handshake, FULL, ns(2.0))


def is_invited(handshake: Handshake, now_s: float) -> bool:
    return bool(handshake.advance(ns(now_s + 0.2)))


@pytest.mark.parametrize("rejection", ["accepts nobody", "draining", CAPACITY_REJECTION])
def test_a_server_that_has_refused_does_not_invite_by_the_status_it_had(rejection: str) -> None:
    handshake = pausing()
    handshake.take_invitation("/b", "i", True, ns(1.0), ("another",))
    let_both_refuse(handshake, rejection)
    handshake.take_invitation("/b", "i", True, ns(2.1), ("another",))
    assert not is_invited(handshake, 2.1)


@pytest.mark.parametrize(("rejection", "invites"), [(CAPACITY_REJECTION, True), ("draining", False)])
def test_a_session_that_ends_invites_whom_it_was_in_the_way_of(rejection: str, invites: bool) -> None:
    handshake = pausing()
    handshake.take_invitation("/b", "i", True, ns(1.0), ("another",))
    let_both_refuse(handshake, rejection)
    handshake.take_invitation("/b", "i", True, ns(2.1), ())
    assert is_invited(handshake, 2.1) is invites


def test_a_server_invites_when_it_was_silent_for_more_than_three_seconds() -> None:
    invitations = Invitations()
    assert invitations.note_status("/a", "i", True, 0)
    invitations.answer("/a")
    assert not invitations.note_status("/a", "i", True, ns(3.0))
    assert invitations.note_status("/a", "i", True, ns(6.0) + 1)


def test_a_server_that_stops_accepting_invites_no_more() -> None:
    invitations = Invitations()
    assert invitations.note_status("/a", "i", True, 0)
    assert not invitations.note_status("/a", "i", False, 1)
    invitations.answer("/b")
    assert invitations.note_status("/a", "i", True, 2), "it does again"


# -- two of one name -----------------------------------------------------------------------------------------


def test_a_newcomer_gives_its_session_up_for_the_one_that_was_there_and_says_so_every_ten_seconds() -> None:
    handshake = walk(make_handshake("/a", "/b"), Phase.MATCHING, 0)
    waits = Warn("another node is called /robot_1/client: waiting until it is gone")
    assert handshake.note_duplicate(True, ns(1.0)) == [CloseSession("/a", "s", REPLY.session_token), waits]
    assert (handshake.phase, handshake.server) == (Phase.WAITING, "/b")
    assert handshake.note_duplicate(True, ns(11.0) - 1) == []
    assert handshake.note_duplicate(True, ns(11.0)) == [waits]
    assert handshake.server == "/b", "it is no further attempt"
    assert handshake.advance(ns(100.0)) == []
    assert handshake.note_duplicate(False, ns(100.0)) == []
    assert handshake.advance(ns(100.0)) == [GetStatus("/b")]
    assert handshake.note_duplicate(True, ns(100.1))[-1] == waits, "it is another one"
    assert handshake.note_duplicate(False, ns(100.2)) == []
    assert handshake.note_duplicate(True, ns(100.3))[-1] == waits, "and a third, however soon"


def test_a_node_that_has_had_a_session_stays() -> None:
    handshake = walk(make_handshake(), Phase.OPEN, 0)
    assert handshake.note_duplicate(True, 1) == []
    assert handshake.open
    assert handshake.note_duplicate(False, 2) == []
    assert handshake.advance(ns(TIMEOUT_S) + 3) == []
    assert handshake.open


def test_of_three_servers_of_one_name_those_that_are_alive_are_named() -> None:
    duplicates = DuplicateServers()
    assert [duplicates.note_sender("/a", one, 0) for one in ("old", "i", "j")] == [[], [], []]
    (warning,) = duplicates.note_sender("/a", "i", 0)
    assert warning == Warn("servers of one name, /a: instances i and j; end all but one")
    assert [duplicates.include("/a", one) for one in ("old", "i", "j", "k")] == [False, True, True, False]
    assert duplicates.note_sender("/a", "j", ns(10.0) - 1) == []
    (warning,) = duplicates.note_sender("/a", "i", ns(10.0))
    assert warning == Warn("servers of one name, /a: instances i and j; end all but one")


def test_of_many_senders_of_one_name_the_newest_are_told_apart() -> None:
    duplicates = DuplicateServers()
    for number in range(MAX_INSTANCES + 1):
        assert duplicates.note_sender("/a", f"i{number}", 0) == []
    assert duplicates.note_sender("/a", "i0", 0) == [], "forgotten"
    assert duplicates.note_sender("/a", "i2", 0) != []


def test_a_camera_is_offered_where_the_policy_uses_it() -> None:
    handshake = walk(make_handshake(), Phase.OPENING, 0)
    assert [image.name for image in handshake.offer.images] == [CAMERA]
