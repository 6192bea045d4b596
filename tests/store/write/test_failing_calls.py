"""One call fails in what writes; see `test_kills.py`."""

from pathlib import Path

import pytest

from callers import state_of
from kill_trials import PAIRS, chosen, differing, most_steps

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="no such processes here"
)

ERRORS = ("ENOSPC", "EIO", "EACCES")


@pytest.mark.long
@pytest.mark.parametrize(("name", "kind"), PAIRS)
def test_a_call_that_fails_once(make_trials, name, kind):
    """What failed is named, all is old or new, and to do it again is enough."""
    trials = make_trials(name, kind)
    for number, step in enumerate(chosen(trials.run(), most_steps(kind))):
        step, reported = trials.start_at(step, ERRORS[number % len(ERRORS)])
        assert reported is not None
        where = step, reported["failures"], reported.get("trace")
        # All may be there where the system would not flush the last name.
        assert not reported["failures"][1:] or reported["states"] == trials.after, where
        assert all(reported["remedies"][:1]), where
        for failure in reported["failures"]:
            check_named(failure, reported["failed"], where)
        # What the system would not remove, the next one removes.
        if not step[0].startswith(("unlink", "rmdir", "delete other")):
            assert trials.left_aside() == [], where
            if trials.painting is None:
                assert differing(state_of(trials.place), trials.after) == {}, where
        trials.check(where)


def check_named(failure, failed, where):
    """See that an error names what it failed at: a path of which that is part."""
    names = "image", "table", *Path(failed).parts[-2:]
    assert any(name in failure for name in names), where
