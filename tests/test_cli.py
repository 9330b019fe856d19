"""The command line, run as a user runs it."""

import re
import subprocess
import sys

import pytest

from skdp.cli import main


def run(*arguments):
    command = [sys.executable, "-m", "skdp", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_demo_as_a_process():
    result = run("demo", "--n-samples", "2000")
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    for word in (
        "mean income",
        "people, capital",
        "median age",
        "epsilon 1.5 of 1.5",
        "cannot pay",
    ):
        assert word in result.stdout


def test_demo_noise_is_fresh_and_a_seed_repeats_it(capsys):
    def printed(*arguments):
        assert main(["demo", "--n-samples", "500", *arguments]) == 0
        return capsys.readouterr().out

    assert printed("--seed", "3") == printed("--seed", "3")
    assert "not private" in printed("--seed", "3")
    assert printed() != printed()


def test_demo_is_near_the_truth(capsys):
    # At epsilon 5 and 50,000 rows the mean's noise has a scale of 2 (500,000/(5 n)):
    # beyond 100 with probability exp(-50).
    main(["demo", "--epsilon", "5"])
    line = next(x for x in capsys.readouterr().out.splitlines() if "mean income" in x)
    error = re.findall(r"[-+][\d,]+", line)[0]
    assert abs(int(error.replace(",", ""))) <= 100


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["demo", "--epsilon", "0"], "'epsilon'"),
        (["demo", "--epsilon", "nan"], "'epsilon'"),
        (["demo", "--n-samples", "0"], "'n_samples'"),
        (["demo", "--seed", "-1"], "'random_state'"),
        (["demo", "--epsilon", "x"], "--epsilon"),
        ([], "command"),
        (["fly"], "invalid choice"),
    ],
)
def test_wrong_arguments_exit_with_2_and_a_reason(arguments, words, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert words in error
    assert "Traceback" not in error


def test_version():
    import skdp

    assert run("--version").stdout.strip() == f"skdp {skdp.__version__}"
