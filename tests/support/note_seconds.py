"""Write the seconds of the files of tests in the last run into `file_seconds.json`.

python run.py test -n auto && python tests/support/note_seconds.py
"""

import json
from collections import Counter
from pathlib import Path

LEAST = 2
"""Seconds; files that take less are in any order."""

here = Path(__file__).parent
record = here.parents[1] / ".pytest_cache" / "durations.json"
seconds: Counter[str] = Counter()
for test, took in json.loads(record.read_text()).items():
    seconds[test.partition("::")[0]] += took
kept = {name: round(took) for name, took in sorted(seconds.items()) if took >= LEAST}
(here / "file_seconds.json").write_text(json.dumps(kept, indent=0) + "\n")
