"""The tools of generated agent sessions."""

from pathlib import Path

import pytest

from loadjudge.sessions.generate.desk import LIST, edit, python, read, search, sql, write
from loadjudge.sessions.generate.workspace import DEFINITIONS, Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    found = Workspace(tmp_path)
    found.call(*write("b/two.txt", "x = 1\ny = 1\n"))
    found.call(*write("one.py", "def twice(n):\n    return 2 * n\n"))
    return found


def test_files(workspace: Workspace) -> None:
    assert workspace.call(*LIST) == "     12  b/two.txt\n     31  one.py"
    assert workspace.call(*read("b/two.txt")) == "   1  x = 1\n   2  y = 1"
    assert workspace.call(*search("= 1")) == "b/two.txt:1: x = 1\nb/two.txt:2: y = 1"
    assert workspace.call(*search("z", "one.py")) == "no line contains 'z'"
    assert workspace.call(*edit("b/two.txt", "x = 1", "x = 2")) == "edited b/two.txt"
    assert "occurs 0 times" in workspace.call(*edit("b/two.txt", "x = 1", "x = 2"))


def test_long_search_results_are_cut(workspace: Workspace) -> None:
    workspace.call(*write("many.txt", "needle\n" * 50))
    assert workspace.call(*search("needle")).endswith("\n... 10 more lines")


def test_python_runs_among_the_files_and_touches_nothing_else(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    code = (
        "from one import twice\nimport math\nwith open('out.txt', 'w') as out:\n"
        "    out.write(str(twice(21)))\nprint(open('out.txt').read(), math.floor(2.5))"
    )
    assert workspace.call(*python(code)) == "42 2"
    assert workspace.call(*python("x = 1")) == "(no output)"
    assert workspace.call(*python("print('a')\n1 / 0")).startswith("a\nZeroDivisionError: ")
    assert capsys.readouterr().out == ""
    workspace.call(*edit("one.py", "2 * n", "3 * n"))
    assert workspace.call(*python("import one\nprint(one.twice(1))")) == "3"


def test_sql(workspace: Workspace) -> None:
    workspace.load("CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (1), (NULL);")
    assert workspace.call(*sql("SELECT n FROM t ORDER BY n")) == "n\nNULL\n1\n(2 rows)"
    assert workspace.call(*sql("UPDATE t SET n = 5")) == "ok, 2 rows changed"
    assert workspace.call(*sql("SELECT m FROM t")) == "error: no such column: m"
    workspace.close()


def test_every_defined_tool_exists(workspace: Workspace) -> None:
    for name, tool in DEFINITIONS.items():
        given = dict.fromkeys(tool["function"]["parameters"]["required"], "one.py")
        assert isinstance(workspace.call(name, given), str)
    with pytest.raises(ValueError, match="no tool"):
        workspace.call("fly", {})
