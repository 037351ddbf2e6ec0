# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The rules themselves: the members whose keys they match."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from keys_rig import token, topic
from router_topics import ROBOT_TOPICS
from zenoh import KeyExpr

from remote_inference.tools.keys.access import EVERY_KEY, GRAPH, MESSAGES, access_control
from remote_inference.tools.keys.description import Assigned, Fleet, Router

FLEET = Fleet(
    routers={"hub": Router(endpoints=("tls/hub.lab:7447",))},
    servers=("gpu_1", "gpu_10"),
    trainers={"trainer_1": Assigned(servers=("gpu_1",))},
    robots={
        "robot_1": Assigned(servers=("gpu_1",)),
        "robot_2": Assigned(servers=("gpu_1", "gpu_10")),
        "robot_10": Assigned(servers=("gpu_10",)),
    },
    operators=("alice",),
)


def keys_of(member: str, *messages: str, flow: str | None = None) -> Iterator[str]:
    for rule in access_control(FLEET)["rules"]:
        owner, direction, message = rule["id"].split()
        if owner == member and direction == (flow or direction) and (not messages or message in messages):
            yield from rule["key_exprs"]


@pytest.mark.parametrize(
    "stranger", ["robot_2", "robot_10", "robot", "robot_1/sub", "lab/robot_1", "robot_1_"]
)
def test_no_rule_of_a_robot_matches_a_key_of_another(stranger: str):
    node = f"/{stranger}/remote_inference"
    names = ("observation", "chunk", "state", "executed", "preview", "preview/tool", "reset")
    strange = [
        *(topic(f"{stranger}/remote_inference/{name}") for name in names),
        topic(f"{stranger}/remote_inference/state") + "/@adv/pub/c0ffee/1/_",
        token("NN", node),
        *(token(kind, node, f"{node}/{name}") for kind in ("MP", "MS", "SS", "SC") for name in names),
        *(token("MP", "/gpu_1", f"{node}/{name}") for name in names),
        *(token("MP", "/robot_1/remote_inference", f"{node}/{name}") for name in names),
    ]
    for key in keys_of("robot_1"):
        if key != GRAPH:
            assert not [one for one in strange if KeyExpr(key).intersects(KeyExpr(one))], key


@pytest.mark.parametrize("stranger", ["gpu_10", "gpu", "gpu_1_"])
def test_no_rule_of_a_robot_matches_a_key_of_a_server_that_is_not_its_own(stranger: str):
    strange = [
        topic(f"{stranger}/status"),
        topic(f"{stranger}/open_session"),
        token("NN", f"/{stranger}"),
        token("SS", f"/{stranger}", f"/{stranger}/open_session"),
        token("MP", f"/{stranger}", "/robot_1/remote_inference/chunk"),
    ]
    for key in keys_of("robot_1"):
        if key != GRAPH:
            assert not [one for one in strange if KeyExpr(key).intersects(KeyExpr(one))], key


@pytest.mark.parametrize(
    ("member", "services"),
    [
        ("robot_1", {"open_session", "close_session", "reset_session", "get_status"}),
        ("trainer_1", {"open_weights_link"}),
    ],
)
def test_of_a_server_s_services_robots_and_trainers_may_call_their_own_alone(member: str, services: set[str]):
    every = {
        *("open_session", "close_session", "reset_session", "get_status"),
        *("open_weights_link", "rollback_weights", "change_state", "set_parameters"),
    }
    keys = [KeyExpr(key) for key in keys_of(member, "query", flow="ingress")]
    callable_by_it = {
        name for name in every if any(key.intersects(KeyExpr(topic(f"gpu_1/{name}", "srv"))) for key in keys)
    }
    assert callable_by_it == services


def test_what_one_end_may_send_the_other_may_receive():
    """Every grant between routers and members has a counterpart, so no rule is useless."""
    members = [name for role, name in FLEET.members() if role != "routers"]
    allowed = {
        name: {flow: set(keys_of(name, flow=flow)) for flow in ("ingress", "egress")} for name in members
    }
    for name in members:
        for key in allowed[name]["egress"]:
            assert any(key in allowed[other]["ingress"] for other in members), (name, key)


def test_operators_and_robots_publish_only_on_their_own_topics():
    assert list(keys_of("alice", "put", "delete", "declare_queryable", "reply", flow="ingress")) == []
    puts = {
        *(f"*/robot_1/remote_inference/{name}/**" for name in (*ROBOT_TOPICS, "preview")),
        *(f"*/robot_1/remote_inference/run_policy/_action/{name}/**" for name in ("feedback", "status")),
        "*/robot_1/remote_inference/state/**/@adv/pub/**",
        "*/robot_1/remote_inference/preview/**/@adv/pub/**",
        "*/robot_1/remote_inference/run_policy/_action/status/**/@adv/pub/**",
    }
    assert set(keys_of("robot_1", "put", "delete", flow="ingress")) == puts


def test_what_a_robot_does_next_is_for_operators_and_no_server():
    holders = {name for _, name in FLEET.members() if any("preview" in key for key in keys_of(name))}
    assert holders == {"alice", "robot_1", "robot_2", "robot_10"}


def test_only_routers_have_rules_for_every_key():
    for role, name in FLEET.members():
        assert set(EVERY_KEY).isdisjoint(keys_of(name)) == (role != "routers"), name


def test_everything_else_is_denied():
    section = access_control(FLEET)
    assert section["enabled"] is True
    assert section["default_permission"] == "deny"
    assert {rule["permission"] for rule in section["rules"]} == {"allow"}
    assert {message for rule in section["rules"] for message in rule["messages"]} <= set(MESSAGES)


def test_every_subject_is_one_certificate_and_identifiers_are_unique():
    section = access_control(FLEET)
    names = [name for _, name in FLEET.members()]
    assert [subject["cert_common_names"] for subject in section["subjects"]] == [[name] for name in names]
    ids = [rule["id"] for rule in section["rules"]]
    assert len(ids) == len(set(ids))
    assert [rule for policy in section["policies"] for rule in policy["rules"]] == ids


def test_an_empty_fleet_has_an_empty_list():
    assert access_control(Fleet())["rules"] == []
