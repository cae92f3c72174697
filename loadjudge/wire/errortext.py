"""The sentence in an error that a server reports, in whichever of the usual ways it is wrapped."""

import orjson

_MOST = 500  # characters


def error_sentence(body: bytes) -> str:
    """Looks for ``error``, ``message`` and ``detail`` (OpenAI, vLLM, FastAPI); else all of it."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return body[:_MOST].decode("utf-8", "replace").strip() or "(empty)"
    for key in ("error", "message", "detail"):
        if isinstance(value, dict) and value.get(key):
            value = value[key]
    return value if isinstance(value, str) else orjson.dumps(value).decode()[:_MOST]
