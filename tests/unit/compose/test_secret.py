from pathlib import Path

from agentrewind.compose.secret import known_secrets, redactor, say_without_secrets
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
    assert known_secrets({}, tmp_path) == {"s3cr3t-value", "http://u:pass1234@h/", "ab12cd34ef56ab12cd34"}


def test_a_directory_or_pipe_named_env_is_no_file(tmp_path: Path):
    (tmp_path / ".env").mkdir()
    assert known_secrets({}, tmp_path) == set()


def test_they_are_taken_out_of_text(tmp_path):
    assert "correct horse" not in redactor({"DB_PASSWORD": "correct horse"}).text("it is correct horse")


def test_an_error_is_said_without_secrets_and_stays_the_same_error():
    error = ValueError("no hunter2hunter2", 7)
    say_without_secrets(error, Redactor(["hunter2hunter2"]))
    assert error.args == ("no [redacted secret]", 7)
