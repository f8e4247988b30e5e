"""Runs as people work with them: looked at, retried, forked, compared, cleared away.

`seen.py` lists and shows them, `rerun.py` goes on with them, `fork.py` begins new ones from them, `upgrade.py` gives
them another definition, `difference.py` compares them; `cone.py` says what of a run is done again.
"""

from ..journal.waiting import iso
from .seen import Runs
from .standing import LEFT, told
from .steps import EVENT_OF, event_of, events_of, step, steps, summary

__all__ = ["EVENT_OF", "LEFT", "Runs", "event_of", "events_of", "iso", "step", "steps", "summary", "told"]
