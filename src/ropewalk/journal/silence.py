"""How long other processes have been silent, as this process has seen it.

A heartbeat that is old by the database's clock proves nothing: nobody can write heartbeats while the database is
away. So an observer counts only time in which it read the heartbeats itself, on one connection, without a long gap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..frozen import dataclass
from .boottime import boottime


@dataclass(frozen=True, slots=True)
class _Seen:
    beat: float
    since: float
    bonus: float


class Silence:
    """Measure the silence of many processes.

    Args:
        gap: Longest time between two looks, in seconds. After a longer one all observations start again.
        grace: Extra seconds that a process gets when observations start, or start again after an interruption. It may
            need longer than the observer to reconnect.
        clock: Seconds, monotonic.
    """

    def __init__(self, gap: float, grace: float = 0.0, clock: Callable[[], float] = boottime) -> None:
        self._gap, self._grace, self._clock = gap, grace, clock
        self._seen: dict[str, _Seen] = {}
        self._looked: float | None = None
        self._connection = 0

    def observe(self, beats: Mapping[str, float], connection: int = 0) -> dict[str, float]:
        """Record the latest heartbeat of each process.

        Args:
            beats: Latest heartbeat by process, in any unit.
            connection: Number of the database connection that the heartbeats were read on.

        Returns:
            Observed silence of each process, in seconds. It is negative while the grace lasts.
        """
        now = self._clock()
        # At the first look, too: it may come right after an outage.
        interrupted = self._looked is None or now - self._looked > self._gap or connection != self._connection
        bonus = self._grace if interrupted else 0.0
        known = {} if interrupted else self._seen
        self._looked, self._connection = now, connection
        self._seen = {}
        for name, beat in beats.items():
            seen = known.get(name)
            self._seen[name] = seen if seen is not None and seen.beat == beat else _Seen(beat, now, bonus)
        return {name: now - seen.since - seen.bonus for name, seen in self._seen.items()}
