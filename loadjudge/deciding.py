"""What follows the planned passes: the target scores the timed replies, and, under the rule
``decide``, the judge looks at its gates and plays on while one is undecided."""

from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic

from loadjudge.evaluate import evaluate
from loadjudge.gates.scorers.endpoint import endpoint_scorer
from loadjudge.gates.scorers.scorer import Unavailable
from loadjudge.gates.scorers.timed import learn_end_ids, sampling_of
from loadjudge.gates.scoring import Append, first_prompts, score_greedy, score_run
from loadjudge.gates.sequential import Decision, Spent, look_note, look_of, next_step
from loadjudge.load.arm import Arm
from loadjudge.load.budget import Budget
from loadjudge.record.run import read_run


async def score(directory: Path, stock: Arm, seed: int, append: Append) -> str:
    """Has the stock engine score replies of both arms, outside timed windows; what was done.

    Each look asks for as many tokens again. Where replies can't be scored the log says why, and
    the gates that need it are n/a with that reason.
    """
    run = read_run(directory)
    tokens = run.header["task"]["scoring"]["tokens"] * ((look_of(run) or 0) + 1)
    try:
        if not tokens:
            raise Unavailable("the task asks for no scoring")
        sampling = sampling_of(run.header)
        abilities = stock.abilities
        scorer = await endpoint_scorer(
            stock.http, abilities.model, abilities.max_model_len, learn_end_ids(run.passes)
        )
        done = await score_run(
            run.passes,
            scorer,
            append,
            sampling=sampling,
            tokens=tokens,
            seed=seed,
            scored=run.scored,
        )
        if done.unavailable is None and not run.scored:
            await score_greedy(run.greedy, first_prompts(run.passes), scorer, append)
    except Unavailable as error:
        append({"event": "unavailable", "what": "likelihood", "why": error.sentence})
        return f"replies were not scored: {error.sentence}"
    return done.describe()


@dataclass(slots=True)
class Extension:
    """Passes beyond the planned ones: what they have taken, and what they may."""

    budget: Budget
    seconds: float = 0.0
    tokens: int = 0
    began: float | None = None

    def begin(self) -> None:
        self.began = monotonic()

    def add(self, tokens: int) -> None:
        if self.began is not None:
            self.tokens += tokens

    def look(self, directory: Path, append: Append) -> Decision:
        """Looks at the gates once more, at the level that this look may spend, and says whether
        to play on."""
        number = (look_of(read_run(directory)) or 0) + 1
        append({"event": "note", "text": look_note(number, f"{self.tokens:,} tokens beyond plan")})
        # Its passes are all there: what is missing for completeness is this decision.
        evaluation = evaluate(replace(read_run(directory), complete=True))
        if self.began is not None:
            self.seconds = monotonic() - self.began
        return next_step(
            evaluation,
            Spent(look=number, seconds=self.seconds, tokens=self.tokens),
            self.budget,
        )
