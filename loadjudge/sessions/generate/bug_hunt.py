"""The agent scenario of a small module with a bug that its tests show."""

from dataclasses import dataclass

from loadjudge.sessions.generate.desk import LIST, Desk, edit, python, read
from loadjudge.sessions.generate.draw import Draw

_SYSTEM = (
    "You are a careful programming assistant in a small Python repository. Read the code before "
    "you change it, keep changes minimal, and run the tests after every edit.",
    "You fix bugs in a workspace through tools. Find the cause first, then make the smallest "
    "change that removes it.",
)
_RUN = "exec(open('checks.py').read())"


@dataclass(frozen=True, slots=True)
class Function:
    """A function as it should be, and the line in it that a bug replaces."""

    name: str
    source: str
    right: str
    wrong: str
    inputs: str  # numbers, numbers and a size, cents, or a duration
    cause: str


_FUNCTIONS = (
    Function(
        "moving_average",
        "def moving_average(values, size):\n    means = []\n"
        "    for start in range(len(values) - size + 1):\n"
        "        means.append(sum(values[start:start + size]) // size)\n    return means\n",
        "range(len(values) - size + 1)",
        "range(len(values) - size)",
        "sized",
        "the last window is never reached",
    ),
    Function(
        "chunks",
        "def chunks(values, size):\n"
        "    return [values[i:i + size] for i in range(0, len(values), size)]\n",
        "range(0, len(values), size)",
        "range(0, len(values) - size, size)",
        "sized",
        "the last chunk is dropped",
    ),
    Function(
        "median",
        "def median(values):\n    ordered = sorted(values)\n    middle = len(ordered) // 2\n"
        "    if len(ordered) % 2:\n        return ordered[middle]\n"
        "    return (ordered[middle - 1] + ordered[middle]) / 2\n",
        "ordered[middle - 1] + ordered[middle]",
        "ordered[middle] + ordered[middle + 1]",
        "even",
        "for an even count it takes the two values after the middle",
    ),
    Function(
        "running_max",
        "def running_max(values):\n    best, found = values[0], []\n    for value in values:\n"
        "        best = max(best, value)\n        found.append(best)\n    return found\n",
        "best, found = values[0], []",
        "best, found = 0, []",
        "negative",
        "it starts from 0, so negative values are hidden",
    ),
    Function(
        "unique",
        "def unique(values):\n    found = []\n    for value in values:\n"
        "        if value not in found:\n            found.append(value)\n    return found\n",
        "if value not in found:",
        "if not found or value != found[-1]:",
        "numbers",
        "it compares with the last value only",
    ),
    Function(
        "price",
        "def price(cents):\n    return f'{cents // 100}.{cents % 100:02}'\n",
        "{cents % 100:02}",
        "{cents % 100}",
        "cents",
        "cents below ten lose their zero",
    ),
    Function(
        "seconds",
        "def seconds(text):\n    hours, minutes = text.split('h')\n"
        "    return int(hours) * 3600 + int(minutes.rstrip('m')) * 60\n",
        "int(minutes.rstrip('m')) * 60",
        "int(minutes.rstrip('m'))",
        "duration",
        "minutes are added as seconds",
    ),
)


def hunt_bug(desk: Desk) -> None:
    """Run the tests, read, mend, run them again; then a second wish."""
    draw = desk.draw
    functions = draw.sample(_FUNCTIONS, 3)
    broken = functions[0]
    module = draw.pick(("figures", "readings", "tools", "series", "shelf", "meter"))
    order = sorted(functions, key=lambda function: function.name)
    right = "\n\n".join(function.source for function in order)
    cases = [
        f"{function.name}({arguments})"
        for function in order
        for arguments in (_arguments(draw, function.inputs) for _ in range(draw.between(2, 3)))
    ]
    expected = desk.probe(right + "\n" + "\n".join(f"print(repr({case}))" for case in cases))
    checks = _checks(module, list(zip(cases, expected.splitlines(), strict=True)))
    files = {
        f"{module}.py": right.replace(broken.right, broken.wrong),
        "checks.py": checks,
        "README.md": f"{module}.py: small functions on lists. Run checks.py before every commit.\n",
    }
    tools = ["list_files", "read_file", "edit_file", "run_python"]
    desk.begin(draw.pick(_SYSTEM), tools, files)
    desk.user(
        "checks.py fails since yesterday. Can you find out why and fix it?",
        f"There's a bug somewhere in {module}.py, the checks are red. Please mend it.",
        f"{broken.name} gives wrong results I think. have a look?",
    )
    desk.call("I'll see what is there and run the checks.", LIST, python(_RUN))
    desk.call("Now the code and the checks.", read(f"{module}.py"), read("checks.py"))
    desk.call(
        f"In {broken.name}, {broken.cause}. I'll change that one place.",
        edit(f"{module}.py", broken.wrong, broken.right),
    )
    outcome = desk.call("The checks again.", python(_RUN))[0]
    last = outcome.splitlines()[-1]
    desk.say(f"Fixed: in {broken.name}, {broken.cause}. The checks say: {last}.")
    other = functions[1]
    arguments = _arguments(draw, other.inputs)
    desk.user(
        f"Thanks. What does {other.name}({arguments}) give?",
        f"and is {other.name} ok? try it with {arguments}",
    )
    run = f"from {module} import {other.name}\nprint({other.name}({arguments}))"
    given = desk.call("I'll run it.", python(run))[0]
    if draw.chance(60):
        desk.say(f"{other.name}({arguments}) gives {given}.")
        desk.user(
            f"add a check for that to checks.py, after the one for {order[0].name}",
            f"what would {broken.name} do with an empty list or an empty string?",
            "write a commit message for the fix",
        )


def _checks(module: str, cases: list[tuple[str, str]]) -> str:
    """A test file that needs no framework and prints the same under every Python."""
    names = sorted({case.partition("(")[0] for case, _ in cases})
    lines = [f"from {module} import {', '.join(names)}", "", "failed = 0"]
    lines += [
        line
        for case, value in cases
        for line in (
            f"given = {case}",
            f"if given != {value}:",
            "    failed += 1",
            f"    print({f'FAIL {case}: expected {value}, got'!r}, given)",
        )
    ]
    lines.append(f"print({len(cases)} - failed, 'passed,', failed, 'failed')")
    return "\n".join(lines) + "\n"


def _arguments(draw: Draw, kind: str) -> str:
    """Arguments that the bug of a function of this kind shows on."""
    if kind == "cents":
        return str(draw.between(1, 900) * 100 + draw.between(1, 9))
    if kind == "duration":
        return repr(f"{draw.between(1, 40)}h{draw.between(1, 59)}m")
    count = draw.between(3, 4) * 2 if kind == "even" else draw.between(5, 9)
    low, high = (-90, -1) if kind == "negative" else (1, 99)
    values = [draw.between(low, high) for _ in range(count)]
    if kind == "numbers":
        values.append(values[0])
    return f"{values}, {draw.between(2, 3)}" if kind == "sized" else str(values)
