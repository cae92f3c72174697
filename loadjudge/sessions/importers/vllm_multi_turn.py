"""vLLM's ``benchmark_serving_multi_turn``: a JSON array of ``id`` and ``messages``."""

from loadjudge.errors import JudgeError
from loadjudge.sessions.document import Document
from loadjudge.sessions.importers.imported import Imported
from loadjudge.sessions.importers.openai_messages import import_openai


def import_vllm_multi_turn(document: Document) -> Imported:
    """Its records are native ones in an array; the generator's configuration is refused."""
    first = document.rows[0].value
    if isinstance(first, dict) and first.get("filetype") == "generate_conversations":
        raise JudgeError(
            f"{document.name} configures vLLM's generator of synthetic conversations, which have "
            "lengths but no natural text, so acceptance and losslessness cannot be measured on "
            "them; use real conversations, or loadjudge sessions generate."
        )
    return import_openai(document)
