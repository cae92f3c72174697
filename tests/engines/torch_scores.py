"""The torch scorer, in an engine's environment: requests on standard input, terms on output.

``python torch_scores.py ROOT SITE MODEL DTYPE``: ROOT holds loadjudge, SITE the packages that it
needs and the environment lacks.
"""

import asyncio
import json
import sys

root, site, model, dtype = sys.argv[1:]
sys.path.insert(0, root)
sys.path.append(site)

from loadjudge.gates.scorers.torch_ import TorchScorer  # noqa: E402
from loadjudge.wire.request import Sampling  # noqa: E402


async def main() -> None:
    scorer = TorchScorer(model, dtype=dtype)
    for asked in json.load(sys.stdin):
        sampling = Sampling(**asked["sampling"])
        terms, exact = await scorer.score(asked["prompt"], asked["reply"], sampling)
        print(
            json.dumps(
                {
                    "exact": exact,
                    "end_ids": scorer.end_ids,
                    "logp": terms.logp.tolist(),
                    "expected": terms.expected.tolist(),
                    "q": terms.q.tolist(),
                }
            ),
            flush=True,
        )


asyncio.run(main())
