"""Pages of an enrolment link, and the layout of all pages. Plain HTML without scripts."""

import base64
import hashlib
from collections.abc import Mapping
from html import escape
from http import HTTPStatus

from fastapi import Response
from fastapi.responses import HTMLResponse

from nac.models import EnrolmentSecret

_STYLE = """
:root { color-scheme: light dark; --text: #1a2330; --quiet: #556273; --behind: #f4f6f8; --paper: #fff; --line: #dde3ea;
  --edge: #8794a5; --code: #eef2f6; --act: #14539a; --on-act: #fff; --link: #14539a; --wrong: #a11; --good: #17653a;
  --focus: #7fb2ea; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6ebf1; --quiet: #a5b1bf; --behind: #12171d; --paper: #1b222b; --line: #333e4b; --edge: #77869a;
    --code: #27313d; --act: #2f74c0; --link: #86bbf5; --wrong: #ff9a9a; --good: #7fd6a3; --focus: #7fb2ea; }
}
body { font: 1rem/1.5 system-ui, sans-serif; color: var(--text); background: var(--behind); margin: 0; }
main { max-width: 38rem; margin: 2rem auto; padding: 1.5rem 2rem 2rem; background: var(--paper); border-radius: 8px; }
h1 { font-size: 1.4rem; margin: 0 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 0 0 .25rem; }
p { margin: .25rem 0 .75rem; overflow-wrap: anywhere; }
a { color: var(--link); }
section { border-top: 1px solid var(--line); padding-top: 1rem; margin-top: 1.25rem; }
button, a.button { font: inherit; display: inline-block; padding: .5rem 1rem; border: 0; border-radius: 6px;
  background: var(--act); color: var(--on-act); text-decoration: none; cursor: pointer; }
textarea { width: 100%; box-sizing: border-box; font: .8rem monospace; }
code { font-size: 1.1rem; background: var(--code); padding: .3rem .6rem; border-radius: 4px;
  -webkit-box-decoration-break: clone; box-decoration-break: clone; }
pre { font: .85rem/1.5 monospace; background: var(--code); padding: .6rem .8rem; border-radius: 4px; overflow-x: auto; }
.wrong { color: var(--wrong); }
.good { color: var(--good); }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 1rem; }
td { padding: .3rem .5rem .3rem 0; border-top: 1px solid var(--line); vertical-align: top; overflow-wrap: anywhere; }
label.field { display: block; margin: 0 0 1rem; }
label.field input, label.field select { display: block; width: 100%; box-sizing: border-box; font: inherit;
  padding: .5rem .6rem; margin-top: .25rem; border: 1px solid var(--edge); border-radius: 6px;
  color: inherit; background: var(--paper); }
input:focus, select:focus, button:focus, a:focus { outline: 3px solid var(--focus); outline-offset: 1px; }
.hint { display: block; color: var(--quiet); font-size: .9rem; margin-top: .25rem; }
@media (max-width: 30rem) { main { margin: 0 auto; padding: 1rem; border-radius: 0; } }
"""
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_CONTENT_SECURITY_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
PAGE_HEADERS = {
    "Cache-Control": "no-store",
    # Browsers send the Origin of a form, but no address with a token to other sites.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex",
    "Content-Security-Policy": _CONTENT_SECURITY_POLICY,
}
_PAGE_TEMPLATE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="same-origin">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
<h1>{title}</h1>
{body}
</main>
{script}</body>
</html>
"""
_OFFER_FORM = """\
<p>For <strong>{name}</strong> at {organisation}. You can use this link {times} until {until} UTC.</p>
{wrong}
<section>
<h2>Windows, Android, Linux</h2>
<p>A PKCS#12 file with the key and the certificate, protected by a password.</p>
<form method="post">
<input type="hidden" name="form" value="p12">
<p><label><input type="checkbox" name="legacy" value="yes"> Legacy encryption, for systems that cannot open the file
otherwise (macOS, Windows before 10 1709, some releases of Android)</label></p>
<button>Create the file</button>
</form>
</section>
<section>
<h2>iPhone, iPad, Mac</h2>
<p>A configuration profile{network}. Open it and install it in Settings.</p>
<form method="post">
<input type="hidden" name="form" value="apple">
<button>Download the profile</button>
</form>
</section>
<section>
<h2>Your own key</h2>
<p>Upload a certificate signing request (PKCS#10). Your key stays on your device.</p>
<form method="post" enctype="multipart/form-data">
<input type="hidden" name="form" value="csr">
<p><label>File <input type="file" name="file"></label></p>
<p><label>or text<textarea name="text" rows="4" placeholder="-----BEGIN CERTIFICATE REQUEST-----"></textarea>
</label></p>
<button>Sign the request</button>
</form>
</section>
"""
_PKCS12_DOWNLOAD = """\
<p>1. Save the file:</p>
<p><a class="button" download="{file_name}" href="data:application/x-pkcs12;base64,{content}">{file_name}</a></p>
<p>2. Save its password. It is shown only once:</p>
<p><code>{password}</code></p>
<p>3. Open the file on the device and enter the password. You cannot download either again with this link.</p>
"""


def render_offer(
    secret: EnrolmentSecret, *, organisation: str, wrong: str = "", status: int = HTTPStatus.OK
) -> Response:
    left = secret.most_uses - secret.uses
    body = _OFFER_FORM.format(
        name=escape(secret.common_name or ""),
        organisation=escape(organisation),
        times="once" if left == 1 else f"{left} times",
        until=f"{secret.expires_at:%Y-%m-%d %H:%M}",
        network=f" for the network {escape(secret.ssid)}" if secret.ssid else "",
        wrong=f'<p class="wrong">{escape(wrong)} You can still use the link.</p>' if wrong else "",
    )
    return render_page("Your certificate", body, status)


def render_pkcs12_download(content: bytes, *, file_name: str, password: str) -> Response:
    body = _PKCS12_DOWNLOAD.format(
        file_name=escape(file_name), content=base64.b64encode(content).decode(), password=escape(password)
    )
    return render_page("Your certificate", body, HTTPStatus.OK)


def render_link_error(status: int, sentence: str, *, headers: Mapping[str, str] | None = None) -> Response:
    return render_page("This link does not work", f"<p>{escape(sentence)}</p>", status, headers)


def build_download(content: bytes, *, media_type: str, file_name: str) -> Response:
    disposition = f'attachment; filename="{file_name}"'
    return Response(content, media_type=media_type, headers=PAGE_HEADERS | {"Content-Disposition": disposition})


def render_page(
    title: str, body: str, status: int, headers: Mapping[str, str] | None = None, *, script: str = ""
) -> Response:
    """HTML page. `title` is text and may be untrusted; `body` is HTML.

    `script` is the path of a script of this origin; it may send requests to this origin.
    """
    behind = f'<script src="{escape(script)}"></script>\n' if script else ""
    may = PAGE_HEADERS | (
        {"Content-Security-Policy": f"{_CONTENT_SECURITY_POLICY}; script-src 'self'; connect-src 'self'"}
        if script
        else {}
    )
    content = _PAGE_TEMPLATE.format(title=escape(title), style=_STYLE, body=body, script=behind)
    return HTMLResponse(content, status, may | dict(headers or {}))
