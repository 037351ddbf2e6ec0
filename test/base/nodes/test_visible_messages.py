# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What robots and servers say reaches an operator's terminal as text."""

from __future__ import annotations

from std_msgs.msg import String

from remote_inference.base.clients.operator_client import visible_message
from remote_inference.msg import ClientState, ServerStatus

HOSTILE = "\x1b[2Jred\nfake line: robot_1 ok"
SHOWN = r"\x1b[2Jred\nfake line: robot_1 ok"


def test_no_text_of_a_state_is_more_than_a_text():
    for kind in (ClientState, ServerStatus):
        message = kind()
        fields = kind.get_fields_and_field_types()
        texts = [name for name, of in fields.items() if of == "string"]
        lists = [name for name, of in fields.items() if of == "sequence<string>"]
        for name in texts:
            setattr(message, name, HOSTILE)
        for name in lists:
            setattr(message, name, [HOSTILE])
        shown = visible_message(message)
        assert texts
        assert all(getattr(shown, name) == SHOWN for name in texts)
        assert all(getattr(shown, name) == [SHOWN] for name in lists)


def test_a_message_of_others_stays_as_it_is():
    assert visible_message(String(data="<robot>\n</robot>")).data == "<robot>\n</robot>"
