# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""How a session of a short-lived client ends."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from remote_inference.base.clients.operator_client import OperatorError
from remote_inference.base.clients.server_session import ServerSession


class Unanswered(ServerSession):
    """A session whose server does not answer any more."""

    def __init__(self) -> None:
        self.destroyed: list[str] = []
        node = SimpleNamespace(
            destroy_subscription=self.destroyed.append, destroy_publisher=self.destroyed.append
        )
        client: Any = SimpleNamespace(node=node)
        self._client = client
        self._chunks: Any = "chunks"
        self._publisher: Any = "observations"

    def close(self) -> None:
        raise OperatorError("/policy_server/close_session: no answer within 1 s")


def test_an_end_that_is_not_answered_is_a_warning_and_what_was_done_counts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Unanswered() as session:
        pass
    assert "warning: the session was not ended: /policy_server/close_session" in capsys.readouterr().err
    assert session.destroyed == ["chunks", "observations"], "nothing is left for the next session"


def test_the_first_error_says_more(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError), Unanswered() as session:
        raise ZeroDivisionError
    assert capsys.readouterr().err == ""
    assert session.destroyed == ["chunks", "observations"]
