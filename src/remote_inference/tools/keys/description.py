# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The fleet's description: who belongs to it, and who works with whom."""

from __future__ import annotations

import datetime
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator
from typing_extensions import Self

from remote_inference.base.documents.document import Document, DocumentError, load_document, parse_document
from remote_inference.base.documents.problems import show_value
from remote_inference.base.documents.yaml_text import dump_yaml

# -- Writes files and folders atomically: each appears complete or not at all ----------------------------


def write_files(files: Mapping[Path, tuple[bytes, int]]) -> None:
    """Write temporary files (content and mode), and move them into place once all are written.

    Raises OSError; if a file cannot be written, every previous file stays.
    """
    written: dict[Path, str] = {}
    try:
        for path, (content, mode) in files.items():
            handle, written[path] = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # 0600
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(written[path], mode)
        for path in files:
            os.replace(written[path], path)
            del written[path]
    except BaseException:
        for name in written.values():
            os.unlink(name)
        raise


def write_folder(folder: Path, files: Mapping[str, tuple[bytes, int]]) -> None:
    """Make a folder with files (content and mode by name). Raises FileExistsError and other OSErrors."""
    if folder.exists():
        raise FileExistsError(f"{folder} exists already")
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        write_files({temporary / name: file for name, file in files.items()})
        temporary.rename(folder)
    except BaseException:
        shutil.rmtree(temporary)
        raise


FILE_NAME = "fleet.yaml"
MAX_NAME_LENGTH = 64  # of a certificate's common name
# First chunks of keys that every ROS system shares; a member with one of these names would own those keys.
SHARED_NAMES = frozenset(
    {"rosout", "parameter_events", "diagnostics", "diagnostics_agg", "tf", "tf_static", "clock"}
)
HEADER = "# Kept by `remote-inference fleet`, which rewrites this file: comments do not last.\n"
ENDPOINT = re.compile(r"tls/(?P<host>[A-Za-z0-9.-]+|\[[0-9a-fA-F:.]+\]):(?P<port>[0-9]{1,5})")


def check_name(name: str) -> str:
    """Return `name` if it is valid as ROS name, Zenoh chunk and common name. Raises ValueError otherwise."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or len(name) > MAX_NAME_LENGTH:
        raise ValueError(
            f"found name {show_value(name)}, expected a letter, then letters, digits and _, "
            f"{MAX_NAME_LENGTH} characters at most"
        )
    if name in SHARED_NAMES:
        raise ValueError(f"found name {name!r}, expected one that no shared ROS topic has")
    return name


def check_endpoint(endpoint: str) -> str:
    """Return `endpoint` if it is a router's TLS endpoint. Raises ValueError otherwise."""
    match = ENDPOINT.fullmatch(endpoint)
    if match is None or not 0 < int(match["port"]) < 65536:
        raise ValueError(f"found endpoint {show_value(endpoint)}, expected tls/<host>:<port>")
    return endpoint


def _check_directory(directory: str) -> str:
    if not Path(directory).is_absolute():
        raise ValueError(f"found {show_value(directory)}, expected an absolute path")
    return directory


Name = Annotated[str, AfterValidator(check_name)]
Endpoint = Annotated[str, AfterValidator(check_endpoint)]


class Router(Document):
    """A router of the fleet: the endpoints at which members and other routers dial it."""

    endpoints: tuple[Endpoint, ...] = Field(min_length=1)

    @property
    def hosts(self) -> list[str]:
        """Host names and addresses of the endpoints, each once."""
        matches = [ENDPOINT.fullmatch(endpoint) for endpoint in self.endpoints]
        return list(dict.fromkeys(match["host"].strip("[]") for match in matches if match))

    @property
    def ports(self) -> list[int]:
        """Ports of the endpoints, each once."""
        return list(dict.fromkeys(int(endpoint.rpartition(":")[2]) for endpoint in self.endpoints))


class Assigned(Document):
    """A robot or a trainer: the servers it works with."""

    servers: tuple[Name, ...] = Field(min_length=1)


class Fleet(Document):
    """All members by role. A name is given once, whatever the role."""

    directory: Annotated[str, AfterValidator(_check_directory)] = "/etc/remote_inference"
    routers: dict[Name, Router] = Field(default={})
    servers: tuple[Name, ...] = ()
    trainers: dict[Name, Assigned] = Field(default={})
    robots: dict[Name, Assigned] = Field(default={})
    operators: tuple[Name, ...] = ()
    revoked: dict[Name, datetime.date] = Field(default={})

    @model_validator(mode="after")
    def _check_references(self) -> Self:
        seen: dict[str, str] = {}
        for role, name in [*self.members(), *(("revoked", name) for name in self.revoked)]:
            if name in seen:
                raise ValueError(
                    f"{role}: found {name!r}, which is in {seen[name]}, expected a name given once"
                )
            seen[name] = role
        for role, assigned in (("robots", self.robots), ("trainers", self.trainers)):
            for name, member in assigned.items():
                for server in member.servers:
                    if server not in self.servers:
                        known = ", ".join(self.servers) or "none yet"
                        raise ValueError(
                            f"{role}.{name}.servers: found {server!r}, expected one of the servers ({known})"
                        )
        return self

    def members(self) -> Iterator[tuple[str, str]]:
        """Yield role and name of everyone who holds a certificate."""
        for role in ("routers", "servers", "trainers", "robots", "operators"):
            for name in getattr(self, role):
                yield role, name

    def users_of(self, server: str, role: Literal["robots", "trainers"]) -> list[str]:
        """Return the robots or the trainers that are assigned to a server."""
        assigned: dict[str, Assigned] = getattr(self, role)
        return [name for name, user in assigned.items() if server in user.servers]


def load_fleet(folder: Path) -> Fleet:
    """Return a fleet's description. Raises DocumentError if the file cannot be read or is invalid."""
    return load_document(folder / FILE_NAME, Fleet)


def save_fleet(folder: Path, fleet: Fleet) -> None:
    """Write a fleet's description completely or not at all. Raises OSError."""
    text = HEADER + dump_yaml(fleet.model_dump())
    write_files({folder / FILE_NAME: (text.encode(), 0o644)})


def with_member(fleet: Fleet, role: str, name: str, details: dict[str, Any], source: str) -> Fleet:
    """Return the fleet with one more member. Raises DocumentError if the result would be invalid.

    details: keys of a router, robot or trainer.
    """
    if name in (known for _, known in fleet.members()):
        raise DocumentError(f"{source}: {role}: found {name!r}, a member already, expected a new name")
    if name in fleet.revoked:
        until = fleet.revoked[name]
        raise DocumentError(
            f"{source}: {role}: found {name!r}, expected another name: "
            f"its revoked certificate is valid until {until}"
        )
    content = fleet.model_dump()
    content[role] = (
        {**content[role], name: details} if isinstance(content[role], dict) else (*content[role], name)
    )
    return parse_document(content, Fleet, source)


def without_member(fleet: Fleet, name: str, until: datetime.date, source: str) -> Fleet:
    """Return the fleet with one member revoked. Raises DocumentError if the member is still in use.

    until: day on which the member's certificate expires.
    """
    role = role_of(fleet, name, source)
    places = [f"robots.{user}" for user in fleet.users_of(name, "robots")]
    places += [f"trainers.{user}" for user in fleet.users_of(name, "trainers")]
    if places:
        raise DocumentError(f"{source}: {places[0]}.servers: found {name!r}, expected it to be removed first")
    content = fleet.model_dump()
    if isinstance(content[role], dict):
        del content[role][name]
    else:
        content[role] = tuple(other for other in content[role] if other != name)
    content["revoked"][name] = until
    return parse_document(content, Fleet, source)


def role_of(fleet: Fleet, name: str, source: str) -> str:
    """Return a member's role, a key of the description. Raises DocumentError for an unknown name."""
    for role, known in fleet.members():
        if known == name:
            return role
    names = ", ".join(known for _, known in fleet.members()) or "none yet"
    raise DocumentError(f"{source}: found no member {name!r}, expected one of {names}")
