"""What writes is killed before or after each kind of call; see `test_kills.py`.

In a file of its own, so that another process can run it at the same time.
"""

from pathlib import Path

import pytest

from callers import FOLDER
from kill_trials import PAIRS, chosen, most_steps

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="no such processes here"
)

STAGES = {
    "save labels": {"write journal", "fsync journal", "swap chunk", "fsync chunk"},
    "save new labels": {"rename other", "swap document", "create journal"},
}
"""Stages in which at least a process has to die, so that none is overlooked."""


@pytest.mark.long
@pytest.mark.parametrize("swaps", [True, False], ids=["swap", "two renames"])
@pytest.mark.parametrize(("name", "kind"), PAIRS)
def test_death_in_every_stage(make_trials, name, kind, swaps):
    if not swaps and kind != FOLDER:
        return
    trials = make_trials(name, kind, swaps=swaps)
    steps = trials.run()
    if swaps and kind == FOLDER:
        assert steps.keys() >= STAGES.get(name, set())
    for number, step in enumerate(chosen(steps, most_steps(kind))):
        when = ("after", "before")[number % 2]
        step, reported = trials.start_at(step, when)
        assert reported is None
        trials.check((step, when))
