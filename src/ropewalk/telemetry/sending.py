"""Sending spans and metrics to a collector that may be away: it is said once, and the end of a program waits little."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

LEAVING: Final = 2.0  # seconds for what has not been sent yet when a program ends
log = logging.getLogger("ropewalk.telemetry")


class Sending:
    """Providers that were made for one app, their exporters, and where these send to."""

    def __init__(self, providers: Sequence[Any], exporters: Sequence[Any], where: Iterable[str]) -> None:
        self._providers, self._exporters = providers, exporters
        self._where = ", ".join(sorted(where))
        self._said = False
        for exporter in exporters:
            logging.getLogger(type(exporter).__module__).addFilter(self._heard)

    def close(self) -> None:
        """Send what is left, for LEAVING seconds at most; all of it at once."""
        end = time.monotonic() + LEAVING
        threads = [threading.Thread(target=provider.shutdown, daemon=True) for provider in self._providers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        if any(thread.is_alive() for thread in threads):
            self._say(f"no answer within {LEAVING:g} s")
            for exporter in self._exporters:
                exporter.shutdown()  # which ends its pauses between attempts

    def _heard(self, record: logging.LogRecord) -> bool:
        """Takes the place of what exporters log, attempt by attempt and batch by batch."""
        said = record.getMessage()
        if record.levelno >= logging.WARNING and "already shutdown" not in said:
            # "Transient error %s encountered while exporting %s batch, retrying in %.2fs."
            self._say(str(record.args[0]) if said.startswith("Transient") and isinstance(record.args, tuple) else said)
        return False

    def _say(self, why: str) -> None:
        if not self._said:
            self._said = True
            log.warning("traces and metrics do not reach %s, and are lost: %s", self._where, why)
