# uv does not read pip's settings: hands over the index and the certificates, if somebody set any. Sourced, at the project's root.
setting() { .venv/bin/python -m pip config get "global.$1" 2>/dev/null || true; }
export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-${PIP_INDEX_URL:-$(setting index-url)}}"
export UV_INDEX="${UV_INDEX:-${PIP_EXTRA_INDEX_URL:-$(setting extra-index-url)}}"
export SSL_CERT_FILE="${SSL_CERT_FILE:-${PIP_CERT:-$(setting cert)}}"
[ -n "$UV_DEFAULT_INDEX" ] || unset UV_DEFAULT_INDEX
[ -n "$UV_INDEX" ] || unset UV_INDEX
[ -n "$SSL_CERT_FILE" ] || unset SSL_CERT_FILE
