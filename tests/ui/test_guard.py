"""Who may speak with the page: wrong tokens, foreign names and foreign pages are refused."""

import pytest

from dpsco.ui.guard import MOST_BYTES, Keys

PAGES = ("/", "/table", "/epsilon", "/fit", "/report", "/odometer", "/static/ui.js", "/nothing")


def test_the_token_is_exchanged_for_a_cookie_at_once(client):
    answer = client.get(f"/start?token={client.keys.token}", cookie=None)
    assert answer.status == 303
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"]
    assert client.keys.token not in cookie
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    assert client.get("/", cookie=cookie.partition(";")[0]).status == 303


@pytest.mark.parametrize("token", ["", "x", "0" * 64])
def test_a_wrong_token_is_refused(client, token):
    answer = client.get(f"/start?token={token}", cookie=None)
    assert answer.status == 403
    assert "set-cookie" not in answer.headers


def test_tokens_are_new_each_time():
    keys = [Keys(1) for _ in range(2)]
    secrets = {value for each in keys for value in (each.token, each.session, each.form)}
    assert len(secrets) == 6
    assert min(map(len, secrets)) >= 64  # hexadecimal digits: 256 bits
    assert not any(secret in repr(keys) for secret in secrets)


@pytest.mark.parametrize("path", PAGES)
def test_nothing_is_shown_without_the_cookie(client, path):
    for cookie in (None, "a=b", f"{client.keys.cookie}=wrong", f"other={client.keys.session}"):
        answer = client.get(path, cookie=cookie)
        assert answer.status == 403
        assert "<" not in answer.text


@pytest.mark.parametrize("site", ["same-site", "cross-site", "odd"])
def test_other_pages_cannot_even_load_a_picture(client, site):
    """Another port of 127.0.0.1 is the same site, and its pages would send the cookie."""
    for path in ("/epsilon/curve.svg?epsilon=1", "/static/ui.css", "/table"):
        assert client.get(path, sec_fetch_site=site).status == 403
    for own in ("same-origin", "none"):
        assert client.get("/table", sec_fetch_site=own).status == 200


def test_the_cookie_counts_beside_others(client):
    odd = f'a="; b={{}}; {client.keys.cookie}={client.keys.session}; c'
    assert client.get("/table", cookie=odd).status == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:4321", "127.0.0.1", "127.0.0.1:80", "localhost:4321", None],
)
def test_a_foreign_host_is_refused(client, host):
    """A name that its owner lets lead to 127.0.0.1 would otherwise read the page."""
    for path in ("/table", f"/start?token={client.keys.token}"):
        answer = client.get(path, host=host)
        assert answer.status == 421
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "changes",
    [
        {"origin": None},
        {"origin": "null"},
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "https://127.0.0.1:4321"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "cross-site"},
        {"content_type": "text/plain"},
        {"content_type": "application/json"},
        {"content_length": None},
        {"content_length": str(MOST_BYTES + 1)},
    ],
)
def test_a_form_of_another_page_is_refused(client, table, changes):
    answer = client.post("/table", {"path": str(table), "origin": "names"}, **changes)
    assert answer.status in (400, 403, 413)
    assert client.study.table is None


@pytest.mark.parametrize("secret", ["", "x", None])
def test_a_form_without_its_secret_is_refused(client, table, secret):
    fields = {"path": str(table), "origin": "names", "csrf": secret}
    if secret is None:
        del fields["csrf"]
        fields["csrf "] = client.keys.form
    body = "&".join(f"{key}={value}" for key, value in fields.items()).encode()
    assert client.send("POST", "/table", body).status == 403
    assert client.study.table is None


def test_a_form_longer_than_it_says_is_refused(client):
    body = b"csrf=" + client.keys.form.encode() + b"&path=" + b"a" * MOST_BYTES
    assert client.send("POST", "/table", body, content_length="10").status == 403


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"])
def test_other_methods_are_refused(client, method):
    assert client.send(method, "/table").status == 405


@pytest.mark.parametrize("path", [*PAGES, "/start?token=x", "/static/nothing", "/fit/progress"])
def test_every_answer_has_its_headers(client, path):
    for cookie in (client.cookie, None):
        headers = client.get(path, cookie=cookie).headers
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["x-content-type-options"] == "nosniff"
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy


def test_pages_have_no_script_or_style_of_their_own(client, table):
    client.declare(table)
    for path in ("/table", "/epsilon", "/fit", "/odometer", "/report"):
        text = client.get(path).text
        assert "<style" not in text
        assert " style=" not in text
        assert " onclick" not in text
        assert text.count("<script") == text.count('<script src="/static/')


def test_files_outside_the_page_are_not_served(client):
    for name in ("../app.py", "..%2fapp.py", "__init__.py", "%2e%2e/study.py"):
        assert client.get(f"/static/{name}").status == 404
        assert client.get(f"/files/{name}").status == 404
