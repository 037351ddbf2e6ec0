# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The documentation agrees with the code, and its links lead somewhere."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import make_docs
import pytest
import rtc_picture
import state_picture
from PIL import Image

from remote_inference.robot.safety.guard import RULES
from remote_inference.robot.safety.state_machine import DESCRIPTIONS, TRANSITIONS, Event, State

ROOT = Path(__file__).parents[2]

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
PLACES = [ROOT, ROOT / "src" / "remote_inference", ROOT / "test"]  # from where pages name files


@pytest.mark.parametrize("path", make_docs.DOCUMENTS, ids=lambda path: path.name)
def test_the_generated_parts_are_what_the_code_says(path: Path):
    text = path.read_text()
    assert make_docs.fill(text) == text, f"{path.relative_to(ROOT)} is stale: run make docs"


def test_every_table_stands_somewhere():
    text = "".join(path.read_text() for path in make_docs.DOCUMENTS)
    assert set(re.findall(r"<!-- generated: (\w+) -->", text)) == set(make_docs.TABLES)


@pytest.mark.parametrize(
    ("path", "source"),
    [(state_picture.PICTURE, state_picture.picture_source), (make_docs.RTC_PICTURE, rtc_picture.source)],
    ids=["states", "rtc"],
)
def test_the_picture_shows_what_the_code_says(path: Path, source: Callable[[], str]):
    with Image.open(path) as picture:
        assert picture.info["Description"] == source(), "stale picture: run make docs"


def test_the_picture_has_one_arrow_per_pair_of_states():
    arrows = state_picture.arrows()
    assert {(before, event, after) for (before, after), events in arrows.items() for event in events} == {
        (before, event, after) for (before, event), after in TRANSITIONS.items()
    }
    assert arrows.keys() == state_picture.ROUTES.keys()


def test_every_state_and_event_is_described():
    assert set(DESCRIPTIONS) == {*State, *Event}


def test_a_state_without_a_place_is_not_drawn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    places = {state: box for state, box in state_picture.PLACES.items() if state is not State.STALLED}
    monkeypatch.setattr(state_picture, "PLACES", places)
    with pytest.raises(LookupError, match="no place for STALLED"):
        state_picture.draw_states(tmp_path / "states.png")


@pytest.mark.parametrize(
    ("pair", "after", "message"),
    [
        ((State.DEAD, Event.CHUNK_MERGED), State.STREAMING, "no route for DEAD -> STREAMING"),
        ((State.STREAMING, Event.OFFLINE_TOO_LONG), State.DEAD, "STREAMING -> DEAD says 'contract violated'"),
        (
            (State.CONNECTING, Event.CHUNK_MERGED),
            State.DEAD,
            "a route, but no transition, for CONNECTING -> STR",
        ),
    ],
    ids=["a new arrow", "a new event on an arrow", "an arrow moved"],
)
def test_a_transition_without_a_place_is_not_drawn(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pair: tuple[State, Event], after: State, message: str
):
    monkeypatch.setattr(state_picture, "TRANSITIONS", {**TRANSITIONS, pair: after})
    with pytest.raises(LookupError, match=message):
        state_picture.draw_states(tmp_path / "states.png")


def test_a_description_that_its_box_cannot_hold_is_not_drawn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(state_picture, "DESCRIPTIONS", {**DESCRIPTIONS, State.STALLED: "word " * 30})
    with pytest.raises(LookupError, match="STALLED is too long"):
        state_picture.draw_states(tmp_path / "states.png")


def test_the_picture_can_be_drawn(tmp_path: Path):
    state_picture.draw_states(tmp_path / "states.png")
    with Image.open(tmp_path / "states.png") as drawn, Image.open(state_picture.PICTURE) as kept:
        assert drawn.size == kept.size


def test_the_page_on_how_safety_works_explains_every_rule_of_the_guard():
    text = (ROOT / "docs" / "explanation" / "how_safety_works.md").read_text()
    for rule in RULES:
        assert f"\n| `{rule}` |" in text, rule


@pytest.mark.parametrize(
    "page", [CONTRIBUTING, *(p for p in PAGES if p.name != "lerobot_parity.md")], ids=lambda path: path.name
)
def test_files_that_a_page_names_exist(page: Path):
    """But for those that a reader is told to write, which are `my_...`, and LeRobot's on its page."""
    named = set(re.findall(r"`((?:\w[\w.]*/)+\w+\.(?:py|sh))\b", page.read_text()))
    missing = [name for name in named if not any((place / name).exists() for place in PLACES)]
    assert [name for name in missing if "my_" not in name] == []


@pytest.mark.parametrize("page", [*PAGES, CONTRIBUTING], ids=lambda path: path.name)
def test_links_lead_somewhere(page: Path):
    for target, fragment in re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", page.read_text()):
        if re.match(r"\w+:", target):
            continue  # another site
        found = (page.parent / target).resolve() if target else page
        assert found.exists(), f"{page.name} links to {target}"
        if fragment and found.suffix == ".md":
            assert fragment in anchors(found), f"{page.name} links to {target}#{fragment}"


def test_the_index_names_every_page():
    index = ROOT / "docs" / "index.md"
    named = {(index.parent / target).resolve() for target in re.findall(r"\]\(([^)#]+)", index.read_text())}
    assert {page for page in PAGES if page != index} <= named


def test_the_readme_is_read_in_one_sitting():
    assert len((ROOT / "README.md").read_text().splitlines()) < 150


def anchors(page: Path) -> set[str]:
    """Return the names that GitHub gives to a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
