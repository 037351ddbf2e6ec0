# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Other people's policy servers, as their wires are described; also the program of each, to be killed.

`python remote_peers.py WIRE PORT SETTINGS` serves a policy that holds the joints. SETTINGS are JSON: `fault`
(what goes wrong), `key`, `revision`, and `log`, a file that gets each request as a line of hexadecimal
digits.
"""

from __future__ import annotations

import io
import itertools
import json
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

CHUNK_SIZE = 20
GR00T_MODALITIES = {
    "video": {"delta_indices": [0], "modality_keys": ["ego_view"]},
    "state": {"delta_indices": [0], "modality_keys": ["single_arm", "gripper"]},
    "action": {"delta_indices": list(range(CHUNK_SIZE)), "modality_keys": ["single_arm", "gripper"]},
    "language": {"delta_indices": [0], "modality_keys": ["annotation.human.task_description"]},
}


class PeerProcess:
    """One server on one port; it can be killed, frozen and started again."""

    def __init__(self, wire: str, log: Path | None = None, **settings: Any) -> None:
        from support.free_ports import free_port

        self.port = free_port()
        self.wire = wire
        self.settings = {**settings, "log": str(log) if log else ""}
        self.start()

    def start(self, **settings: Any) -> None:
        """Start it, and wait until it listens. settings: in place of those before."""
        from support.waiting import read_line  # the program of a server has no such path

        self.settings.update(settings)
        self.process = subprocess.Popen(self.command(), stdout=subprocess.PIPE)
        assert read_line(self.process), f"{self.wire}: ended before it listened"

    def command(self) -> list[str]:
        return [sys.executable, __file__, self.wire, str(self.port), json.dumps(self.settings)]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30.0)
        self.process.stdout.close()

    def freeze(self) -> None:
        """Stop every thread, and wait until each has stopped: one that has not yet may still answer."""
        from support.waiting import wait_until  # the program of a server has no such path

        self.process.send_signal(signal.SIGSTOP)
        threads = Path(f"/proc/{self.process.pid}/task")
        wait_until(
            lambda: all("State:\tT" in (task / "status").read_text() for task in threads.iterdir()),
            "every thread stopped",
        )

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def requests(self) -> list[bytes]:
        return [bytes.fromhex(line) for line in Path(self.settings["log"]).read_text().split()]


def spoil(rows: np.ndarray, fault: str) -> np.ndarray:
    """Return rows `[chunk_size, names]` with a fault."""
    if fault == "nan":
        rows = rows.copy()
        rows[3, 0] = np.nan
    if fault == "horizon":
        return rows[:-4]
    if fault == "integers":
        return rows.astype(np.int32)
    if fault == "ragged":
        return np.array([[0.0], *([[0.0, 1.0]] * (CHUNK_SIZE - 1)), None], object)[:-1]
    return rows.astype(object) if fault == "objects" else rows


def note(settings: dict[str, Any], request: bytes) -> None:
    if settings["log"]:
        with Path(settings["log"]).open("a") as file:
            file.write(request.hex() + "\n")


# -- How arrays are spelled in msgpack: by each of the two servers, and by others who speak their wires -----


def as_gr00t(array: np.ndarray) -> dict[str, Any]:
    stream = io.BytesIO()
    np.save(stream, array)  # with pickles for objects, which the real server never sends
    return {"__ndarray_class__": True, "as_npy": stream.getvalue()}


def as_openpi(array: np.ndarray) -> dict[bytes, Any]:
    data = b"" if array.dtype.kind == "O" else array.tobytes()
    return {b"__ndarray__": True, b"data": data, b"dtype": array.dtype.str, b"shape": array.shape}


def as_msgpack_numpy(array: np.ndarray) -> dict[bytes, Any]:
    kind, data = array.dtype.str, array.tobytes()
    return {b"nd": True, b"type": kind, b"kind": b"", b"shape": array.shape, b"data": data}


SPELLINGS = {
    "gr00t": as_gr00t,
    "openpi": as_openpi,
    "msgpack-numpy": as_msgpack_numpy,
    "lists": np.ndarray.tolist,
}


def pack(value: Any, spelling: str) -> bytes:
    return msgpack.packb(value, default=SPELLINGS[spelling])


# -- GR00T N1.6 ----------------------------------------------------------------------------------------------


def gr00t_unpack(data: bytes) -> Any:
    def read(values: dict[str, Any]) -> Any:
        return np.load(io.BytesIO(values["as_npy"])) if "__ndarray_class__" in values else values

    return msgpack.unpackb(data, object_hook=read)


def serve_gr00t(port: int, settings: dict[str, Any]) -> None:
    import zmq

    reply = zmq.Context().socket(zmq.REP)
    reply.bind(f"tcp://127.0.0.1:{port}")
    print("listening", flush=True)
    while True:
        request = reply.recv()
        note(settings, request)
        content = gr00t_unpack(request)
        if content["endpoint"] == "kill":
            return
        if settings.get("fault") == "silent" and content["endpoint"] == "get_action":
            time.sleep(3600.0)
        reply.send(pack(answer_gr00t(content, settings), settings.get("arrays", "gr00t")))


def answer_gr00t(content: dict[str, Any], settings: dict[str, Any]) -> Any:
    fault = settings.get("fault", "")
    if settings.get("key") and content.get("api_token") != settings["key"]:
        return {"error": "Unauthorized: Invalid API token"}
    if content["endpoint"] == "ping":
        return {"status": "ok", "message": "Server is running"}
    if content["endpoint"] == "get_modality_config":
        modalities = {**GR00T_MODALITIES, **settings.get("modalities", {})}
        return {
            name: {"__ModalityConfig_class__": True, "as_json": {"action_configs": None, **modality}}
            for name, modality in modalities.items()
        }
    if content["endpoint"] == "reset":
        return {}
    if fault == "refusal":
        return {"error": "Video key 'ego_view' must be a numpy array"}
    state = content["data"]["observation"]["state"]
    actions = {
        key: spoil(np.tile(state[key][0], (CHUNK_SIZE, 1)), fault)[np.newaxis]
        for key in ("single_arm", "gripper")
    }
    if fault == "missing":
        del actions["gripper"]
    return [actions, {}]


# -- openpi --------------------------------------------------------------------------------------------------


def openpi_unpack(data: bytes) -> Any:
    def read(values: dict[Any, Any]) -> Any:
        if b"__ndarray__" in values:
            return np.ndarray(values[b"shape"], np.dtype(values[b"dtype"]), values[b"data"])
        return values

    return msgpack.unpackb(data, object_hook=read)


def serve_openpi(port: int, settings: dict[str, Any]) -> None:
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.server import ServerConnection, serve

    fault, path = settings.get("fault", ""), settings.get("path", "/")
    connections, second = itertools.count(1), threading.Event()

    def check(connection: ServerConnection, request: Any) -> Any:
        if settings.get("key") and request.headers.get("Authorization") != f"Api-Key {settings['key']}":
            return connection.respond(401, "wrong key\n")
        return None if request.path == path else connection.respond(404, "no such path\n")

    def talk(connection: ServerConnection) -> None:
        if fault == "no hello":
            connection.recv()
        if fault == "late hello":  # to the first client, when it has long given up and come again
            _ = second.wait() if next(connections) == 1 else second.set()
        connection.send(pack({"revision": settings.get("revision", 1)}, "openpi"))
        for frame in connection:
            note(settings, frame)
            answer = answer_openpi(openpi_unpack(frame), settings)
            if answer is None:
                connection.socket.close()
                return
            connection.send(answer)
            if isinstance(answer, str) and fault:
                connection.close(1011, "Internal server error. Traceback included in previous frame.")

    def handle(connection: ServerConnection) -> None:
        with suppress(ConnectionClosed):
            talk(connection)

    with serve(handle, "127.0.0.1", port, compression=None, max_size=None, process_request=check) as server:
        print("listening", flush=True)
        server.serve_forever()


def answer_openpi(observation: dict[str, Any], settings: dict[str, Any]) -> bytes | str | None:
    """Return a frame; None to drop the connection."""
    fault = settings.get("fault", "")
    if fault == "drop":
        return None
    if fault == "silent":
        time.sleep(3600.0)
    if fault == "refusal":
        return "Traceback (most recent call last):\n  File ...\nKeyError: 'observation/image'"
    if observation.get("endpoint") == "reset":
        return "reset successful"
    state = [observation[f"observation/{part}_position"] for part in ("joint", "gripper")]
    rows = spoil(np.tile(np.concatenate(state).astype(np.float64), (CHUNK_SIZE, 1)), fault)
    spelling = settings.get("arrays", "openpi")
    if settings.get("bare"):
        return pack(rows, spelling)
    content = {"server_timing": {"infer_ms": 1.0}}
    if fault == "by key":
        content |= {"action.single_arm": rows[:, :1], "action.gripper": rows[:, 1:]}
    elif fault != "missing":
        content["actions"] = rows
    return pack(content, spelling)


if __name__ == "__main__":
    serve_wire = {"gr00t": serve_gr00t, "openpi": serve_openpi}[sys.argv[1]]
    serve_wire(int(sys.argv[2]), json.loads(sys.argv[3]))
