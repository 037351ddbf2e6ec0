# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A trainer that stops in the middle of an update: it says so, and waits to be killed.

python -m support.nodes.weights_trainer SERVER
"""

from __future__ import annotations

import os
import sys
import time

from remote_inference.learn.nodes.weights_link import connect
from remote_inference.learn.weights.frames import (
    SENDER_BYTES,
    Kind,
    pack_frame,
    pack_message,
    pack_part,
    read_frame,
    read_welcome,
)
from remote_inference.learn.weights.ledger import Ledger, SenderConfig
from support.nodes.ros_weights import DEADLINE_S, make_tensors


def main(server: str) -> None:
    sender = os.urandom(SENDER_BYTES)
    link = connect(server, DEADLINE_S)
    link.send(pack_frame(Kind.HELLO, sender), DEADLINE_S)
    welcome = read_welcome(read_frame(link.receive(DEADLINE_S)))
    tensors = make_tensors(seed=1)
    version = welcome.version + 1
    ledger = Ledger(welcome.table, tensors, version, SenderConfig(strategy="bucket", bucket_size=1 << 20))
    update = ledger.find_update(welcome.version, welcome.digest, wants_all=True)
    link.send(pack_message(sender, update.header), DEADLINE_S)
    link.send(pack_part(sender, version, 0, next(iter(update.parts()))), DEADLINE_S)
    print("in the middle", flush=True)
    time.sleep(10 * DEADLINE_S)


if __name__ == "__main__":
    main(sys.argv[1])
