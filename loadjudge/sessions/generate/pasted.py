"""Long texts that users paste: logs, tables, minutes, invoices, tickets, code."""

from collections.abc import Callable

from loadjudge.sessions.generate.draw import Draw

_NAMES = (
    "Ada", "Bea", "Cem", "Dora", "Eli", "Finn", "Gwen", "Hal", "Iris", "Juno", "Kai", "Lars",
    "Mina", "Noor", "Olga", "Piet", "Rafa", "Siri", "Tom", "Una", "Vito", "Wanda", "Yara", "Zeno",
)  # fmt: skip
_CITIES = ("Porto", "Ghent", "Graz", "Cork", "Turin", "Bergen", "Lyon", "Leeds", "Gdynia", "Bari")
_ITEMS = (
    "oak shelf", "desk lamp", "cable drum", "ceramic bowl", "door hinge", "wool blanket",
    "bike bell", "paint roller", "glass jar", "steel hook", "garden hose", "tea towel",
    "paper filter", "work glove", "wall clock", "plant pot", "chalk set", "tape measure",
)  # fmt: skip
_COMPONENTS = ("api", "auth", "billing", "search", "mailer", "cache", "worker", "gateway", "stock")


def log(draw: Draw, date: str | None = None) -> str:
    """A service log of one day, 18 to 46 lines, in which one component begins to fail."""
    components = draw.sample(_COMPONENTS, 4)
    failing = components[0]
    lines_total = draw.between(18, 46)
    breaks_at = draw.between(lines_total // 3, 2 * lines_total // 3)
    peer = f"10.{draw.below(250)}.{draw.below(250)}.{draw.between(2, 250)}"
    symptom = draw.pick(
        (
            f"connection to {peer}:5432 refused",
            f"timeout after {draw.between(2, 30) * 1000} ms waiting for a connection",
            f"disk quota exceeded on /var/spool/{failing}",
            f"certificate of {peer} expired",
            f"queue depth {draw.between(900, 9000)} above limit",
        )
    )
    date = date or f"20{draw.between(23, 26)}-{draw.between(1, 12):02}-{draw.between(1, 28):02}"
    clock_ms = draw.between(0, 80_000_000)
    lines = []
    for number in range(lines_total):
        clock_ms += draw.between(40, 9_000)
        seconds = clock_ms // 1000
        stamp = (
            f"{date}T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
            f".{clock_ms % 1000:03}Z"
        )
        component = draw.pick(components)
        request = f"req={draw.below(1 << 24):06x}"
        if component == failing and number >= breaks_at:
            level, text = "ERROR", symptom
        elif draw.chance(12):
            level, text = "WARN", f"slow response, {draw.between(800, 4000)} ms"
        else:
            route = draw.pick(("/items", "/orders", "/login", "/search", "/health", "/cart"))
            verb = draw.pick(("GET", "GET", "GET", "POST"))
            level, text = "INFO", f"{verb} {route} 200 {draw.between(3, 190)} ms"
        lines.append(f"{stamp} {level:<5} {component:<8} {request} {text}")
    return "\n".join(lines)


def csv(draw: Draw) -> str:
    """Orders as CSV, 12 to 30 rows, one or two with a missing or odd value."""
    rows = draw.between(12, 30)
    first = draw.between(1000, 90_000)
    month = draw.between(1, 12)
    odd = set(draw.sample(range(rows), 2))
    lines = ["order,date,customer,city,item,quantity,amount,status"]
    for number in range(rows):
        amount = f"{draw.between(450, 48_900) / 100:.2f}"
        if number in odd:
            amount = draw.pick(("", f"-{amount}", amount.replace(".", ",")))
        lines.append(
            f"{first + number * 3},2025-{month:02}-{draw.between(1, 28):02},{draw.pick(_NAMES)},"
            f"{draw.pick(_CITIES)},{draw.pick(_ITEMS)},{draw.between(1, 14)},{amount},"
            f"{draw.pick(('paid', 'paid', 'open', 'refunded', 'failed'))}"
        )
    return "\n".join(lines)


def minutes(draw: Draw) -> str:
    """Rough notes of a meeting, with decisions, objections, dates and money."""
    people = draw.sample(_NAMES, 5)
    project = draw.pick(
        ("summer fair", "new website", "roof repair", "tool library", "open day", "van purchase")
    )
    day, month = draw.between(1, 28), draw.between(1, 12)
    points = [
        f"{people[1]} reports on the {project}: {draw.between(2, 9)} offers, cheapest "
        f"{draw.between(400, 9_000)}, dearest {draw.between(9_001, 19_000)}.",
        f"{people[2]} is against it before the money is there, wants to wait until "
        f"{draw.between(1, 28)}.{draw.between(1, 12)}.",
        f"vote on the {project}: {draw.between(4, 14)} for, {draw.between(1, 4)} against, "
        f"{draw.below(3)} abstain",
        f"{people[3]} takes over the keys from {people[1]}, by {draw.between(1, 28)}.{month}.",
        f"budget: {draw.between(1_000, 20_000)} in the account, of which "
        f"{draw.between(100, 900)} reserved for {draw.pick(_ITEMS)}s",
        f"{people[4]} asks who ordered {draw.between(20, 300)} {draw.pick(_ITEMS)}s. nobody knows",
        f"insurance: {people[0]} calls them next week. the old one ends {draw.between(1, 28)}."
        f"{draw.between(1, 12)}.",
        f"the room in {draw.pick(_CITIES)} costs {draw.between(40, 400)} a day, {people[2]} says "
        f"it was {draw.between(40, 400)} last year",
        f"{people[3]} late, train. {people[4]} brought cake",
        f"newsletter: {people[1]} writes, {people[0]} proofreads, out by {draw.between(1, 28)}."
        f"{draw.between(1, 12)}.",
        f"{people[4]} wants the meeting on another day, no decision",
    ]
    kept = draw.subset(points, draw.between(7, len(points)))
    head = f"meeting {day}.{month}., {draw.between(17, 20)}:{draw.pick(('00', '15', '30'))}, "
    return (
        head
        + f"present: {', '.join(people)}\n"
        + "\n".join(f"- {point}" for point in kept)
        + f"\nnext meeting {draw.between(1, 28)}.{month % 12 + 1}."
    )


def invoice(draw: Draw) -> str:
    """An invoice as plain text, 3 to 8 lines; now and then the total is wrong."""
    lines, total = [], 0
    for item in draw.sample(_ITEMS, draw.between(3, 8)):
        count, price = draw.between(1, 24), draw.between(180, 8_900)
        total += count * price
        lines.append(f"{count:>3} x {item:<14} {price / 100:>8.2f} {count * price / 100:>10.2f}")
    rate = draw.pick((7, 19, 20, 21, 23))
    tax = (total * rate + 50) // 100
    shown = total + tax + (draw.between(1, 9) * 100 if draw.chance(25) else 0)
    date = f"{draw.between(1, 28)}.{draw.between(1, 12)}.2025"
    return "\n".join(
        (
            f"{draw.pick(_NAMES)} {draw.pick(_NAMES)} Trading, {draw.pick(_CITIES)}",
            f"Invoice no. {draw.between(2000, 99_999)}   {date}   payable in "
            f"{draw.pick((7, 14, 30))} days",
            *lines,
            f"net {total / 100:.2f}   VAT {rate}% {tax / 100:.2f}   total {shown / 100:.2f}",
        )
    )


def tickets(draw: Draw) -> str:
    """Six to eleven support tickets, some about the same thing."""
    first = draw.between(100, 90_000)
    subjects = [
        f"I was charged {draw.between(9, 90)}.{draw.between(10, 99)} twice on the "
        f"{draw.between(1, 28)}th. Please refund one of them.",
        "cant log in since the update, it says session expired over and over",
        f"The {draw.pick(_ITEMS)} arrived broken. Photos attached. Order "
        f"{draw.between(1000, 99_999)}.",
        f"How do I change my address to {draw.pick(_CITIES)}? I moved.",
        "THIRD MAIL. Nobody answers. I want my money back NOW",
        f"Could I get an invoice for order {draw.between(1000, 99_999)}? My accountant asks.",
        f"App crashes when I open the basket with more than {draw.between(5, 40)} items",
        f"Where is my parcel? It has been in {draw.pick(_CITIES)} for {draw.between(3, 12)} days",
        "please delete my account and all data",
        f"Do you ship the {draw.pick(_ITEMS)} to {draw.pick(_CITIES)}? And how much is it?",
        f"voucher SPRING{draw.between(10, 99)} doesn't work, says already used. it isn't",
        "Just wanted to say that the lady on the phone was very kind.",
    ]
    chosen = draw.sample(subjects, draw.between(6, 11))
    return "\n".join(
        f"#{first + number * 7} {draw.pick(_NAMES)}: {text}" for number, text in enumerate(chosen)
    )


def code(draw: Draw) -> str:
    """A Python module of three to five functions around one kind of record."""
    entity = draw.pick(("parcel", "booking", "reading", "member", "invoice", "shift", "track"))
    amount = draw.pick(("weight", "total", "value", "fee", "length", "hours"))
    group = draw.pick(("city", "owner", "month", "status", "team"))
    limit, share = draw.between(3, 400), draw.between(2, 30)
    functions = [
        f"def load_{entity}s(path):\n    rows = []\n    for line in open(path):\n"
        f'        parts = line.strip().split(",")\n        if len(parts) < {draw.between(3, 5)}:\n'
        f"            continue\n        rows.append({{'id': parts[0], '{group}': parts[1], "
        f"'{amount}': float(parts[2])}})\n    return rows",
        f"def {amount}_by_{group}({entity}s):\n    totals = {{}}\n    for row in {entity}s:\n"
        f"        key = row['{group}']\n        totals[key] = totals.get(key, 0) + row['{amount}']"
        "\n    return totals",
        f"def large_{entity}s({entity}s, limit={limit}):\n    found = []\n"
        f"    for i in range(len({entity}s)):\n        if {entity}s[i]['{amount}'] > limit:\n"
        f"            found.append({entity}s[i])\n    found.sort(key=lambda r: r['{amount}'])\n"
        "    return found[::-1]",
        f"def report({entity}s):\n    total = sum(r['{amount}'] for r in {entity}s)\n"
        f"    text = ''\n    for {group}, value in {amount}_by_{group}({entity}s).items():\n"
        f"        text += {group} + ': ' + str(round(value / total * 100)) + '%\\n'\n"
        "    return text",
        f"def discount(row, cache={{}}):\n    if row['id'] in cache:\n"
        f"        return cache[row['id']]\n    result = row['{amount}'] * (1 - {share} / 100)\n"
        "    cache[row['id']] = result\n    return result",
    ]
    kept = draw.subset(functions, draw.between(3, len(functions)))
    return "\n\n\n".join(kept)


PASTED: dict[str, Callable[[Draw], str]] = {
    "log": log,
    "csv": csv,
    "minutes": minutes,
    "invoice": invoice,
    "tickets": tickets,
    "code": code,
}
