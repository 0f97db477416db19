"""Who may talk to the page's server, and who may not."""

import http.client

import pytest

from agentrewind.compose.home import Home
from agentrewind.ui.server import Page

ME = "127.0.0.1"


@pytest.fixture
def page(tmp_path):
    with Page(Home(tmp_path / "home")) as opened:
        yield opened


class Browser:
    """Sends what it is told to, like a browser that may be on somebody else's page."""

    def __init__(self, page):
        self.port = int(page.link().split(":")[2].split("/")[0])
        self.token = page.link().split("token=")[1]
        self.cookie = f"agentrewind-{self.port}={self.token}"

    def send(self, method, path, body=None, **headers):
        connection = http.client.HTTPConnection(ME, self.port, timeout=20)
        try:
            connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read().decode()
        finally:
            connection.close()

    @property
    def forgery(self):
        _, _, shell = self.send("GET", "/", cookie=self.cookie)
        return shell.split('agentrewind-forgery" content="')[1].split('"')[0]


def test_the_link_gives_a_cookie_that_scripts_and_other_sites_cannot_use(page):
    browser = Browser(page)
    status, headers, _ = browser.send("GET", f"/?token={browser.token}")
    assert status == 303
    assert headers["location"] == "/", "the token doesn't stay in the address"
    assert "HttpOnly" in headers["set-cookie"]
    assert "SameSite=Strict" in headers["set-cookie"]


@pytest.mark.parametrize("path", ["/", "/api/runs", "/static/app.js", "/?token=wrong", "/api/run/last"])
def test_without_the_token_nothing_is_shown(page, path):
    status, _, text = Browser(page).send("GET", path)
    assert (status, "link" in text) == (403, True)


def test_a_name_that_points_here_is_refused(page):
    browser = Browser(page)
    status, _, text = browser.send("GET", "/api/runs", host="evil.example", cookie=browser.cookie)
    assert (status, "own address" in text) == (403, True)


def test_all_answers_forbid_frames_other_scripts_and_caching(page):
    browser = Browser(page)
    for path in ("/", "/static/app.js", "/api/runs", "/nothing"):
        _, headers, _ = browser.send("GET", path, cookie=browser.cookie)
        assert "default-src 'none'" in headers["content-security-policy"], path
        assert "unsafe" not in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({}, "another page"),
        ({"origin": "http://evil.example"}, "another page"),
        ({"origin": "null"}, "another page"),
        ({"origin": "OWN"}, "secret of the page"),
        ({"origin": "OWN", "x_agentrewind": "wrong"}, "secret of the page"),
    ],
)
def test_what_changes_something_must_come_from_our_own_page(page, headers, why):
    browser = Browser(page)
    own = {name: value.replace("OWN", f"http://{ME}:{browser.port}") for name, value in headers.items()}
    status, _, text = browser.send("POST", "/api/run/last/undo", "{}", cookie=browser.cookie, **own)
    assert (status, why in text) == (403, True)


def test_our_own_page_gets_through_and_is_told_what_is_wrong(page):
    browser = Browser(page)
    own = {
        "cookie": browser.cookie,
        "origin": f"http://{ME}:{browser.port}",
        "x_agentrewind": browser.forgery,
    }
    status, _, text = browser.send("POST", "/api/run/last/undo", "{}", **own)
    assert (status, "There is no run yet" in text) == (404, True)
    for body in ("{", "[]", '"x"'):
        status, _, text = browser.send("POST", "/api/run/last/undo", body, **own)
        assert (status, "JSON" in text or "object" in text) == (400, True), body
    status, _, text = browser.send("POST", "/api/run/last/undo", "{" + " " * (1 << 20), **own)
    assert (status, "too long" in text) == (400, True)


def test_only_files_of_the_page_are_served(page):
    browser = Browser(page)
    for name in ("index.html", "..%2fserver.py", "%2e%2e/server.py", "app.js%00", "nothing"):
        status, _, _ = browser.send("GET", f"/static/{name}", cookie=browser.cookie)
        assert status == 404, name


def test_a_taken_port_is_said(page, tmp_path):
    with pytest.raises(Exception, match="can't be used"):
        Page(Home(tmp_path / "home"), port=Browser(page).port)
