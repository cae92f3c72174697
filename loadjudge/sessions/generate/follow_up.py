"""Further wishes after a scenario, as sessions go on: with whatever tools it had."""

from collections.abc import Callable

from loadjudge.sessions.generate.desk import LIST, Desk, python, read, search, sql, write

_ROUNDS = (0, 5)
_WORDS = ("TODO", "limit", "2025", "open", "timeout", "cash", "who", "return", "cork", "paid", "=")


def follow_up(desk: Desk) -> None:
    """None to five more rounds of question, call and answer; most sessions end unanswered."""
    rounds = desk.draw.between(*_ROUNDS)
    if rounds == 0:
        return
    desk.settle()
    usable = [ask for tool, asks in _BY_TOOL.items() if tool in desk.tools for ask in asks]
    for ask in desk.draw.sample(usable, min(rounds, len(usable))):
        ask(desk)
    if desk.draw.chance(70):
        desk.user(
            "Summarise what we did, in three sentences.",
            "thanks. what would you do next?",
            "ok. explain that to someone who doesn't know the system",
            f"anything you are unsure about? be honest, {desk.draw.between(2, 5)} points",
            "write a short mail about this to the team",
        )


def _find_word(desk: Desk) -> None:
    word = desk.draw.pick(_WORDS)
    desk.user(f"does '{word}' come up anywhere?", f"search for {word} in all files please")
    found = desk.call(f"Searching all files for {word!r}.", search(word))[0]
    desk.say(f"{'No' if found.startswith('no line') else 'Yes'}:\n{found}")


def _look_again(desk: Desk) -> None:
    name = desk.draw.pick(desk.files)
    desk.user(f"show me {name} as it is now", f"and what does {name} look like at the moment?")
    text = desk.call(f"Reading {name}.", LIST, read(name))[1]
    desk.say(f"{name} has {len(text.splitlines())} lines; its last one is\n{text.splitlines()[-1]}")


def _count_lines(desk: Desk) -> None:
    desk.user("how long are the files, in lines and characters?", "which file has the most lines?")
    code = (
        f"for name in {desk.files}:\n    text = open(name).read()\n"
        "    print(f'{name:<24}{len(text.splitlines()):>6}{len(text):>8}')"
    )
    desk.say(f"Lines and characters:\n{desk.call('I will count them.', python(code))[0]}")


def _most_common(desk: Desk) -> None:
    name, length = desk.draw.pick(desk.files), desk.draw.between(4, 6)
    desk.user(
        f"what are the most frequent words of at least {length} letters in {name}?",
        f"count words in {name}, {length} letters and up, top five",
    )
    code = (
        f"words = ''.join(c if c.isalpha() else ' ' for c in open('{name}').read()).split()\n"
        f"counts = {{}}\nfor word in words:\n    if len(word) >= {length}:\n"
        "        counts[word] = counts.get(word, 0) + 1\n"
        "for word in sorted(counts, key=lambda w: (-counts[w], w))[:5]:\n"
        "    print(counts[word], word)"
    )
    desk.say(f"In {name}:\n{desk.call('A short count.', python(code))[0]}")


def _keep_note(desk: Desk) -> None:
    name = f"{desk.draw.pick(('progress', 'handover', 'today', 'status'))}.md"
    desk.user(f"leave a note for the next shift in {name}", f"write where we are to {name}")
    note = f"# {name[:-3]}\n\nLooked at: {', '.join(desk.files)}.\nOpen: nothing so far.\n"
    desk.call(f"I'll write {name} and check it.", write(name, note), read(name))
    desk.say(f"{name} is written.")


def _ask_database(query: str, *wordings: str) -> Callable[[Desk], None]:
    def ask(desk: Desk) -> None:
        number = str(desk.draw.between(2, 9))
        desk.user(*(wording.replace("#", number) for wording in wordings))
        rows = desk.call("One query.", sql(query.replace("#", number)))[0]
        desk.say(f"The result:\n{rows}")

    return ask


_BY_TOOL: dict[str, tuple[Callable[[Desk], None], ...]] = {
    "search": (_find_word,),
    "read_file": (_look_again,),
    "run_python": (_count_lines, _most_common),
    "write_file": (_keep_note,),
    "sql": (
        _ask_database(
            "SELECT name, cents FROM products ORDER BY cents, name LIMIT #",
            "what are our # cheapest products?",
        ),
        _ask_database(
            "SELECT id, day, quantity FROM orders WHERE quantity >= # ORDER BY quantity DESC, id "
            "LIMIT 8",
            "orders of # pieces or more?",
            "show me the big orders, # and up",
        ),
        _ask_database(
            "SELECT SUBSTR(day, 1, 7) AS month, COUNT(*) AS orders FROM orders GROUP BY month "
            "ORDER BY month",
            "how many orders per month?",
        ),
        _ask_database(
            "SELECT c.city, COUNT(DISTINCT c.id) AS customers, COUNT(o.id) AS orders FROM "
            "customers c LEFT JOIN orders o ON o.customer = c.id GROUP BY c.city ORDER BY c.city",
            "customers and orders per city please",
        ),
        _ask_database(
            "SELECT c.name, c.city FROM customers c WHERE (SELECT COUNT(*) FROM orders o WHERE "
            "o.customer = c.id) < # ORDER BY c.name",
            "who has ordered less than # times?",
        ),
    ),
}
