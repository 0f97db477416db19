from pathlib import Path

import pytest

from agentrewind.compose.secret import known_secrets, redactor, say_without_secrets
from agentrewind.core.errors import UsageError
from agentrewind.core.redact import Redactor


def test_values_under_secret_names_are_known(tmp_path):
    environ = {
        "OPENAI_API_KEY": "sk-0123456789",
        "DB_PASSWORD": "correct horse",
        "HOME": "/home/someone",
        "KEYBOARD": "qwertyuiop",
    }
    assert known_secrets(environ, tmp_path) == {"sk-0123456789", "correct horse"}


def test_short_values_and_paths_are_left_alone(tmp_path):
    assert known_secrets({"API_KEY": "none", "SSH_AUTH_SOCK": "/tmp/agent.sock"}, tmp_path) == set()


def test_env_files_of_the_workspace_are_read(tmp_path: Path):
    (tmp_path / ".env").write_text(
        "export STRIPE_SECRET='s3cr3t-value'\nNODE_ENV=production\n# x\nURL=http://u:pass1234@h/\n"
    )
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / ".env.local").write_text("SOMETHING=ab12cd34ef56ab12cd34\n")
    (tmp_path / ".env.example").write_text("API_KEY=put-yours-here\n")
    assert known_secrets({}, tmp_path) == {
        "s3cr3t-value",
        "http://u:pass1234@h/",
        "pass1234",
        "ab12cd34ef56ab12cd34",
    }


def test_a_directory_or_pipe_named_env_is_no_file(tmp_path: Path):
    (tmp_path / ".env").mkdir()
    assert known_secrets({}, tmp_path) == set()


def test_they_are_taken_out_of_text(tmp_path):
    assert "correct horse" not in redactor({"DB_PASSWORD": "correct horse"}).text("it is correct horse")


def test_an_error_is_said_without_secrets_and_stays_the_same_error():
    error = ValueError("no hunter2hunter2", 7)
    say_without_secrets(error, Redactor(["hunter2hunter2"]))
    assert error.args == ("no [redacted secret]", 7)


def test_the_password_of_a_url_is_secret_by_itself_unless_it_is_an_ordinary_word():
    environ = {"DATABASE_URL": "postgres://app:tr0ub4dor%21x@db/app", "CACHE_URL": "redis://me:postgres@cache/0"}
    assert known_secrets(environ, None) == {*environ.values(), "tr0ub4dor%21x", "tr0ub4dor!x"}


def test_what_looks_generated_is_secret_under_any_name_and_hashes_are_not():
    generated = "Zk81QmvTTb29aLq7RtYw3uE5oPsD"
    environ = {
        "BLOB": generated,
        "GITHUB_SHA": "9fceb02d0ae598e95dc970b74767f19372d61af8",
        "RUN_UUID": "550e8400-e29b-41d4-a716-446655440000",
        "LS_COLORS": "rs=0:di=01;34:ln=01;36",
        "MODEL": "Meta-Llama-3-70B-Instruct-AWQ",
        "WIDGET": "ABSTRACT_SINGLETON_FACTORY_Bean2",
    }
    assert known_secrets(environ, None) == {generated}


def test_names_of_models_in_an_env_file_are_no_secrets(tmp_path):
    (tmp_path / ".env").write_text(
        "MODEL=gpt-4o-mini-2024-07-18\nOTHER=claude-sonnet-4-5-20250929\nX=ab12cd34ef56ab12cd\n"
    )
    assert known_secrets({}, tmp_path) == {"ab12cd34ef56ab12cd"}


def test_the_settings_of_the_workspace_name_more_secrets(tmp_path):
    (tmp_path / "agentrewind.toml").write_text(
        "[secrets]\npatterns = ['EMP-\\d{6}', 'seat (\\w+)', '[a-z ]*zebra']\nvariables = ['ACME_*']\n"
    )
    clean = redactor({"ACME_SEAT": "quiet river stone"}, tmp_path)
    text = "EMP-123456 at seat 12b says quiet river stone to a zebra"
    once = clean.text(text)
    assert not any(word in once for word in ("123456", "12b", "river", "zebra"))
    assert clean.text(once) == once


@pytest.mark.parametrize(
    ("table", "what"),
    [
        ("secrets = 1", "[secrets] must be a table"),
        ("[secrets]\nfoo = 1", "has no setting 'foo'"),
        ("[secrets]\npatterns = ['(']", "'(' is not a regular expression"),
        ("[secrets]\nvariables = [1]", "secrets.variables must be a list of texts"),
    ],
)
def test_settings_that_are_wrong_are_refused_with_the_key(tmp_path, table, what):
    (tmp_path / "agentrewind.toml").write_text(table)
    with pytest.raises(UsageError) as refused:
        redactor({}, tmp_path)
    assert what in str(refused.value)
