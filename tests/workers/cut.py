"""A worker's own wire to Postgres, which can be cut while all others keep theirs."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from faults.wire import Wire


class Cable(Wire):
    """A `Wire` that refuses connections while it is cut."""

    def __init__(self, url: str) -> None:
        """`url` is the address of a store on a socket of this host."""
        query = parse_qs(urlsplit(url).query)
        self._socket = f"{query['host'][0]}/.s.PGSQL.5432"
        super().__init__(self._socket)
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres?sslmode=disable&schema={query['schema'][0]}"

    def cut_off(self) -> None:
        """Break every connection, and let no new one come."""
        self._server = "/nowhere"
        self.cut()

    def join(self) -> None:
        """Let connections come again."""
        self._server = self._socket
