# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A document with marked values does not load, and says what is to be filled in and where."""

from __future__ import annotations

import pytest

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import DocumentError, mark, parse_document
from support.builders import contract_document


def test_a_contract_with_marks_names_all_of_them_at_once():
    content = contract_document()
    content["fps"] = mark("the policy's training rate [Hz]")
    content["state"][0]["names"] = mark("a list of joints")
    content["actions"]["limits"]["elbow"]["min"] = "FILL_IN"
    with pytest.raises(DocumentError) as caught:
        parse_document(content, Contract, "arm.yaml")
    assert str(caught.value).splitlines() == [
        "arm.yaml: fps: to be filled in, expected the policy's training rate [Hz]",
        "arm.yaml: state.0.names: to be filled in, expected a list of joints",
        "arm.yaml: actions.limits.elbow.min: to be filled in, expected a value",
    ]


def test_a_mark_is_refused_where_any_text_would_do():
    content = {**contract_document(), "task": mark("an instruction")}
    with pytest.raises(DocumentError, match="task: to be filled in, expected an instruction"):
        parse_document(content, Contract, "arm.yaml")


def test_a_mark_stays_on_its_line():
    assert "\n" not in mark("one of a\nb")
