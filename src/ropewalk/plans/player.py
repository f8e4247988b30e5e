"""The loop that plays a program: deliveries go to its machine, and the messages of the machine to its session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final, Protocol

from ..values import Json
from . import messages as m
from .session import Outcome, Session

if TYPE_CHECKING:
    from .program import Program


class Player(Protocol):
    """A machine with its program, in this process (`LocalPlayer`) or in a child (`ChildMachine`)."""

    async def start(self, replayed: int | None) -> Sequence[m.Message]:
        """Begin the program, and return the messages up to its first wait."""
        # replayed: How many recorded deliveries follow; None for a new run.
        ...

    async def deliver(self, delivery: m.Delivery, ahead: Iterable[m.Delivery] | None) -> Sequence[m.Message]:
        """Take a delivery, and return the messages up to the next wait."""
        # ahead: The recorded deliveries that follow in a replay; None if the delivery is new.
        ...

    def waiting(self) -> AbstractContextManager[None]:
        """Return the context of a wait for the world."""
        ...

    async def close(self) -> None:
        """Give everything back."""
        ...


class Host(Protocol):
    """Executes the steps that a session begins."""

    async def commits(self) -> None:
        """Wait until every row so far is committed."""
        ...

    async def wait(self) -> None:
        """Wait until a step ends."""
        ...


async def play(session: Session, player: Player, host: Host) -> Outcome:
    """Play a program to its end."""
    try:
        session.take(await player.start(session.replayed or None))
        while session.outcome is None:
            if (delivery := session.next()) is not None:
                await host.commits()  # steps may have ended while the machine computed
                session.take(await player.deliver(delivery, session.ahead()))
            else:
                with player.waiting():
                    await host.wait()
        return session.outcome
    finally:
        await player.close()


_NOTHING: Final = nullcontext()


class LocalPlayer:
    """A machine in this process."""

    def __init__(
        self, program: Program, inputs: Mapping[str, Json], seed: int, read: Callable[[m.Clock], m.Reading]
    ) -> None:
        self._machine: Any = None
        self._begin: Any = lambda: program.start(inputs, seed, read)

    async def start(self, replayed: int | None) -> Sequence[m.Message]:
        """Begin the program."""
        messages: Sequence[m.Message]
        self._machine, messages = self._begin()
        return messages

    async def deliver(self, delivery: m.Delivery, ahead: Iterable[m.Delivery] | None) -> Sequence[m.Message]:
        """Take a delivery."""
        messages: Sequence[m.Message] = self._machine.deliver(delivery)
        return messages

    def waiting(self) -> AbstractContextManager[None]:
        """Return a context that does nothing."""
        return _NOTHING

    async def close(self) -> None:
        """Close what the program left open."""
        if self._machine is not None:
            self._machine.close()
