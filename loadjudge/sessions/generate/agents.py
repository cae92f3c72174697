"""Agent scenarios over files and data: logs, a table, settings, notes, a shop's database."""

from collections.abc import Callable

from loadjudge.sessions.generate import pasted
from loadjudge.sessions.generate.bug_hunt import hunt_bug
from loadjudge.sessions.generate.chat import words
from loadjudge.sessions.generate.desk import LIST, Desk, edit, python, read, search, sql, write

_SYSTEM = (
    "You are an assistant with tools on a small workspace. Look before you conclude, and name "
    "the file or the query that a figure comes from.",
    "You work in a workspace through tools. Take small steps. Say in a sentence what you are "
    "about to do, then do it.",
    "You are an operations assistant. Use the tools; never guess a value that you can look up.",
)


def read_logs(desk: Desk) -> None:
    """Which component failed, since when, how often."""
    draw = desk.draw
    hosts = draw.sample(("web-1", "web-2", "db-1", "mail-1", "edge-3", "batch-7"), 3)
    day = f"2025-{draw.between(1, 12):02}-{draw.between(1, 28):02}"
    files = {f"logs/{host}.log": pasted.log(draw, day) + "\n" for host in hosts}
    tools = ["list_files", "read_file", "search", "run_python", "write_file"]
    desk.begin(draw.pick(_SYSTEM), tools, files)
    desk.user(
        "Something failed on one of our machines last night. Which one was worst, and why?",
        f"customers complain again. can you look through logs/ and say what broke on {hosts[0]}?",
        f"Are the errors on {hosts[0]} and {hosts[1]} the same problem?",
    )
    desk.call("I'll see which logs there are.", LIST)
    found = desk.call("Now the errors, in all of them.", search("ERROR"))[0]
    desk.call(
        "The lines around the first failure, on two machines.",
        *(read(f"logs/{host}.log") for host in hosts[: draw.between(1, 2)]),
    )
    counts = desk.call(
        "I'll count errors per machine and component.",
        python(
            f"for name in {sorted(hosts)}:\n"
            "    rows = [line.split() for line in open(f'logs/{name}.log')]\n"
            "    bad = [row[2] for row in rows if row[1] == 'ERROR']\n"
            "    counts = {part: bad.count(part) for part in sorted(set(bad))}\n"
            "    print(name, len(rows), 'lines', counts)"
        ),
    )[0]
    desk.say(f"Errors per machine:\n\n{counts}\n\nThe first one found is\n{found.splitlines()[0]}")
    level = draw.pick(("WARN", "slow response", "POST /orders", "GET /login"))
    desk.user(
        f"And the lines with {level}? Are there any before the first error?",
        f"list everything with '{level}' on {hosts[2]} as well",
    )
    desk.call(f"Searching for {level}.", search(level, f"logs/{hosts[2]}.log"), search(level))
    if draw.chance(60):
        desk.user("Put the summary into report.md please, five lines at most", "write that down")
        desk.call("Writing the report.", write("report.md", f"# Errors\n\n{counts}\n"))


def clean_table(desk: Desk) -> None:
    """Totals of a table with odd values, and a cleaned copy."""
    draw = desk.draw
    name = draw.pick(("orders", "export", "sales", "week", "returns")) + str(draw.between(1, 52))
    files = {f"{name}.csv": pasted.csv(draw) + "\n"}
    desk.begin(draw.pick(_SYSTEM), ["list_files", "read_file", "run_python", "write_file"], files)
    column, label = draw.pick(((3, "city"), (7, "status"), (4, "item")))
    desk.user(
        f"What's the total by {label} in {name}.csv? I don't trust the file.",
        f"Sum the amounts in {name}.csv per {label}, please. Some rows look broken.",
    )
    desk.call("I'll look at the file first.", LIST, read(f"{name}.csv"))
    load = f"rows = [line.strip().split(',') for line in open('{name}.csv')][1:]\n"
    odd = desk.call(
        "Which rows are not what the header says?",
        python(
            load + "for row in rows:\n    if len(row) != 8 or not row[6] or row[6][0] == '-':\n"
            "        print(row)"
        ),
    )[0]
    totals = desk.call(
        f"Leaving those out, the totals by {label}, in cents so that nothing is rounded.",
        python(
            load + "totals = {}\nfor row in rows:\n"
            "    if len(row) == 8 and row[6] and row[6][0] != '-':\n"
            f"        key = row[{column}]\n"
            "        totals[key] = totals.get(key, 0) + round(float(row[6]) * 100)\n"
            "for key in sorted(totals):\n    print(f'{key:<16}{totals[key] / 100:>10.2f}')\n"
            "print(f'{\"all\":<16}{sum(totals.values()) / 100:>10.2f}')"
        ),
    )[0]
    desk.say(f"Rows left out:\n{odd}\n\nTotals by {label}:\n{totals}")
    if draw.chance(70):
        desk.user(
            f"Good. Write a clean copy as {name}_clean.csv without the odd rows",
            "save the good rows to a new file and tell me how many there are",
        )
        copy = (
            load + "good = [r for r in rows if len(r) == 8 and r[6] and r[6][0] != '-']\n"
            f"with open('{name}_clean.csv', 'w') as out:\n"
            "    for row in good:\n        out.write(','.join(row) + '\\n')\n"
            "print(len(rows), 'rows,', len(good), 'kept')"
        )
        kept = desk.call("Writing the rows that are well-formed.", python(copy))[0]
        desk.call("I'll check what was written.", read(f"{name}_clean.csv"), LIST)
        desk.say(f"Done: {kept}.")
    desk.user(
        f"Which {draw.pick(('customer', 'item', 'city'))} has the largest single amount?",
        "and the median?",
        f"how many orders are above {draw.between(50, 400)}?",
    )


def compare_settings(desk: Desk) -> None:
    """Settings that differ between environments, and one that is put right."""
    draw = desk.draw
    service = draw.pick(("billing", "search", "mailer", "upload", "booking", "thumbs"))
    keys = draw.sample(
        ("pool_size", "timeout_ms", "retries", "cache_mb", "batch", "log_days", "port", "workers"),
        6,
    )
    stages = ("dev", "staging", "prod")
    base = {key: draw.between(2, 9_000) for key in keys}
    values = {stage: dict(base) for stage in stages}
    values["dev"][keys[1]] = draw.between(2, 9_000)
    wrong, right = draw.between(10_000, 90_000), base[keys[0]]
    values["prod"][keys[0]] = wrong
    files = {
        f"conf/{stage}.ini": f"[{service}]\n"
        + "".join(f"{key} = {value}\n" for key, value in values[stage].items())
        for stage in stages
    }
    files["README.md"] = f"{service}: one file a stage in conf/. prod follows staging, always.\n"
    tools = ["list_files", "read_file", "search", "edit_file", "run_python"]
    desk.begin(draw.pick(_SYSTEM), tools, files)
    desk.user(
        f"{service} behaves differently in prod. Is a setting different from staging?",
        f"Why would {keys[0]} be {wrong} in prod? compare the files in conf/ please",
    )
    desk.call("I'll look at what is there.", LIST, read("README.md"))
    desk.call("Both files side by side.", read("conf/staging.ini"), read("conf/prod.ini"))
    diff = desk.call(
        "And all three compared, key by key.",
        python(
            "stages = ['dev', 'staging', 'prod']\nread = {}\n"
            "for stage in stages:\n    lines = open(f'conf/{stage}.ini').read().splitlines()\n"
            "    read[stage] = dict(line.split(' = ') for line in lines[1:])\n"
            "for key in read['dev']:\n    row = [read[stage][key] for stage in stages]\n"
            "    if len(set(row)) > 1:\n        print(key, *row)"
        ),
    )[0]
    desk.say(f"Different between dev, staging and prod:\n{diff}")
    desk.user("Set prod to what staging has, please.", f"fix {keys[0]} in prod, leave dev alone")
    desk.call(
        f"{keys[0]} goes from {wrong} to {right} in prod.",
        edit("conf/prod.ini", f"{keys[0]} = {wrong}", f"{keys[0]} = {right}"),
    )
    desk.call("To be sure, the key in all files.", search(keys[0]))
    if draw.chance(60):
        desk.user(f"who uses {keys[2]}?", f"and raise {keys[2]} by {draw.between(5, 50)}% in dev")


def search_notes(desk: Desk) -> None:
    """Who promised what, over the notes of several meetings."""
    draw = desk.draw
    first = draw.between(2, 80)
    files = {f"notes/meeting-{first + n}.md": pasted.minutes(draw) for n in range(4)}
    person = draw.pick(next(iter(files.values())).split("present: ")[1].split("\n")[0].split(", "))
    tools = ["list_files", "read_file", "search", "write_file"]
    desk.begin(draw.pick(_SYSTEM), tools, files)
    desk.user(
        f"What did {person} promise in our meetings? All notes are in notes/.",
        f"I'm {person}. what do I still have to do according to the notes?",
    )
    desk.call("First the list of notes.", LIST)
    hits = desk.call(f"Every line with {person}.", search(person))[0]
    names = sorted({line.split(":")[0] for line in hits.splitlines()})
    desk.call("The whole notes where the name comes up.", *(read(name) for name in names[:3]))
    desk.say(f"These are the lines about {person}:\n{hits}")
    topic = draw.pick(("insurance", "budget", "newsletter", "vote", "keys", "room"))
    desk.user(f"And what was said about the {topic}?", f"when did we last talk about the {topic}?")
    lines = desk.call(f"Searching for {topic}.", search(topic))[0]
    if draw.chance(60):
        desk.say(f"Found:\n{lines}")
        desk.user(f"make a file {topic}.md with just that", "save it as todo.md")
        desk.call("Saving it.", write(f"{topic}.md", lines + "\n"))


def query_shop(desk: Desk) -> None:
    """Questions to a shop's database."""
    draw = desk.draw
    people, cities = draw.sample(words()["name"], 9), draw.sample(words()["city"], 4)
    items = draw.sample(words()["product"], 6)
    rows = [
        "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, city TEXT);",
        "CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT, cents INTEGER);",
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, product INTEGER, "
        "quantity INTEGER, day TEXT, status TEXT);",
    ]
    for id, name in enumerate(people, 1):
        rows.append(f"INSERT INTO customers VALUES ({id}, '{name}', '{draw.pick(cities)}');")
    for id, name in enumerate(items, 1):
        quoted = name.replace("'", "''")
        rows.append(f"INSERT INTO products VALUES ({id}, '{quoted}', {draw.between(390, 48_900)});")
    for id in range(1, draw.between(40, 90)):
        day = f"2025-{draw.between(1, 12):02}-{draw.between(1, 28):02}"
        status = draw.pick(("paid", "paid", "paid", "open", "refunded"))
        rows.append(
            f"INSERT INTO orders VALUES ({id}, {draw.between(1, 9)}, {draw.between(1, 6)}, "
            f"{draw.between(1, 9)}, '{day}', '{status}');"
        )
    desk.begin(draw.pick(_SYSTEM), ["sql"], {}, "\n".join(rows))
    month, city = draw.between(1, 12), cities[0]
    desk.user(
        f"How much did customers in {city} spend, and on what? Refunds don't count.",
        f"revenue by city please, and the top three products in {city}",
    )
    desk.call(
        "I'll look at the tables.",
        sql("SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY name"),
        sql("SELECT status, COUNT(*) AS orders FROM orders GROUP BY status ORDER BY status"),
    )
    joined = (
        "FROM orders o JOIN customers c ON c.id = o.customer JOIN products p ON p.id = o.product "
    )
    total = "SUM(o.quantity * p.cents)"
    by_city = desk.call(
        "Revenue by city, without refunds.",
        sql(
            f"SELECT c.city, {total} AS cents {joined}WHERE o.status <> 'refunded' "
            "GROUP BY c.city ORDER BY cents DESC, c.city"
        ),
    )[0]
    by_product = desk.call(
        f"And the products in {city}.",
        sql(
            f"SELECT p.name, {total} AS cents {joined}WHERE c.city = '{city}' AND "
            f"o.status <> 'refunded' GROUP BY p.name ORDER BY cents DESC, p.name "
            f"LIMIT {draw.between(3, 5)}"
        ),
    )[0]
    desk.say(f"By city, in cents:\n{by_city}\n\nIn {city}:\n{by_product}")
    desk.user(
        f"who ordered the most in month {month}?",
        f"Which customers have open orders older than 2025-{month:02}-15?",
    )
    desk.call(
        "One query for that.",
        sql(
            f"SELECT c.name, COUNT(*) AS orders, {total} AS cents {joined}WHERE o.day LIKE "
            f"'2025-{month:02}-%' GROUP BY c.name ORDER BY cents DESC, c.name"
        ),
        sql(
            f"SELECT c.name, o.id, o.day {joined}WHERE o.status = 'open' AND "
            f"o.day < '2025-{month:02}-15' ORDER BY o.day, o.id"
        ),
    )
    if draw.chance(50):
        desk.user(f"mark order {draw.between(1, 39)} as paid", f"is {people[0]} in {city}?")


SCENARIOS: tuple[Callable[[Desk], None], ...] = (
    read_logs,
    query_shop,
    hunt_bug,
    clean_table,
    compare_settings,
    search_notes,
)
