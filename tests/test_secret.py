"""Which settings are secret by their names, and what is done about what they hold."""

from __future__ import annotations

import pytest

from ropewalk.config.secrets import ProcessSecrets, Secrets, is_secret_name, redact_text, remember_secrets, secrets_of

SAYS = ["GITHUB_TOKEN", "X-Api-Key", "apiKey", "dbPassword", "PGPASSWORD", "Authorization", "Cookie", "AWS_SECRET_KEY"]
SAYS_NOT = ["HOME", "LOG_LEVEL", "Accept", "monkey", "REGION", "KEYBOARD", "author", "TOKENIZERS", "compass"]


@pytest.mark.parametrize("name", SAYS)
def test_a_name_with_such_a_word_says_secret(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", SAYS_NOT)
def test_a_word_that_only_looks_like_one_does_not(name: str) -> None:
    assert not is_secret_name(name)


def test_a_setting_is_secret_by_its_own_name_or_by_that_of_its_variable() -> None:
    settings = {"Authorization": "Bearer abcdef123", "GH": "ghp_12345", "PLACE": "/srv/data", "Cookie": "short"}
    read = {"GH": {"GITHUB_TOKEN": "ghp_12345"}, "PLACE": {"DATA_DIR": "/srv/data"}}
    secrets = secrets_of(settings, read)
    assert secrets.read == {"ghp_12345", "/srv/data", "%2Fsrv%2Fdata"}
    assert secrets.named == {"abcdef123", "ghp_12345"}
    assert secrets.redact_value({"ghp_12345": ["Bearer abcdef123", "/srv/data"]}) == {
        "***": ["Bearer ***", "/srv/data"]
    }
    assert secrets.redact_error("at /srv/data with ghp_12345") == "at *** with ***"


def test_a_secret_that_holds_another_one_goes_as_a_whole() -> None:
    assert redact_text("it is abcdef-long", ["abcdef", "abcdef-long"]) == "it is ***"


def test_a_secret_is_found_in_json_as_it_is_spelled_there() -> None:
    secrets = Secrets(named=frozenset({'with "quotes"\n'}))
    assert secrets.are_in(b'{"a": "with \\"quotes\\"\\n"}')
    assert not secrets.are_in(b'{"a": "without"}')


def test_a_log_knows_what_was_used_and_what_the_environment_calls_secret() -> None:
    remember_secrets(["used-before", "tiny"])
    known = ProcessSecrets({"MY_TOKEN": "of-the-environment", "HOME": "/home/somebody"})
    assert {"used-before", "of-the-environment"} <= set(known.replacements)
    assert not {"tiny", "/home/somebody"} & set(known.replacements)
    remember_secrets(["used-later"])
    assert "used-later" in known.replacements
