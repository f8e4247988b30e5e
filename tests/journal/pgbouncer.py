"""A real PgBouncer in front of the tests' Postgres."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from patience import wait_until

PGBOUNCER = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")


@contextmanager
def pgbouncer(url: str, mode: str, *settings: str) -> Iterator[str]:
    """Pool the server at `url` in this mode; gives the pooler's address, with the same schema."""
    if PGBOUNCER is None:
        if os.environ.get("CI"):
            raise RuntimeError("no pgbouncer on CI")
        pytest.skip("no pgbouncer: apt-get install pgbouncer")
    database, words = urlsplit(url).path[1:], parse_qs(urlsplit(url).query)
    home = Path(tempfile.mkdtemp(prefix="rw-pgb-", dir="/tmp"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (home / "pgbouncer.ini").write_text(
        "\n".join(
            [
                "[databases]",
                f"postgres = host={words['host'][0]} dbname={database} user=postgres",
                "[pgbouncer]",
                f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any",
                f"pool_mode = {mode}",
                *settings,
            ]
        )
    )
    os.chmod(home, 0o755)
    user = ["-u", "nobody"] if os.geteuid() == 0 else []
    with (home / "log").open("wb") as log:
        process = subprocess.Popen([PGBOUNCER, *user, home / "pgbouncer.ini"], stdout=log, stderr=log)
    try:
        listens = lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0  # noqa: E731
        wait_until(lambda: listens() or process.poll() is not None, (home / "log").read_text)
        assert process.poll() is None, (home / "log").read_text()
        yield f"postgresql://postgres@127.0.0.1:{port}/postgres?schema={words['schema'][0]}"
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(home)
