"""How long the main thread waits for pixels before the window answers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.streaming import pixel_fetcher
from napari_ngff.viewer.streaming.pixel_fetcher import WaitBudget

NOW = [0.0]


class LateEvent:
    """An event that never comes, and notes for how long it was waited for."""

    def __init__(self):
        self.waited = 0.0

    def wait(self, seconds):
        self.waited += seconds
        NOW[0] += seconds


@pytest.fixture
def answers(monkeypatch):
    """What is called when the window answers."""
    asked = []
    NOW[0] = 100.0
    clock = SimpleNamespace(monotonic=lambda: NOW[0])
    monkeypatch.setattr(pixel_fetcher, "time", clock)
    note = lambda _, call: asked.append(call)  # noqa: E731
    monkeypatch.setattr(Window.current, "run_after", note)
    return asked


def test_layers_wait_together_until_the_window_answers(answers):
    budget, event = WaitBudget(), LateEvent()
    for _ in range(8):
        budget.wait_for(event)
        NOW[0] += 0.1  # napari draws
    assert event.waited == pytest.approx(pixel_fetcher.WAIT_TOGETHER)
    (answer,) = answers
    answer()
    budget.wait_for(event)
    together = pixel_fetcher.WAIT_TOGETHER + pixel_fetcher.WAIT
    assert event.waited == pytest.approx(together)


def test_the_budget_comes_back_with_time(answers):
    budget, event = WaitBudget(), LateEvent()
    for _ in range(50):
        budget.wait_for(event)
        answers[-1]()
        NOW[0] += 0.001  # what asks again at once
    assert event.waited < pixel_fetcher.WAIT_TOGETHER + 0.06


def test_a_program_without_an_event_loop_waits_again(answers):
    budget, event = WaitBudget(), LateEvent()
    for _ in range(3):
        budget.wait_for(event)
        NOW[0] += 2 * pixel_fetcher.UNANSWERED
    assert event.waited == pytest.approx(3 * pixel_fetcher.WAIT)
