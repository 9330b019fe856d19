"""``python -m skdp budget``, run as a data steward runs it."""

import csv
import io
import json
import os
import subprocess
import sys
from datetime import datetime

import pytest

from skdp import BudgetAccountant, events
from skdp.accounting.ledger import Spend
from skdp.cli import main

PROGRAM = [sys.executable, "-m", "skdp", "budget"]


def run(*arguments, **options):
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run([*PROGRAM, *arguments], text=True, timeout=120, **options)


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/ledger.db"


@pytest.fixture
def ledger(url):
    """A ledger with two budgets and three spends."""
    first = BudgetAccountant(1.0, 1e-6, ledger=url, name="clinic")
    first.spend(events.Laplace(4.0), "mean age")
    first.spend(epsilon=0.25, delta=1e-8, label='größe, "quoted"', seeded=True)
    second = BudgetAccountant(
        2.0, 0.0, neighboring="add_remove", composition="basic", ledger=url, name="lab"
    )
    second.parallel(2)[1].spend(events.Pure(2.0, "add_remove"))
    return url


@pytest.fixture
def call(capsys):
    """Run a command in this process; return its exit code, output and errors."""

    def call(*arguments):
        try:
            code = main(["budget", *arguments])
        except SystemExit as stop:
            code = stop.code
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


# --- Success


def test_create_makes_a_budget_and_shows_it(call, url):
    code, out, err = call("create", url, "--epsilon", "2", "--delta", "1e-7")
    assert (code, err) == (0, "")
    assert "'default': epsilon 2, delta 1e-07" in out
    assert "0 spends recorded" in out
    accountant = BudgetAccountant.open(url)
    assert (accountant.epsilon, accountant.delta) == (2.0, 1e-7)
    assert accountant.spends == []


def test_create_takes_every_term(call, url):
    terms = {"name": "lab", "neighboring": "add_remove", "composition": "advanced"}
    options = [text for name, value in terms.items() for text in (f"--{name}", value)]
    assert call("create", url, "--epsilon", "0.5", *options)[0] == 0
    accountant = BudgetAccountant.open(url, "lab")
    assert {name: getattr(accountant, name) for name in terms} == terms
    assert accountant.delta == 1e-5


def test_show_draws_a_bar_for_every_budget(call, ledger):
    code, out, err = call("show", ledger)
    assert (code, err) == (0, "")
    clinic, lab = out.split("\n\n")
    assert clinic.startswith("Privacy budget 'clinic': epsilon 1, delta 1e-06")
    assert "2 spends recorded" in clinic
    assert "1 spend recorded" in lab
    assert "nothing is left" in lab


@pytest.mark.parametrize(
    ("spent", "full"),
    [
        (None, 0),
        (0.0001, 1),  # a little shows, too
        (0.25, 10),
        (0.5, 20),
        (0.9999, 39),  # and so does a little that is left
        (1.0, 40),
    ],
)
def test_the_bar_is_as_long_as_what_is_spent(call, url, spent, full):
    accountant = BudgetAccountant(1.0, 0.0, ledger=url)
    accountant.total()
    if spent is not None:
        accountant.spend(epsilon=spent)
    code, out, _ = call("show", url)
    assert code == 0
    (line,) = [line for line in out.splitlines() if "█" in line or "░" in line]
    bar, share = line.split()
    assert bar == "█" * full + "░" * (40 - full)
    assert share == f"{spent or 0:.0%}"


def test_show_one_budget(call, ledger):
    code, out, _ = call("show", ledger, "--name", "lab")
    assert code == 0
    assert "'lab'" in out and "clinic" not in out


def test_spends_are_listed_oldest_first(call, ledger):
    code, out, err = call("spends", ledger)
    assert (code, err) == (0, "")
    order = ["clinic: 2 spends", "mean age", "größe", "(seeded)", "lab: 1 spend"]
    places = [out.index(text) for text in order]
    assert places == sorted(places)
    assert "Laplace" in out and "epsilon 0.25, delta 1e-08" in out


def test_json_comes_back(call, ledger):
    code, out, err = call("export", ledger)
    assert (code, err) == (0, "")
    clinic, lab = json.loads(out, parse_constant=pytest.fail)
    assert (clinic["name"], clinic["epsilon"], clinic["delta"]) == ("clinic", 1.0, 1e-6)
    assert (lab["neighboring"], lab["composition"]) == ("add_remove", "basic")
    assert (lab["spent_epsilon"], lab["remaining_epsilon"]) == (2.0, 0.0)
    assert (clinic["n_spends"], lab["n_spends"]) == (2, 1)
    for exported in (clinic, lab):
        stored = BudgetAccountant.open(ledger, exported["name"])
        for line, spend in zip(exported["spends"], stored.spends, strict=True):
            assert events.from_json(json.dumps(line["event"])) == spend.event
            assert datetime.fromisoformat(line["time"]) == spend.time
            assert line["label"] == spend.label
            assert line["seeded"] is spend.seeded
            assert line["path"] == spend.path


def test_csv_comes_back(call, ledger):
    code, out, err = call("export", ledger, "--format", "csv")
    assert (code, err) == (0, "")
    rows = list(csv.DictReader(io.StringIO(out, newline="")))
    assert [row["budget"] for row in rows] == ["clinic", "clinic", "lab"]
    assert [row["label"] for row in rows] == ["mean age", 'größe, "quoted"', ""]
    assert [float(row["epsilon"]) for row in rows] == [0.25, 0.25, 2.0]
    assert [float(row["delta"]) for row in rows] == [0.0, 1e-8, 0.0]
    assert [row["seeded"] for row in rows] == ["False", "True", "False"]
    assert all(datetime.fromisoformat(row["time"]).tzinfo for row in rows)


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_a_file_has_the_same_content(call, ledger, tmp_path, kind):
    output = tmp_path / f"export.{kind}"
    code, out, err = call(
        "export", ledger, "--format", kind, "--output", str(output), "--name", "lab"
    )
    assert (code, out, err) == (0, "", "")
    _, printed, _ = call("export", ledger, "--format", kind, "--name", "lab")
    assert output.read_bytes().decode() == printed
    assert "clinic" not in printed


def test_a_budget_without_spends_can_be_exported(call, url):
    BudgetAccountant(1.0, ledger=url).total()
    (exported,) = json.loads(call("export", url)[1])
    assert exported["spends"] == []
    assert len(call("export", url, "--format", "csv")[1].splitlines()) == 1
    assert call("spends", url)[1] == "default: 0 spends\n"


def test_as_processes(url, tmp_path):
    made = run("create", url, "--epsilon", "1")
    assert (made.returncode, made.stderr) == (0, "")
    BudgetAccountant.open(url).spend(epsilon=0.5, label="größe")
    for verb in ("show", "spends", "export"):
        answer = run(verb, url)
        assert (answer.returncode, answer.stderr) == (0, "")
        assert answer.stdout
    assert json.loads(answer.stdout)[0]["spends"][0]["label"] == "größe"


# --- Refusals: exit code 1, a message, and no traceback


def refused(answer, *words):
    code, out, err = answer
    assert code == 1, err
    assert out == ""
    assert err.startswith("python -m skdp: ")
    assert "Traceback" not in err
    for word in words:
        assert word in err


def test_an_existing_budget_is_not_made_again(call, ledger):
    for epsilon in ("1", "5"):
        answer = call("create", ledger, "--name", "clinic", "--epsilon", epsilon)
        refused(answer, "'clinic' exists already")
    assert call("create", ledger, "--epsilon", "1")[0] == 0  # another name
    assert len(BudgetAccountant.open(ledger, "clinic").spends) == 2


def test_a_missing_file_is_not_made(call, url, tmp_path):
    for verb in ("show", "spends", "export"):
        refused(call(verb, url), "does not exist")
        refused(call(verb, url, "--name", "x"), "does not exist")
    assert list(tmp_path.iterdir()) == []


def test_other_refusals(call, ledger, tmp_path):
    refused(call("show", ledger, "--name", "nobody"), "no budget named 'nobody'")
    (tmp_path / "noise.db").write_bytes(b"x" * 5000)
    noise = f"sqlite:///{tmp_path}/noise.db"
    refused(call("show", noise), "not a database")
    refused(call("create", noise, "--epsilon", "1"), "not a database")
    nowhere = f"sqlite:///{tmp_path}/no/ledger.db"
    refused(call("create", nowhere, "--epsilon", "1"), "unable to open")


def test_a_name_that_is_too_long_for_a_file(call, tmp_path):
    long = f"sqlite:///{tmp_path}/{'x' * 300}"
    refused(call("show", long))
    refused(call("create", long, "--epsilon", "1"))


def test_create_in_an_empty_file(call, url, tmp_path):
    (tmp_path / "ledger.db").touch()  # as mktemp makes it
    assert call("create", url, "--epsilon", "1")[0] == 0
    assert BudgetAccountant.open(url).epsilon == 1.0


@pytest.mark.parametrize("place", ["no/export.json", "folder", "/dev/full"])
def test_an_output_that_cannot_be_written(call, ledger, tmp_path, place):
    if place == "/dev/full" and not os.path.exists(place):
        pytest.skip("there is no /dev/full")
    (tmp_path / "folder").mkdir()
    refused(call("export", ledger, "--output", str(tmp_path / place)), "Could not")


def test_a_terminal_that_is_full(ledger):
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    for verb in ("show", "spends", "export"):
        with open("/dev/full", "w") as full:
            answer = run(verb, ledger, stdout=full)
        assert answer.returncode == 1
        assert "Traceback" not in answer.stderr
        assert "No space left" in answer.stderr


def test_a_server_that_is_not_there(call):
    pytest.importorskip("psycopg")
    for verb in ("show", "spends", "export"):
        refused(call(verb, "postgresql://127.0.0.1:1/db"), "could not be used")
    answer = call("create", "postgresql://127.0.0.1:1/db", "--epsilon", "1")
    refused(answer, "could not be used")


def test_without_psycopg(ledger):
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from skdp.cli import main\n"
        "sys.exit(main(['budget', 'show', 'postgresql://host/db']))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )
    assert answer.returncode == 1
    assert "Traceback" not in answer.stderr
    assert "pip install 'skdp[postgres]'" in answer.stderr


# --- Wrong arguments: exit code 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "verb"),
        (["fly"], "invalid choice"),
        (["show"], "url"),
        (["create", "URL"], "--epsilon"),
        (["create", "URL", "--epsilon", "much"], "--epsilon"),
        (["create", "URL", "--epsilon", "0"], "'epsilon'"),
        (["create", "URL", "--epsilon", "-1"], "'epsilon'"),
        (["create", "URL", "--epsilon", "nan"], "'epsilon'"),
        (["create", "URL", "--epsilon", "inf"], "'epsilon'"),
        (["create", "URL", "--epsilon", "1", "--delta", "1"], "'delta'"),
        (["create", "URL", "--epsilon", "1", "--delta", "-1"], "'delta'"),
        (["create", "URL", "--epsilon", "1", "--name", ""], "'name'"),
        (["create", "URL", "--epsilon", "1", "--neighboring", "x"], "--neighboring"),
        (["create", "URL", "--epsilon", "1", "--composition", "x"], "--composition"),
        (["create", "mysql://h/db", "--epsilon", "1"], "'ledger'"),
        (["show", "ledger.db"], "'ledger'"),
        (["show", "sqlite://ledger.db"], "'ledger'"),
        (["show", "sqlite:///ledger.db?timeout=soon"], "timeout"),
        (["export", "URL", "--format", "xml"], "--format"),
    ],
)
def test_wrong_arguments_exit_with_2_and_a_reason(
    call, url, tmp_path, arguments, words
):
    code, out, err = call(*[url if text == "URL" else text for text in arguments])
    assert (code, out) == (2, "")
    assert words in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_help(capsys):
    for arguments in ([], ["create"], ["show"], ["spends"], ["export"]):
        with pytest.raises(SystemExit) as stop:
            main(["budget", *arguments, "--help"])
        assert stop.value.code == 0
        assert "usage" in capsys.readouterr().out


# --- The output's reader


@pytest.mark.parametrize("verb", ["spends", "export"])
def test_a_reader_that_has_seen_enough(url, verb):
    accountant = BudgetAccountant(1e6, 0.0, ledger=url)
    accountant.total()
    line = Spend("2026-01-01T00:00:00+00:00", events.Pure(0.1).to_json(), "x", False)
    with accountant._ledger.transaction() as change:
        for _ in range(3000):  # more than a pipe holds
            change.record(line)
    with subprocess.Popen(
        [*PROGRAM, verb, url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
        process.wait(60)
    assert errors == ""
    assert process.returncode in (0, 141)


def test_an_output_that_knows_only_ascii(ledger):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    for verb in ("show", "spends", "export"):
        answer = run(verb, ledger, env=environment)
        assert answer.returncode == 0, answer.stderr
        assert answer.stderr == ""
        assert "clinic" in answer.stdout


def test_labels_cannot_steer_the_terminal(call, url):
    accountant = BudgetAccountant(1.0, 0.0, ledger=url)
    accountant.spend(epsilon=0.1, label="nice\x1b[2J\rfake: 0 spends\nfake")
    for verb in ("show", "spends"):
        code, out, _ = call(verb, url)
        assert code == 0
        assert "\x1b" not in out and "\r" not in out
        assert "\nfake" not in out


# --- The password


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:geheim9@127.0.0.1:1/db",
        "postgresql://u@127.0.0.1:1/db?password=geheim9",
        "postgresql://u:geheim9%zz@127.0.0.1:1/db",
        "postgresql://u:x#geheim9@127.0.0.1:1/db",
        "postgresql://u:x@geheim9@127.0.0.1:1/db",
        "postgresql:password=geheim9",
        "mysql://u:geheim9@127.0.0.1/db",
    ],
)
def test_a_password_is_in_no_output(call, url):
    pytest.importorskip("psycopg")
    for verb in ("create", "show", "spends", "export"):
        options = ["--epsilon", "1"] if verb == "create" else []
        code, out, err = call(verb, url, *options)
        assert code in (1, 2)
        assert err
        assert "geheim9" not in out + err


@pytest.mark.parametrize(
    "arguments",
    [
        ["SECRET"],  # the verb is missing
        ["show", "sqlite:///x.db", "SECRET"],
        ["show", "sqlite:///x.db", "--name=x", "--url=SECRET"],
        ["create", "sqlite:///x.db", "--epsilon", "SECRET"],
    ],
)
def test_a_password_in_the_wrong_place_is_in_no_output(call, arguments):
    secret = "postgresql://u:geheim9@host/db"
    code, out, err = call(*[text.replace("SECRET", secret) for text in arguments])
    assert code == 2
    assert "geheim9" not in out + err
