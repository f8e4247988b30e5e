"""A worker's own wire to Postgres, which can be cut while all others keep theirs."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from faults.wire import Wire


class Cable(Wire):
    """A `Wire` that refuses connections while it is cut."""

    def __init__(self, url: str) -> None:
        """`url` is the address of a store on a socket of this host."""
        parts = urlsplit(url)
        query = parse_qs(parts.query)
        self._socket = f"{query['host'][0]}/.s.PGSQL.5432"
        super().__init__(self._socket)
        settings = f"sslmode=disable&schema={query['schema'][0]}"
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}{parts.path}?{settings}"

    def cut_off(self) -> None:
        """Break every connection, and let no new one come."""
        self._server = "/nowhere"
        self.cut()

    def lose_answers(self, to: bytes, times: int) -> None:
        """Break the connection whenever the server has done a statement with these words, before anybody hears it."""
        self.lose_answer(to)
        if times > 1:
            self._then = lambda: self.lose_answers(to, times - 1)

    def join(self) -> None:
        """Let connections come again."""
        self._server = self._socket
