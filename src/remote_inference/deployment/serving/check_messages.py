# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What can be said of a contract's messages without the robot: whether sources can be read, commands written.

A message type that is not installed here may be installed on the robot. A field that the type does not have
is a mistake everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from remote_inference.core.contract.commands.controller_facts import INTERPOLATE
from remote_inference.core.contract.contract import Contract
from remote_inference.core.contract.state_source import StateSource
from remote_inference.core.documents.document import DocumentError
from remote_inference.wire import WireError, make_command_writer, message_class
from remote_inference.wire.message_types import command_class, find_remedy
from remote_inference.wire.sensors.stamps import is_stamped
from remote_inference.wire.sensors.state_readers import make_state_reader


def find_message_warnings(path: Path, contract: Contract) -> list[str]:
    """Return a warning for each source and command whose message type is not installed here.

    Raises DocumentError, naming the file and the key, for fields that a type does not have, and for a reader
    of a message type that cannot be used.
    """
    tries: dict[str, tuple[str, Callable[[], object]]] = {
        place: (source.type, partial(make_state_reader, source, place))
        for place, source in contract.state_sources.items()
    }
    for number, sink in enumerate(contract.commands):
        tries[f"commands.{number}"] = sink.type, partial(make_command_writer, sink, contract)
    warnings = []
    for place, (type_name, make) in tries.items():
        if not _is_installed(type_name):
            remedy = find_remedy(type_name)
            hint = f"; to check it: {remedy}" if remedy else ""
            warnings.append(f"{place}.type: {type_name} is not installed here: not checked{hint}")
        elif problem := _find_problem(make):
            where = "" if problem.startswith(place) else f"{place}."
            raise DocumentError(f"{path}: {where}{problem}")
    return warnings


def find_controller_warnings(contract: Contract) -> list[str]:
    """Return what trajectory controllers must be told, whose own parameters nobody sees here."""
    topics = [sink.topic for sink in contract.topic_commands if sink.interface.takes_horizon]
    if not topics:
        return []
    return [
        f"commands: {', '.join(topics)}: a joint_trajectory_controller without {INTERPOLATE} leads the arm "
        "faster than its limits (docs/reference/drivers.md): set it; doctor --contract looks whether it is"
    ]


def describe_sources(contract: Contract) -> Iterator[str]:
    """Yield a line for each source: its topic, its type, and how old the node takes a message for."""
    for place, source in contract.state_sources.items():
        use = "positions" if place == "measured" else "state"
        yield f"  {use} from {source.topic}: {source.type}, {_describe_age(source)}"


def _describe_age(source: StateSource) -> str:
    if not _is_installed(source.type):
        return "age unknown here"
    if is_stamped(message_class(source.type)):
        return "age by the header's stamp"
    return "age by arrival: without a header, messages that a driver repeats count as new"


def _is_installed(type_name: str) -> bool:
    try:
        command_class(type_name)
    except WireError:
        return False
    return True


def _find_problem(make: Callable[[], object]) -> str:
    try:
        make()
    except WireError as error:
        return str(error)
    return ""
