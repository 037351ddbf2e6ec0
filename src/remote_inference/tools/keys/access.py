# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Turns the fleet's description into Zenoh's access control list: which member may send what to a router.

A rule holds on the link between a router and one member, which its certificate's common name identifies.
Ingress is what the member sends; egress is what the member receives. The member at the other end gets the
same grants with ingress and egress swapped. What no rule allows is denied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import product, starmap
from typing import Any, NamedTuple

from remote_inference.tools.keys.description import Fleet

INGRESS, EGRESS = "ingress", "egress"
NODE = "remote_inference"  # name of every robot's node, in the robot's namespace
ACTION = "run_policy"  # of every robot's node
SESSION_SERVICES = ("open_session", "close_session", "reset_session", "get_status")
WEIGHTS_SERVICE = "open_weights_link"
TRAINER_NODE = "weights_trainer"  # begin of the names of a trainer's nodes, in the namespace of its name
MESSAGES = (
    "put",
    "delete",
    "declare_subscriber",
    "query",
    "reply",
    "declare_queryable",
    "liveliness_token",
    "liveliness_query",
    "declare_liveliness_subscriber",
)
# `*` and `**` match no chunk that begins with @, so these keys are listed.
EVERY_KEY = ("**", "@ros2_lv/**", "**/@adv/**")
GRAPH = "@ros2_lv/*/**"


class Grant(NamedTuple):
    """One kind of message in one direction on the keys of one expression."""

    flow: str
    message: str
    key: str


def access_control(fleet: Fleet) -> dict[str, Any]:
    """Return the `access_control` section of every router of a fleet."""
    rules, subjects, policies = [], [], []
    for role, name in fleet.members():
        own = [*_rules(name, _GRANTS[role](fleet, name))]
        rules += own
        subjects.append({"id": name, "cert_common_names": [name]})
        policies.append({"id": name, "rules": [rule["id"] for rule in own], "subjects": [name]})
    lists = {"rules": rules, "subjects": subjects, "policies": policies}
    return {"enabled": True, "default_permission": "deny", **lists}


def _rules(name: str, grants: Iterable[Grant]) -> Iterator[dict[str, Any]]:
    keys: dict[tuple[str, str], list[str]] = {}
    for flow, message, key in grants:
        keys.setdefault((flow, message), []).append(key)
    for (flow, message), key_exprs in keys.items():
        yield {
            "id": f"{name} {flow} {message}",
            "messages": [message],
            "flows": [flow],
            "permission": "allow",
            "key_exprs": sorted(set(key_exprs)),
        }


def _router(_fleet: Fleet, _name: str) -> Iterator[Grant]:
    """Let routers forward everything: each router has already checked its own members' messages."""
    yield from starmap(Grant, product((INGRESS, EGRESS), MESSAGES, EVERY_KEY))


def _robot(fleet: Fleet, robot: str) -> Iterator[Grant]:
    yield from _graph()
    yield from _robot_topics(robot)
    yield from _preview(robot)
    yield from _serve(_robot_node(robot), f"{robot}/{NODE}", "/$*")
    # A robot must notice a second node of the same name.
    yield from _swap(_tokens("MP", _robot_node(robot), f"{robot}/{NODE}/observation"))
    for server in fleet.robots[robot].servers:
        yield from _session(robot, server)


def _server(fleet: Fleet, server: str) -> Iterator[Grant]:
    yield from _graph()
    yield from _status(server)
    yield from _serve(_server_node(server), server, "/$*")
    for robot in fleet.users_of(server, "robots"):
        yield from _swap(_robot_topics(robot))
        yield from _swap(_session(robot, server))
    for trainer in fleet.users_of(server, "trainers"):
        yield from _swap(_trainer_topics(trainer))
        yield from _swap(_weights(trainer, server))


def _trainer(fleet: Fleet, trainer: str) -> Iterator[Grant]:
    yield from _graph()
    yield from _trainer_topics(trainer)
    for server in fleet.trainers[trainer].servers:
        yield from _swap(_status(server))
        yield from _weights(trainer, server)


def _operator(fleet: Fleet, _name: str) -> Iterator[Grant]:
    """Let operators read everything and call every service; they publish and serve nothing."""
    yield from _graph()
    for robot in fleet.robots:
        yield from _swap(_robot_topics(robot))
        yield from _swap(_preview(robot))
        yield from _swap(_topic(f"{robot}/{NODE}/chunk"))
        yield from _swap(_serve(_robot_node(robot), f"{robot}/{NODE}", "/$*"))
    for server in fleet.servers:
        yield from _swap(_status(server))
        yield from _swap(_serve(_server_node(server), server, "/$*"))


_GRANTS: dict[str, Callable[[Fleet, str], Iterator[Grant]]] = {
    "routers": _router,
    "servers": _server,
    "trainers": _trainer,
    "robots": _robot,
    "operators": _operator,
}


# -- exchanges between two members, as the grants of the first ----------------------------------------------


def _robot_topics(robot: str) -> Iterator[Grant]:
    """Publish a robot's topics and the tokens of its node."""
    node, own = _robot_node(robot), f"{robot}/{NODE}"
    for topic in ("observation", "executed", f"{ACTION}/_action/feedback"):
        yield from _publish(node, f"{own}/{topic}")
    for topic in ("state", f"{ACTION}/_action/status"):
        yield from _publish(node, f"{own}/{topic}", is_latched=True)
    yield from _tokens("MS", node, f"{own}/chunk")
    yield from _node_token(node)


def _preview(robot: str) -> Iterator[Grant]:
    """Publish a robot's actions ahead, which people watch and no server needs."""
    yield from _topic(f"{robot}/{NODE}/preview", is_latched=True)
    yield from _tokens("MP", _robot_node(robot), f"{robot}/{NODE}/preview$*")


def _session(robot: str, server: str) -> Iterator[Grant]:
    """Receive chunks and status from a server, call its session services, and see its tokens."""
    node, other = _robot_node(robot), _server_node(server)
    yield from _swap(_publish(other, f"{robot}/{NODE}/chunk"))
    for topic in ("observation", "state", "executed"):
        yield from _swap(_tokens("MS", other, f"{robot}/{NODE}/{topic}"))
    yield from _swap(_status(server))
    yield from _tokens("MS", node, f"{server}/status")
    for service in SESSION_SERVICES:
        yield from _swap(_serve(other, f"{server}/{service}"))
        yield from _tokens("SC", node, f"{server}/{service}")


def _status(server: str) -> Iterator[Grant]:
    """Publish a server's status and the tokens of its node."""
    yield from _publish(_server_node(server), f"{server}/status", is_latched=True)
    yield from _node_token(_server_node(server))


def _trainer_topics(trainer: str) -> Iterator[Grant]:
    """Publish and serve everything under a trainer's name."""
    yield from _topic(trainer, is_latched=True)
    yield from _serve(f"%/{trainer}", trainer, "/$*")
    yield from _tokens("MP", f"%/{trainer}", f"{trainer}/$*")
    yield from _node_token(f"%/{trainer}")


def _weights(trainer: str, server: str) -> Iterator[Grant]:
    """Open links to a server, send it weights, receive its replies, and see its tokens."""
    own, other = f"%{trainer}/{TRAINER_NODE}_$*", _server_node(server)  # a node of its own for each link
    yield from _publish(own, f"{server}/weights")
    yield from _swap(_tokens("MS", other, f"{server}/weights"))
    yield from _swap(_publish(other, f"{server}/weights_replies"))
    yield from _tokens("MS", own, f"{server}/weights_replies")
    yield from _swap(_serve(other, f"{server}/{WEIGHTS_SERVICE}"))
    yield from _tokens("SC", own, f"{server}/{WEIGHTS_SERVICE}")
    yield from _node_token(own)


# -- ROS entities as Zenoh messages, as the grants of the member that declares them -------------------------


def _publish(node: str, topic: str, *, is_latched: bool = False) -> Iterator[Grant]:
    yield from _topic(topic, is_latched=is_latched)
    yield from _tokens("MP", node, topic)


def _topic(name: str, *, is_latched: bool = False) -> Iterator[Grant]:
    """Publish on a topic. is_latched: transient local; late subscribers query the publisher's cache."""
    key = f"*/{name}/**"
    yield Grant(INGRESS, "put", key)
    yield Grant(EGRESS, "declare_subscriber", key)
    if is_latched:
        publisher, subscriber = f"{key}/@adv/pub/**", f"{key}/@adv/sub/**"
        yield Grant(INGRESS, "declare_queryable", publisher)
        yield Grant(EGRESS, "query", f"{key}/@adv/**")
        yield Grant(INGRESS, "reply", key)
        yield Grant(INGRESS, "put", publisher)  # heartbeats
        yield Grant(EGRESS, "declare_subscriber", publisher)
        yield Grant(INGRESS, "liveliness_token", publisher)
        yield Grant(EGRESS, "declare_liveliness_subscriber", publisher)
        yield Grant(EGRESS, "liveliness_query", publisher)
        yield Grant(EGRESS, "liveliness_token", subscriber)


def _serve(node: str, name: str, below: str = "") -> Iterator[Grant]:
    """Serve a service, or all `below` a name."""
    key = f"*/{name}/**"
    yield Grant(INGRESS, "declare_queryable", key)
    yield Grant(EGRESS, "query", key)
    yield Grant(INGRESS, "reply", key)
    yield from _tokens("SS", node, name + below)


def _tokens(kind: str, node: str, name: str) -> Iterator[Grant]:
    """Declare a node's endpoints of kind MP, MS, SS or SC on a topic or service, whose name is mangled."""
    mangled = f"%{name}".replace("/", "%")
    yield Grant(INGRESS, "liveliness_token", f"@ros2_lv/*/*/*/*/{kind}/*/{node}/{mangled}/**")


def _node_token(node: str) -> Iterator[Grant]:
    yield Grant(INGRESS, "liveliness_token", f"@ros2_lv/*/*/*/*/NN/*/{node}")


def _graph() -> Iterator[Grant]:
    """Ask for liveliness tokens; other grants decide which tokens come back."""
    yield Grant(INGRESS, "declare_liveliness_subscriber", GRAPH)
    yield Grant(INGRESS, "liveliness_query", GRAPH)


def _swap(grants: Iterable[Grant]) -> Iterator[Grant]:
    """Turn what a member may do into what its counterparts may do."""
    for flow, message, key in grants:
        yield Grant(EGRESS if flow == INGRESS else INGRESS, message, key)


def _robot_node(robot: str) -> str:
    return f"%{robot}/{NODE}"  # namespace and name, as tokens spell them


def _server_node(server: str) -> str:
    return f"%/{server}"
