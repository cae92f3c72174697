"""A small model, built once."""

import pytest

from loadjudge.reference.corpus import Corpus, corpus_of
from loadjudge.reference.model import Model
from loadjudge.reference.store import model_of

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"{verb} a parcel.",
            "parameters": {"type": "object", "properties": {"parcel": {"type": "string"}}},
        },
    }
    for name, verb in (("find_parcel", "Finds"), ("send_parcel", "Sends"))
]


def _chat(n: int) -> dict[str, object]:
    day = ("Monday", "Tuesday", "Friday")[n % 3]
    return {
        "messages": [
            {"role": "system", "content": "You help at the harbour office. Short answers."},
            {"role": "user", "content": f"When does boat {n} leave on {day}, and from where?"},
            {
                "role": "assistant",
                "content": f"Boat {n} leaves on {day} at {n % 12}. It leaves from the old pier.\n"
                "Tickets are sold at the office. Please be there early.",
            },
            {"role": "user", "content": f"And the way back from the island? It's the {n}th."},
            {"role": "assistant", "content": f"The last boat back leaves at {n % 9 + 12}."},
        ]
    }


def _agent(n: int) -> dict[str, object]:
    name = TOOLS[n % 2]["function"]["name"]  # type: ignore[index]
    call = {"function": {"name": name, "arguments": f'{{"parcel": "P-{n}"}}'}}
    return {
        "tools": TOOLS,
        "messages": [
            {"role": "user", "content": f"Where is parcel P-{n}?"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": f"P-{n}: at the old pier"},
            {"role": "assistant", "content": f"Parcel P-{n} is at the old pier."},
        ],
    }


@pytest.fixture(scope="session")
def corpus() -> Corpus:
    """Sixty short documents."""
    return corpus_of([_chat(n) for n in range(40)] + [_agent(n) for n in range(20)])


@pytest.fixture(scope="session")
def model(corpus: Corpus) -> Model:
    """The target model of the corpus."""
    return model_of(corpus)
