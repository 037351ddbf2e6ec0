# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes manifests: valid, and in agreement with the images, the policy's manifest and each other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from images import INSTALLED, check_command, local, stage
from linters import ROOT

from remote_inference import __version__
from remote_inference.robot.config import RobotConfig
from remote_inference.server.manifest.manifest import Manifest, load_manifest
from remote_inference.server.monitoring.health import HealthServer
from remote_inference.tools.deployment.process_group import STOP_TIMEOUT_S

FOLDER = ROOT / "deploy" / "kubernetes"
KUSTOMIZATION = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
VERSIONS = ("1.28", "1.37")  # the oldest with a pod's index as a label, and the newest schema at hand


def documents() -> list[dict[str, Any]]:
    return [
        document
        for name in KUSTOMIZATION["resources"]
        for document in yaml.safe_load_all((FOLDER / name).read_text())
    ]


def find(kind: str, name: str) -> dict[str, Any]:
    (found,) = [d for d in documents() if d["kind"] == kind and d["metadata"]["name"] == name]
    return found


def pod(kind: str, name: str) -> dict[str, Any]:
    return find(kind, name)["spec"]["template"]["spec"]


def environment(container: dict[str, Any]) -> dict[str, str]:
    return {entry["name"]: entry.get("value", "") for entry in container["env"]}


SERVER = pod("StatefulSet", "policy-server")["containers"][0]
ROUTER = pod("Deployment", "zenoh-router")["containers"][0]
PODS = [pod("StatefulSet", "policy-server"), pod("Deployment", "zenoh-router")]


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    path = tmp_path / "manifest.yaml"
    path.write_text(find("ConfigMap", "policy-server-manifest")["data"]["manifest.yaml"])
    return load_manifest(path, environment(SERVER))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("document", documents(), ids=lambda d: f"{d['kind']} {d['metadata']['name']}")
def test_every_object_is_valid(document: dict[str, Any], version: str) -> None:
    kubernetes_validate = pytest.importorskip(
        "kubernetes_validate", reason="needs kubernetes-validate: pip install -r requirements/dev.txt"
    )
    kubernetes_validate.validate(document, version, strict=True)


def test_every_file_is_part_of_the_kustomization() -> None:
    files = {path.name for path in FOLDER.glob("*.yaml")}
    assert {*KUSTOMIZATION["resources"], "kustomization.yaml"} == files


def test_images_are_those_of_the_dockerfile() -> None:
    tags = {image["name"]: image["newTag"] for image in KUSTOMIZATION["images"]}
    for container in (SERVER, ROUTER):
        assert stage(container["image"].removeprefix("remote-inference-"))
        assert tags[container["image"]] == __version__


def test_the_policy_that_is_served_is_in_the_image(manifest: Manifest) -> None:
    assert (local(manifest.model.path) / "policy.json").is_file()
    assert manifest.model.device == "cuda:0"


def test_commands_are_the_package_s_and_read_what_is_mounted() -> None:
    arguments = check_command(SERVER["args"])
    assert arguments is not None
    volume = mounts(SERVER)[str(arguments.manifest.parent)]
    (config_map,) = [v["configMap"]["name"] for v in PODS[0]["volumes"] if v["name"] == volume]
    assert arguments.manifest.name in find("ConfigMap", config_map)["data"]
    check_command(ROUTER["args"])


def mounts(container: dict[str, Any]) -> dict[str, str]:
    return {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}


@pytest.mark.parametrize("spec", PODS, ids=["server", "router"])
def test_every_volume_is_mounted_and_every_mount_a_volume(spec: dict[str, Any]) -> None:
    names = [volume["name"] for volume in spec["volumes"]]
    assert sorted(mounts(spec["containers"][0]).values()) == sorted(names)


def test_the_port_is_that_of_the_manifest(manifest: Manifest) -> None:
    port = manifest.health_port
    assert SERVER["ports"] == [{"name": "health", "containerPort": port}]
    annotations = find("StatefulSet", "policy-server")["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(port)
    (service_port,) = find("Service", "policy-server")["spec"]["ports"]
    assert (service_port["port"], service_port["targetPort"]) == (port, "health")
    assert f" {port} " in SERVER["lifecycle"]["preStop"]["exec"]["command"][-1]


def test_probes_ask_for_what_the_health_port_answers() -> None:
    asked = {name: SERVER[name]["httpGet"] for name in ("startupProbe", "readinessProbe", "livenessProbe")}
    annotations = find("StatefulSet", "policy-server")["spec"]["template"]["metadata"]["annotations"]
    paths = {name: get["path"] for name, get in asked.items()}
    assert paths == {"startupProbe": "/readyz", "readinessProbe": "/readyz", "livenessProbe": "/healthz"}
    assert all(get["port"] == "health" for get in asked.values())
    answered = re.findall(r'case "(/[^"]*)"', Path(HealthServer.answer.__code__.co_filename).read_text())
    assert {*paths.values(), annotations["prometheus.io/path"], "/status.json"} <= set(answered)


def test_the_autoscaler_asks_for_metrics_that_there_are_and_has_a_name_for_each_pod() -> None:
    scaler = find("HorizontalPodAutoscaler", "policy-server")["spec"]
    target, stateful_set = scaler["scaleTargetRef"], find("StatefulSet", "policy-server")
    assert (target["kind"], target["name"]) == (stateful_set["kind"], stateful_set["metadata"]["name"])
    assert 1 <= scaler["minReplicas"] < scaler["maxReplicas"] == stateful_set["spec"]["replicas"]
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    for metric in scaler["metrics"]:
        name = metric["pods"]["metric"]["name"].replace("_per_second", "_total")
        assert f"`{name}`" in page, name


def test_each_server_has_a_name_of_its_own_and_its_keys() -> None:
    stateful_set = find("StatefulSet", "policy-server")["spec"]
    assert SERVER["args"][-2:] == ["--name", "policy_server_$(POD_INDEX)"]
    config = environment(SERVER)["ZENOH_SESSION_CONFIG_URI"]
    folders = mounts(SERVER)
    for index in range(stateful_set["replicas"]):
        folder, file = config.replace("$(POD_INDEX)", str(index)).rsplit("/", 1)
        assert folder in folders
        assert folder.rsplit("/", 1)[1] == f"policy_server_{index}"
        assert file == "session.json5"


def test_the_server_list_that_the_comment_recommends_is_that_of_the_set() -> None:
    line = re.search(r"# Robots list .*: servers: (\[.*\])", (FOLDER / "server.yaml").read_text())
    assert line is not None
    replicas = find("StatefulSet", "policy-server")["spec"]["replicas"]
    servers = yaml.safe_load(line[1])
    assert servers == [f"/policy_server_{index}" for index in range(replicas)]
    RobotConfig(servers=tuple(servers))


def test_a_pod_drains_before_it_stops_and_has_the_time() -> None:
    command = SERVER["lifecycle"]["preStop"]["exec"]["command"]
    found = re.fullmatch(
        r"ZENOH_SESSION_CONFIG_URI=(\S+) drain.sh /policy_server_\$POD_INDEX \d+ (\d+)", command[-1]
    )
    assert found is not None
    assert found[1].rsplit("/", 1)[0] in mounts(SERVER)
    assert "COPY --chmod=755 deploy/docker/drain.sh deploy/docker/entrypoint.sh /usr/local/bin/" in stage(
        "server"
    )
    script = (ROOT / "deploy" / "docker" / "drain.sh").read_text()
    waits_s = [int(text) for text in re.findall(r"(?:^timeout|SECONDS \+) (\d+)", script, re.MULTILINE)]
    assert len(waits_s) == 2
    needed_s = int(found[2]) + sum(waits_s) + STOP_TIMEOUT_S
    assert needed_s + 10 < PODS[0]["terminationGracePeriodSeconds"]


def test_servers_are_replaced_one_at_a_time() -> None:
    stateful_set = find("StatefulSet", "policy-server")["spec"]
    assert stateful_set["replicas"] > 1
    assert stateful_set.get("updateStrategy", {}).get("type", "RollingUpdate") == "RollingUpdate"
    assert find("PodDisruptionBudget", "policy-server")["spec"]["maxUnavailable"] == 1


def test_each_server_has_a_gpu() -> None:
    assert SERVER["resources"]["limits"]["nvidia.com/gpu"] == 1


def test_selectors_find_their_pods() -> None:
    for document in documents():
        selector = document.get("spec", {}).get("selector")
        if selector is None:
            continue
        wanted = selector.get("matchLabels", selector)
        sets = [find("StatefulSet", "policy-server"), find("Deployment", "zenoh-router")]
        labels = [one["spec"]["template"]["metadata"]["labels"] for one in sets]
        assert sum(wanted.items() <= one.items() for one in labels) == 1, document["metadata"]
    assert (
        find("StatefulSet", "policy-server")["spec"]["serviceName"]
        == find("Service", "policy-server")["metadata"]["name"]
    )


def test_robots_reach_the_router_by_the_port_that_it_listens_on() -> None:
    (container_port,) = ROUTER["ports"]
    (service_port,) = find("Service", "zenoh-router")["spec"]["ports"]
    assert service_port["targetPort"] == container_port["name"]
    assert service_port["port"] == container_port["containerPort"] == 7447
    config = environment(ROUTER)["ZENOH_ROUTER_CONFIG_URI"]
    assert config.rsplit("/", 1)[0] in mounts(ROUTER)


@pytest.mark.parametrize("spec", PODS, ids=["server", "router"])
def test_pods_run_as_the_image_s_user_with_nothing_to_spare(spec: dict[str, Any]) -> None:
    user = [line for line in stage("server") if line.startswith("USER ")][-1].split()[1]
    context = spec["securityContext"]
    assert f"{context['runAsUser']}:{context['runAsGroup']}" == user
    assert context["runAsNonRoot"] is True
    container = spec["containers"][0]["securityContext"]
    assert container["readOnlyRootFilesystem"] is True
    assert container["capabilities"] == {"drop": ["ALL"]}


def test_logs_go_where_a_read_only_container_can_write() -> None:
    assert environment(SERVER)["ROS_LOG_DIR"].startswith("/tmp/")
    assert "/tmp" in mounts(SERVER)


def test_no_key_is_in_the_files() -> None:
    assert not [document for document in documents() if document["kind"] == "Secret"]
    for path in FOLDER.glob("*.yaml"):
        assert "BEGIN" not in path.read_text()


def test_every_path_into_the_image_exists() -> None:
    for path in FOLDER.glob("*.yaml"):
        for found in re.findall(rf"{INSTALLED}[\w/.]+", path.read_text()):
            assert local(found).exists(), found
