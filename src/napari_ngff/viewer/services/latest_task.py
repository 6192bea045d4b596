"""Tasks in worker threads, of which only the newest start is answered."""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from napari_ngff.errors import error_text
from napari_ngff.viewer.private.napari_window import calling_all_listeners
from napari_ngff.viewer.services.window import (
    Window,
    call_guarded,
    catch_error,
    going_on,
)

Wait = Callable[[Callable[[Any], None]], Any]
"""Begins what a change waits for; gets a function to call, at once or later, with the
answer."""

LayerChange = Generator[Wait, Any, "Iterator[None] | None"]
"""What leads to other layers, one after the other; see `LayerTask.start`."""

STEP_SECONDS = 0.03
"""Seconds of changing layers after which napari may draw and answer in between."""


@dataclass(slots=True, eq=False)
class TaskCounter:
    """The number of the newest start of one task."""

    newest: int = 0


@dataclass(frozen=True, slots=True)
class TaskTurn:
    """One start of a task, as its worker knows it; it keeps no widget alive."""

    counter: TaskCounter
    number: int
    task: weakref.ref[LatestTask]

    def is_newest(self) -> bool:
        """Return whether no later start or cancel has come; from any thread."""
        return self.counter.newest == self.number

    def report_progress(self, count: int, total: int) -> bool:
        """Report the number of parts that are done; return whether to continue."""
        if self.is_newest():
            Window.current.report_to_main(
                self.counter, lambda: self._show_progress(count, total)
            )
        return self.is_newest()

    def _show_progress(self, count: int, total: int) -> None:
        task = self.task()
        if task is not None and self.is_newest():
            task.on_progress(count, total)


class LatestTask:
    """Runs work in a worker; a later start, or a cancel, drops the earlier answer.

    Parameters
    ----------
    is_alive
        Asked in the main thread before an answer is given; none is given otherwise.
    on_progress
        Called in the main thread with the number of parts that are done, and of all.
    """

    def __init__(
        self,
        is_alive: Callable[[], bool] = lambda: True,
        on_progress: Callable[[int, int], Any] = lambda count, total: None,
    ) -> None:
        self._is_alive = is_alive
        self.on_progress = on_progress
        self._counter = TaskCounter()
        self._answers: tuple[Callable[[Any], Any], Callable[[str], Any]] | None = None

    def cancel(self) -> None:
        """Drop the answer of the work that runs."""
        self._counter.newest += 1
        self._answers = None

    def start(
        self,
        work: Callable[[TaskTurn], Any],
        done: Callable[[Any], Any],
        failed: Callable[[str], Any],
    ) -> None:
        """Start some work; the answer of earlier work is dropped.

        Parameters
        ----------
        work
            Called in a worker, unless a later start has come before its turn.
        done
            Called in the main thread with the result.
        failed
            Called in the main thread with the reason, where `work` or `done` raises.
        """
        self._counter.newest += 1
        # The worker may outlive a widget, and must not be the last to let go of it.
        self._answers = done, failed
        turn = TaskTurn(self._counter, self._counter.newest, weakref.ref(self))

        def attempt() -> tuple[Any, Exception | None]:
            return (
                catch_error(partial(work, turn)) if turn.is_newest() else (None, None)
            )

        def answer(outcome: tuple[Any, Exception | None]) -> None:
            task = turn.task()
            if task is not None and turn.is_newest():
                task._answer(*outcome)

        Window.current.run_work(attempt, answer)

    def _answer(self, result: Any, error: Exception | None) -> None:
        answers = self._answers
        self.cancel()  # progress may arrive after the result
        if answers is None or not self._is_alive():
            return
        done, failed = answers
        try:
            if error is None:
                done(result)
                return
        except Exception as raised:  # noqa: BLE001  somebody waits for the end
            error = raised
        failed(error_text(error))


class LayerTask:
    """Changes layers, after what that has to wait for; the newest start counts.

    Layers that have begun to change are changed to the end: half of one image and half
    of another would be seen.

    Parameters
    ----------
    on_busy
        Called with True at the start, and False at the end.
    hold_drawing
        Called before layers change; what it returns is called when all have changed,
        so that one frame shows all changes.
    is_open
        Whether the window is still open; no layer changes in a closed one.
    """

    def __init__(
        self,
        on_busy: Callable[[bool], Any],
        hold_drawing: Callable[[], Callable[[], None]] = lambda: lambda: None,
        is_open: Callable[[], bool] = lambda: True,
    ) -> None:
        self._on_busy = on_busy
        self._is_open = is_open
        self._hold_drawing = hold_drawing
        self._release_drawing: Callable[[], None] | None = None
        self._counter = TaskCounter()
        self._steps: Iterator[None] | None = None
        self._is_stepping = False

    def cancel(self) -> None:
        """Drop what still waits."""
        self._counter.newest += 1

    def finish_steps(self) -> None:
        """Change layers to the end that have begun to change."""
        if self._steps is not None and not self._is_stepping:
            self._do_steps(self._steps, math.inf)

    def check_newest(self) -> Callable[[], bool]:
        """Return a function that tells whether no later start or cancel has come.

        It can be called in any thread.
        """
        # Only the counter: a worker must not be the last to let go of a task.
        counter, number = self._counter, self._counter.newest
        return lambda: counter.newest == number

    def start(self, change: LayerChange) -> None:
        """Begin a change; one that still waits is dropped.

        Parameters
        ----------
        change
            Yields what it waits for, gets the answer, and goes on: all that in the main
            thread. It returns the short steps that change layers; None for no change.
        """
        self.cancel()
        self._on_busy(True)
        self._resume(change, self.check_newest(), None)

    def in_worker(self, work: Callable[[Callable[[], bool]], Any]) -> Wait:
        """Let a change wait for work in a worker; see `catch_error` for the answer.

        Parameters
        ----------
        work
            Called with `check_newest` of this change, unless a later one has begun.
        """
        is_newest = self.check_newest()

        def attempt() -> tuple[Any, Exception | None]:
            if not is_newest():
                return None, None
            return catch_error(partial(work, is_newest))

        return partial(Window.current.run, attempt)

    def _resume(
        self, change: LayerChange, is_newest: Callable[[], bool], answer: Any
    ) -> None:
        if not (is_newest() and self._is_open()):
            return
        with self._ended_by_errors(is_newest):
            try:
                wait = change.send(answer)
            except StopIteration as end:
                if end.value is not None:
                    self._begin_steps(is_newest, end.value)
                elif is_newest():
                    self._on_busy(False)
            else:
                wait(partial(self._resume, change, is_newest))

    @contextmanager
    def _ended_by_errors(self, is_newest: Callable[[], bool]) -> Iterator[None]:
        """End a change where something raises; the next one can begin."""
        try:
            yield
        except Exception:
            if is_newest():
                self.cancel()  # an answer may come all the same
                self._on_busy(False)
            raise

    def _begin_steps(
        self, is_newest: Callable[[], bool], steps: Iterator[None]
    ) -> None:
        self.finish_steps()  # before others begin
        if self._release_drawing is None:
            self._release_drawing = self._hold_drawing()
        self._steps = steps
        self._continue_steps(is_newest, steps)

    def _continue_steps(
        self, is_newest: Callable[[], bool], steps: Iterator[None]
    ) -> None:
        if steps is not self._steps:
            return
        if not self._is_open():
            self._steps = self._release_drawing = None
            return
        ended = True
        try:
            ended = self._do_steps(steps, STEP_SECONDS)
        finally:  # also where napari fails: the next task has to begin
            if ended:
                self._end_steps(is_newest, steps)
        if not ended:
            Window.current.run_work(
                lambda: None, lambda _: self._continue_steps(is_newest, steps)
            )

    def _end_steps(self, is_newest: Callable[[], bool], steps: Iterator[None]) -> None:
        if steps is self._steps:
            self._steps = None
            release, self._release_drawing = self._release_drawing, None
            if release is not None:
                # Once for all tasks that followed each other: one frame shows the last
                # of them.
                with going_on():
                    release()
        if is_newest():
            self._on_busy(False)

    def _do_steps(self, steps: Iterator[None], seconds: float) -> bool:
        """Do steps for some time; return whether all are done."""
        before, self._is_stepping = self._is_stepping, True
        start = time.perf_counter()
        try:
            # The time is asked after each step, so one step at least is done.
            with calling_all_listeners(call_guarded):
                return all(time.perf_counter() - start <= seconds for _ in steps)
        finally:
            self._is_stepping = before
