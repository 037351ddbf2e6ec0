# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference fleet`: the files that it writes, what it refuses, and that a refusal changes nothing."""

from __future__ import annotations

import datetime
import json
import stat
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cryptography
import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from remote_inference.base.paths import share_path
from remote_inference.tools.cli import main
from remote_inference.tools.keys import authority as ca, description, verbs

NOW = datetime.datetime.now(datetime.timezone.utc)
A_DAY = datetime.timedelta(days=1)


@pytest.fixture(autouse=True)
def _no_passphrase(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(verbs.PASSPHRASE_VARIABLE, raising=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A fleet of one router, server and robot."""
    made = tmp_path / "fleet"
    assert fleet(made, "init") == 0
    assert fleet(made, "add router hub --endpoints tls/hub.lab:7447 tls/192.0.2.7:7448") == 0
    assert fleet(made, "add server gpu_1") == 0
    assert fleet(made, "add robot robot_1 --servers gpu_1") == 0
    return made


def fleet(folder: Path, words: str) -> int:
    return main(["fleet", *words.split(), "--folder", str(folder)])


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Everything under a folder, hidden leftovers included."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mode, b"" if path.is_dir() else path.read_bytes())
        for path in folder.rglob("*")
    }


def refused(folder: Path, words: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command that must fail and change nothing; return its message."""
    before = snapshot(folder)
    capsys.readouterr()
    assert fleet(folder, words) == 2
    assert snapshot(folder) == before
    return capsys.readouterr().err.strip()


def certificate(folder: Path, name: str) -> x509.Certificate:
    return ca.read_certificate(folder / "members" / name / verbs.CERTIFICATE_FILE)


# -- what it writes ------------------------------------------------------------------------------------------


def test_key_files_are_readable_by_their_owner_only(folder: Path):
    keys = list(folder.rglob("*key.pem"))
    assert len(keys) == 4
    assert {stat.S_IMODE(key.stat().st_mode) for key in keys} == {0o600}


def test_a_certificate_bears_its_member_s_name_and_serves_one_end_of_a_link(folder: Path):
    for name, usages in (("robot_1", 1), ("gpu_1", 1), ("hub", 2)):
        found = certificate(folder, name)
        assert [one.value for one in found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == [name]
        assert len(found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == usages
        found.verify_directly_issued_by(ca.read_certificate(folder / "authority" / ca.CERTIFICATE_FILE))


def test_a_router_s_certificate_names_its_hosts(folder: Path):
    names = certificate(folder, "hub").extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["hub.lab"]
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["192.0.2.7"]


def test_the_description_says_what_was_added(folder: Path):
    assert fleet(folder, "add operator alice") == 0
    assert fleet(folder, "add trainer trainer_1 --servers gpu_1") == 0
    found = description.load_fleet(folder)
    assert list(found.members()) == [
        ("routers", "hub"),
        ("servers", "gpu_1"),
        ("trainers", "trainer_1"),
        ("robots", "robot_1"),
        ("operators", "alice"),
    ]
    assert found.robots["robot_1"].servers == ("gpu_1",)


def test_rendering_secures_the_package_s_own_configurations(folder: Path):
    assert fleet(folder, "render") == 0
    base = verbs.load_base(share_path("config", "zenoh", "session.json5"))
    session = rendered(folder, "robot_1", verbs.SESSION_FILE)
    changed = {"mode", "connect", "listen", "transport", "scouting"}
    assert {key: session[key] for key in base if key not in changed} == {
        key: base[key] for key in base if key not in changed
    }
    assert session["transport"]["link"]["tx"] == base["transport"]["link"]["tx"]
    assert session["connect"]["endpoints"] == ["tls/hub.lab:7447", "tls/192.0.2.7:7448"]
    assert (
        session["transport"]["link"]["tls"]["connect_private_key"] == "/etc/remote_inference/robot_1/key.pem"
    )
    for name, file in (
        ("hub", verbs.ROUTER_FILE),
        ("robot_1", verbs.SESSION_FILE),
        ("robot_1", verbs.ROUTER_FILE),
    ):
        tls = rendered(folder, name, file)["transport"]["link"]["tls"]
        assert (tls["enable_mtls"], tls["verify_name_on_connect"], tls["close_link_on_expiration"]) == (
            True,
        ) * 3
    router = rendered(folder, "hub", verbs.ROUTER_FILE)
    assert router["listen"]["endpoints"] == ["tls/[::]:7447", "tls/[::]:7448"]
    assert router["transport"]["link"]["protocols"] == ["tls"]
    assert not router["scouting"]["gossip"]["enabled"]
    assert not router["scouting"]["multicast"]["enabled"]


def test_a_router_dials_the_routers_listed_before_it(folder: Path):
    assert fleet(folder, "add router hub_2 --endpoints tls/hub-2.lab:7447") == 0
    assert fleet(folder, "render") == 0
    assert rendered(folder, "hub", verbs.ROUTER_FILE)["connect"]["endpoints"] == []
    assert rendered(folder, "hub_2", verbs.ROUTER_FILE)["connect"]["endpoints"] == [
        "tls/hub.lab:7447",
        "tls/192.0.2.7:7448",
    ]


def test_every_expiry_is_shown(folder: Path, capsys: pytest.CaptureFixture[str]):
    authority = ca.load_authority(folder / "authority", lambda: b"", NOW)
    for name, issued in (("gpu_1", NOW - 10 * A_DAY), ("robot_1", NOW - 4 * A_DAY)):
        path = folder / "members" / name / verbs.CERTIFICATE_FILE
        _, certificate = authority.issue(name, issued, 5 * A_DAY)
        path.write_bytes(certificate)
    capsys.readouterr()
    assert fleet(folder, "render") == 0
    lines = capsys.readouterr().out.splitlines()
    year_on = f"{NOW + datetime.timedelta(days=365):%Y-%m-%d}"
    assert lines[1] == f"routers.hub: expires {year_on}"
    assert lines[2] == f"servers.gpu_1: expires {NOW - 5 * A_DAY:%Y-%m-%d} (EXPIRED)"
    assert lines[3] == f"robots.robot_1: expires {NOW + A_DAY:%Y-%m-%d}, renew it"


def test_json_is_one_entry_per_certificate(folder: Path, capsys: pytest.CaptureFixture[str]):
    def run_json(words: str) -> list[dict[str, str]]:
        capsys.readouterr()
        assert fleet(folder, f"{words} --json") == 0
        found: list[dict[str, str]] = json.loads(capsys.readouterr().out)
        return found

    year_on = f"{NOW + datetime.timedelta(days=365):%Y-%m-%d}"
    one = {"role": "robots", "name": "robot_2", "state": "valid", "expires": year_on}
    assert run_json("add robot robot_2 --servers gpu_1") == [one]
    assert run_json("renew robot_2") == [one]
    assert [(entry["role"], entry["name"]) for entry in run_json("render")] == [
        ("authority", ""),
        ("routers", "hub"),
        ("servers", "gpu_1"),
        ("robots", "robot_1"),
        ("robots", "robot_2"),
    ]
    assert run_json("revoke robot_2") == [{**one, "state": "revoked"}]


@pytest.mark.parametrize("words", ["init", "add server gpu_2", "renew robot_1", "revoke robot_1", "render"])
def test_quiet_prints_nothing(folder: Path, tmp_path: Path, words: str, capsys: pytest.CaptureFixture[str]):
    capsys.readouterr()
    assert fleet(tmp_path / "other" if words == "init" else folder, f"{words} --quiet") == 0
    assert capsys.readouterr() == ("", "")


def test_renewing_exchanges_key_and_certificate_and_nothing_else(folder: Path):
    assert fleet(folder, "render") == 0
    before = snapshot(folder)
    assert fleet(folder, "renew robot_1") == 0
    after = snapshot(folder)
    assert after.keys() == before.keys()
    changed = {path for path in after if after[path] != before[path]}
    assert changed == {f"members/robot_1/{name}" for name in (verbs.KEY_FILE, verbs.CERTIFICATE_FILE)}


def test_revoking_takes_rights_and_key_away(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert fleet(folder, "revoke robot_1") == 0
    assert "restart every router" in capsys.readouterr().out
    assert not (folder / "members" / "robot_1").exists()
    assert fleet(folder, "render") == 0
    assert "robot_1" not in (folder / "members" / "hub" / verbs.ROUTER_FILE).read_text()


def test_no_certificate_outlives_the_authority():
    authority = ca.create_authority("fleet", NOW, A_DAY)
    _, certificate = authority.issue("robot_1", NOW, 365 * A_DAY)
    issued = x509.load_pem_x509_certificate(certificate)
    assert ca.valid_until(issued) == ca.valid_until(authority.certificate)


def test_an_expiry_of_ubuntu_s_cryptography_which_has_no_time_zone_is_in_utc():
    # Nothing else in the command depends on the version.
    certificate = SimpleNamespace(not_valid_after=NOW.replace(tzinfo=None))  # as of 41.0.7
    assert ca.valid_until(certificate) == NOW  # type: ignore[arg-type]


def test_an_encrypted_authority_signs_with_its_passphrase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(verbs.PASSPHRASE_VARIABLE, "open sesame")
    assert fleet(tmp_path / "fleet", "init") == 0
    assert b"ENCRYPTED" in (tmp_path / "fleet" / "authority" / ca.KEY_FILE).read_bytes()
    assert fleet(tmp_path / "fleet", "add server gpu_1") == 0


def test_a_passphrase_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("getpass.getpass", lambda prompt: "open sesame")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert fleet(tmp_path / "fleet", "init --passphrase") == 0
    assert fleet(tmp_path / "fleet", "add server gpu_1") == 0


# -- what it refuses -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("package", ["cryptography", "json5"])
def test_a_package_that_is_missing_is_named_before_anything_is_written(
    tmp_path: Path, package: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, package, None)
    assert f"fleet: found no Python package {package}, expected" in refused(tmp_path, "init", capsys)


def test_a_package_that_is_too_old_is_named_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(cryptography, "__version__", "3.4.8")
    assert "fleet: found cryptography 3.4.8, expected 41 or newer" in refused(tmp_path, "init", capsys)


@pytest.mark.parametrize(
    "name", ["a/b", "*", "robot*", "$x", "a#b", "a?b", "1st", "_a", "ä", "a b", "x" * 65, "@x", "%x"]
)
def test_a_name_that_is_invalid_for_ros_or_zenoh_is_refused(
    folder: Path, name: str, capsys: pytest.CaptureFixture[str]
):
    before = snapshot(folder)
    assert main(["fleet", "add", "server", name, "--folder", str(folder)]) == 2
    assert snapshot(folder) == before
    assert f"found name {name!r}, expected a letter" in capsys.readouterr().err


def test_an_empty_name_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["fleet", "add", "robot", "", "--servers", "gpu_1", "--folder", str(folder)]) == 2
    assert "found name '', expected a letter" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(description.SHARED_NAMES))
def test_a_name_that_all_nodes_share_is_refused(folder: Path, name: str, capsys: pytest.CaptureFixture[str]):
    assert f"found name {name!r}" in refused(folder, f"add server {name}", capsys)


@pytest.mark.parametrize("words", ["add server gpu_1", "add server robot_1", "add robot hub --servers gpu_1"])
def test_a_name_is_given_once_across_all_roles(folder: Path, words: str, capsys: pytest.CaptureFixture[str]):
    message = refused(folder, words, capsys)
    assert f"fleet.yaml: {words.split()[1]}s: found {words.split()[2]!r}, a member already" in message


@pytest.mark.parametrize("words", ["revoke robot_9", "renew robot_9"])
def test_an_unknown_member_is_refused(folder: Path, words: str, capsys: pytest.CaptureFixture[str]):
    message = refused(folder, words, capsys)
    assert message.endswith("fleet.yaml: found no member 'robot_9', expected one of hub, gpu_1, robot_1")


def test_an_unknown_server_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]):
    message = refused(folder, "add robot robot_2 --servers gpu_9", capsys)
    assert message.endswith("robots.robot_2.servers: found 'gpu_9', expected one of the servers (gpu_1)")


def test_a_server_in_use_is_not_revoked(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert "robots.robot_1.servers: found 'gpu_1'" in refused(folder, "revoke gpu_1", capsys)


def test_a_revoked_name_is_not_given_again(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert fleet(folder, "revoke robot_1") == 0
    assert "its revoked certificate is valid until" in refused(
        folder, "add robot robot_1 --servers gpu_1", capsys
    )


@pytest.mark.parametrize(
    "endpoint",
    [
        "hub.lab:7447",
        "tcp/hub.lab:7447",
        "tls/hub.lab",
        "tls/hub.lab:0",
        "tls/hub.lab:70000",
        "tls/:7447",
        "tls/*:7447",
    ],
)
def test_an_endpoint_that_is_not_tls_is_refused(
    folder: Path, endpoint: str, capsys: pytest.CaptureFixture[str]
):
    message = refused(folder, f"add router hub_2 --endpoints {endpoint}", capsys)
    assert message.endswith(
        f"routers.hub_2.endpoints.0: found endpoint {endpoint!r}, expected tls/<host>:<port>"
    )


def test_a_fleet_is_not_made_over_another(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert "fleet.yaml: exists" in refused(folder, "init", capsys)


def test_keys_are_not_written_over_others(folder: Path, capsys: pytest.CaptureFixture[str]):
    (folder / "members" / "gpu_2").mkdir()
    assert "gpu_2 exists already" in refused(folder, "add server gpu_2", capsys)


@pytest.mark.parametrize("file", [ca.KEY_FILE, ca.CERTIFICATE_FILE])
@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "cannot be read: No such file"), ("", "found no "), ("dir", "Is a directory")],
)
def test_an_authority_that_cannot_be_read_is_refused(
    folder: Path, file: str, content: str | None, message: str, capsys: pytest.CaptureFixture[str]
):
    path = folder / "authority" / file
    path.unlink()
    if content == "dir":
        path.mkdir()
    elif content is not None:
        path.write_text(content)
    error = refused(folder, "add server gpu_2", capsys)
    assert str(path) in error
    assert message in error


def test_an_expired_authority_signs_nothing(folder: Path, capsys: pytest.CaptureFixture[str]):
    write_authority(folder, ca.create_authority("fleet", NOW - 3 * A_DAY, A_DAY))
    message = refused(folder, "add server gpu_2", capsys)
    assert (
        f"{ca.CERTIFICATE_FILE}: expired on {NOW - 2 * A_DAY:%Y-%m-%d}, expected a valid authority" in message
    )


def test_a_key_of_another_authority_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]):
    other = ca.create_authority("fleet", NOW, A_DAY)
    (folder / "authority" / ca.KEY_FILE).write_bytes(ca.key_pem(other.key, None))
    assert f"{ca.KEY_FILE}: found a key that does not match {ca.CERTIFICATE_FILE}" in refused(
        folder, "renew robot_1", capsys
    )


@pytest.mark.parametrize("given", ["wrong", None])
def test_a_wrong_or_missing_passphrase_is_refused(
    folder: Path, given: str | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    write_authority(folder, ca.create_authority("fleet", NOW, A_DAY), b"right")
    if given:
        monkeypatch.setenv(verbs.PASSPHRASE_VARIABLE, given)
    message = refused(folder, "add server gpu_2", capsys)
    assert ("a key that this passphrase does not open" if given else verbs.PASSPHRASE_VARIABLE) in message


def test_an_encrypted_authority_needs_a_terminal_or_the_variable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert f"expected it in {verbs.PASSPHRASE_VARIABLE}" in refused(tmp_path, "init --passphrase", capsys)


def test_an_empty_passphrase_opens_no_encrypted_key(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    write_authority(folder, ca.create_authority("fleet", NOW, A_DAY), b"right")
    monkeypatch.setattr("getpass.getpass", lambda prompt: "")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert "a key that this passphrase does not open" in refused(folder, "add server gpu_2", capsys)


@pytest.mark.parametrize("words", ["init --passphrase", "add server gpu_2"])
def test_the_end_of_input_in_place_of_a_passphrase_is_refused(
    folder: Path, words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def end(prompt: str) -> str:
        raise EOFError

    write_authority(folder, ca.create_authority("fleet", NOW, A_DAY), b"right")
    monkeypatch.setattr("getpass.getpass", end)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    place = folder / "another" if words.startswith("init") else folder
    assert "found end of input, expected the authority's passphrase" in refused(place, words, capsys)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"robots": {"robot_1": {"servers": []}}},
            "robots.robot_1.servers: found 0 items, expected at least 1",
        ),
        ({"servers": ["gpu_1", "gpu_1"]}, "servers: found 'gpu_1', which is in servers"),
        ({"directory": "here"}, "directory: found 'here', expected an absolute path"),
        ({"robot": {}}, "robot: unknown key"),
    ],
)
def test_an_invalid_description_is_refused(
    folder: Path, change: dict[str, Any], message: str, capsys: pytest.CaptureFixture[str]
):
    path = folder / description.FILE_NAME
    content = {"servers": ["gpu_1"], **change}
    path.write_text(json.dumps(content))
    assert f"{path}: {message}" in refused(folder, "render", capsys)


def test_a_member_without_a_certificate_is_not_rendered(folder: Path, capsys: pytest.CaptureFixture[str]):
    path = folder / description.FILE_NAME
    path.write_text(path.read_text().replace("- gpu_1\ntrainers", "- gpu_1\n- gpu_2\ntrainers"))
    assert "members/gpu_2/certificate.pem: cannot be read" in refused(folder, "render", capsys)


@pytest.mark.parametrize("room_for", [0, 2])
@pytest.mark.parametrize("words", ["add server gpu_2", "renew robot_1", "render"])
def test_a_full_disk_leaves_everything_as_it_was(
    folder: Path,
    words: str,
    room_for: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    room = iter(range(room_for))

    def fail(*_: object) -> None:
        if next(room, None) is None:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(description.os, "fsync", fail)
    assert "No space left on device" in refused(folder, words, capsys)


def test_a_description_that_cannot_be_written_leaves_no_certificate(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(description, "save_fleet", fail)
    assert "No space left on device" in refused(folder, "add server gpu_2", capsys)


# -- helpers -------------------------------------------------------------------------------------------------


def rendered(folder: Path, name: str, file: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "members" / name / file).read_text())
    return content


def write_authority(folder: Path, authority: ca.Authority, passphrase: bytes | None = None) -> None:
    (folder / "authority" / ca.KEY_FILE).write_bytes(ca.key_pem(authority.key, passphrase))
    (folder / "authority" / ca.CERTIFICATE_FILE).write_bytes(authority.certificate_pem)
