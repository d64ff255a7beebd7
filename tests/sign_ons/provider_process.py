"""An independent provider with TLS: `python provider_process.py CERTIFICATE KEY`. It prints its port."""

import sys
import warnings

warnings.simplefilter("ignore")

from authlib.oauth2.rfc7636 import CodeChallenge  # noqa: E402
from oidc_provider_mock import _app, app  # noqa: E402
from werkzeug.serving import make_server  # noqa: E402

# This program does not check PKCE, but its library does.
_challenges: dict[str, tuple[str, str]] = {}


class _Grant(_app.AuthorizationCodeGrant):
    def save_authorization_code(self, code, request):
        super().save_authorization_code(code, request)
        asked = request.payload.data
        _challenges[code] = asked["code_challenge"], asked["code_challenge_method"]


class _Challenge(CodeChallenge):
    def get_authorization_code_challenge(self, authorization_code):
        return _challenges[authorization_code.code][0]

    def get_authorization_code_challenge_method(self, authorization_code):
        return _challenges[authorization_code.code][1]


def main() -> None:
    server_class = _app.flask_oauth2.AuthorizationServer
    register = server_class.register_grant

    def registering(self, grant, extensions=None):
        if grant is _app.AuthorizationCodeGrant:
            grant, extensions = _Grant, [*extensions, _Challenge(required=True)]
        register(self, grant, extensions)

    server_class.register_grant = registering
    server = make_server("127.0.0.1", 0, app(require_nonce=True), threaded=True, ssl_context=tuple(sys.argv[1:3]))
    print(server.server_port, flush=True)  # noqa: T201
    server.serve_forever()


if __name__ == "__main__":
    main()
