"""Whatever kills what writes, each object is old or new, and nothing is lost.

Each test runs real processes. They end by SIGKILL, just before or just after a call
that changes anything, or at a random moment. All that writes is in `callers.CALLERS`,
and is tried in a folder, an archive and a bucket of a real server of S3. See
`test_kill_stages.py` for all stages, and `test_failing_calls.py` for calls that fail.

With KILLS=N at so many random moments.
"""

import os
import random
from pathlib import Path

import pytest

from callers import ARCHIVE, CALLERS, FOLDER, state_of
from kill_trials import PAIRS, chosen

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="no such processes here"
)

REFUSED = [(name, kind) for name in CALLERS for kind in CALLERS[name].refuses]
KILLS = int(os.environ.get("KILLS", "8"))
"""How often a process is killed at a random moment, in all."""


def test_each_caller_says_what_it_writes():
    assert len(CALLERS) >= 14
    assert all(caller.written for caller in CALLERS.values())


@pytest.mark.default_cases("replace labels-bucket")
@pytest.mark.parametrize(("name", "kind"), REFUSED)
def test_what_a_caller_refuses_is_left_as_it_was(make_trials, name, kind):
    trials = make_trials(name, kind)
    reported = trials.start()
    if CALLERS[name].painting is None:
        assert CALLERS[name].refuses[kind] in reported["failures"][0]
        assert state_of(trials.place) == trials.before


@pytest.mark.parametrize(("name", "kind"), PAIRS)
def test_what_is_killed_at_a_random_moment(make_trials, name, kind):
    """Some of KILLS, shared among all."""
    number = PAIRS.index((name, kind))
    times = KILLS // len(PAIRS) + (number < KILLS % len(PAIRS))
    if not times:
        return
    trials = make_trials(name, kind)
    trials.run()
    for kill in range(times):
        rng = random.Random(1000 * number + kill)
        trials.begin()
        seconds = rng.uniform(0, trials.seconds)
        trials.run_and_kill(seconds)
        trials.check(seconds)


@pytest.mark.parametrize(
    ("name", "kind", "stride"),
    [("save labels", FOLDER, 4), ("save new labels", ARCHIVE, 16)],
)
def test_death_in_some_stages(make_trials, name, kind, stride):
    """Each fourth or sixteenth stage; `test_death_in_every_stage` takes long."""
    trials = make_trials(name, kind)
    for number, step in enumerate(list(chosen(trials.run(), 1))[::stride]):
        when = ("after", "before")[number % 2]
        step, reported = trials.start_at(step, when)
        assert reported is None
        trials.check((step, when))
