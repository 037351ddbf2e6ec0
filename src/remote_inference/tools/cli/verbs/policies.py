# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Verbs for what a server serves: `export-onnx` writes a policy, `weights` shows and changes its weights."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remote_inference.base.errors import UserError
from remote_inference.tools.cli.common import (
    EXIT_NO,
    EXIT_OK,
    Arguments,
    VerbParser,
    open_client,
    print_error,
    set_zenoh_environment,
)

if TYPE_CHECKING:
    from remote_inference.learn.weights.frames import Link
    from remote_inference.learn.weights.sender import ReceiverStatus

EXAMPLES = {
    "export_onnx": (
        "config/models/belt_arm --out my_models/belt_arm",
        "runs/step_2000.safetensors --out my_models/belt_arm --force",
    ),
    "weights": (
        "status",
        "push runs/trained/model.safetensors --socket /run/policy_server/weights",
        "push runs/trained/model.safetensors --server policy_server",
        "rollback policy_server",
    ),
}


def add_export_onnx(parser: VerbParser) -> None:
    parser.add("policy", "folder of a chunk policy, or its weights file", type=Path)
    parser.add("--out OUT", "folder that gets a model.onnx", required=True)
    parser.add("--force", "replace the model.onnx if it exists")
    shape = '{"path", "name", "revision", "fingerprint", "bytes", "largest_difference", "left_out"}'
    parser.add_output(shape)


def run_export_onnx(arguments: Arguments) -> None:
    target = arguments.out / "model.onnx"
    if target.exists() and not arguments.force:
        raise UserError(f"--out: {target} exists, expected a folder without, or --force to replace it")
    from remote_inference.server.policies.onnx.export import export_policy  # noqa: PLC0415  imports torch and onnx

    with redirect_stdout(sys.stderr):  # the exporter may print
        export = export_policy(arguments.policy, arguments.out)
    spec, size = export.spec, export.path.stat().st_size
    left_out = "" if export.left_out.value == "none" else export.left_out.value
    found = {field: getattr(spec, field) for field in ("name", "revision", "fingerprint")}
    found |= {"bytes": size, "largest_difference": export.largest_difference, "left_out": left_out}
    arguments.print_result(
        {"path": str(export.path), **found},
        f"{export.path}: {spec.name}, revision {spec.revision}, {size / 1e6:.1f} MB",
        f"its normalised actions differ by at most {export.largest_difference:.1e} from torch's",
        *([f"left out: {left_out}; the exported policy continues no prefixes"] if left_out else []),
    )


def add_weights(parser: VerbParser) -> None:
    actions = parser.add_subparsers(required=True, metavar="ACTION", dest="action")
    status = actions.add_parser("status", help="show which version of its weights a server serves")
    status.add("server SERVER", "the server's name; may be left out where there is only one", nargs="?")
    status.add_timeout("the server")
    status.add_output('{"server", "policy_fingerprint", "weights_version"}')
    status.set_defaults(run=_status)
    push = actions.add_parser("push", help="bring a server to the weights of a file")
    push.add("file FILE", "safetensors file with the server's tensors")
    add_way = push.add_choice()
    add_way("--socket", "of a server on this machine: weights.socket of its manifest", type=Path)
    add_way("--server SERVER", "name of a server whose manifest has weights.ros, over ROS")
    push.add(
        "--namespace", "of the node that sends, over ROS; with fleet keys the trainer's name", default="/"
    )
    push.add_timeout("the server")
    push.add_output('{"version", "size_bytes", "apply_s"}')
    push.set_defaults(run=_push)
    rollback = actions.add_parser("rollback", help="serve the version before the last update again")
    rollback.add("server SERVER", "the server's name")
    rollback.add_timeout("the server")
    rollback.add_output('{"server", "success", "message"}')
    rollback.set_defaults(run=_rollback)


def _status(arguments: Arguments) -> None:
    from remote_inference.base.wire.qos import LATCHED_QOS  # noqa: PLC0415
    from remote_inference.msg import ServerStatus  # noqa: PLC0415

    with open_client("weights_verb") as ros:
        server = ros.find_server(arguments.server, arguments.timeout)
        topic, watch = f"{server}/status", ros.watch_servers(arguments.server)
        status = ros.read_one(ServerStatus, topic, LATCHED_QOS, arguments.timeout, watch)
        shown = {field: getattr(status, field) for field in ("policy_fingerprint", "weights_version")}
        arguments.print_result({"server": server, **shown}, f"{server}: {_describe(status)}")


def _describe(status: Any) -> str:
    if not status.policy_fingerprint:
        return f"{status.lifecycle_state}, without a policy"
    policy = f"{status.policy_name} ({status.policy_fingerprint})"
    if status.weights_version < 0:
        return f"{policy}, takes no updates"
    return f"{policy}, version {status.weights_version}" if status.weights_version else f"{policy}, as loaded"


def _push(arguments: Arguments) -> int:
    from remote_inference.learn.weights import SenderConfig, WeightSender  # noqa: PLC0415

    tensors, connect = _read(arguments.file), _find_way(arguments)
    sender = WeightSender(lambda: tensors, SenderConfig(answer_s=arguments.timeout))
    try:
        sender.init_sender({"server": connect})
        return _tell_outcome(arguments, sender.wait(arguments.timeout)["server"])
    finally:
        sender.close()


def _tell_outcome(arguments: Arguments, status: ReceiverStatus) -> int:
    from remote_inference.learn.weights import Reason  # noqa: PLC0415

    where = arguments.socket or arguments.server
    if status.reason is Reason.TRANSPORT:
        raise UserError(f"{where}: {status.text}; it may still be served")
    if not status.is_current:
        print_error("weights", f"{where} refused: {status.text}")
        return EXIT_NO
    said = {"version": status.version, "size_bytes": status.size, "apply_s": status.apply_s}
    line = f"{arguments.file}: served as version {status.version}, {status.size / 1e6:.1f} MB were sent"
    arguments.print_result(said, line)
    return EXIT_OK


def _find_way(arguments: Arguments) -> Callable[[], Link]:
    if arguments.socket:
        from remote_inference.learn.weights import shared_memory  # noqa: PLC0415

        return lambda: shared_memory.connect(arguments.socket, arguments.timeout)
    from remote_inference.learn.nodes import weights_link  # noqa: PLC0415
    from remote_inference.tools.deployment.bringup import absolute_namespace  # noqa: PLC0415

    set_zenoh_environment()
    namespace = absolute_namespace(arguments.namespace)
    return lambda: weights_link.connect(arguments.server, arguments.timeout, namespace)


def _read(path: Path) -> Mapping[str, Any]:
    from safetensors import SafetensorError  # noqa: PLC0415
    from safetensors.torch import load  # noqa: PLC0415

    from remote_inference.server.policies.file_content import Content, explain_damage, read_file  # noqa: PLC0415

    content = read_file(path)
    try:
        return load(content)
    except (SafetensorError, ValueError) as error:
        raise UserError(f"{path}: {explain_damage(content, Content.SAFETENSORS, error)}") from error


def _rollback(arguments: Arguments) -> int:
    from std_srvs.srv import Trigger  # noqa: PLC0415

    with open_client("weights_verb") as ros:
        server = ros.find_server(arguments.server, arguments.timeout)
        response = ros.call(Trigger, f"{server}/rollback_weights", Trigger.Request(), arguments.timeout)
        return arguments.print_response("server", server, response)
