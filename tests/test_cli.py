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
        "noise: objective",
        "noise: gradient",
        "noise: output",
        "mean income",
        "people, capital",
        "median age",
        "6 spends recorded",
        "cannot pay",
    ):
        assert word in result.stdout


def lines(text, start):
    return [line for line in text.splitlines() if line.strip().startswith(start)]


def test_demo_says_what_the_models_cost(capsys):
    assert main(["demo", "--n-samples", "500", "--epsilon", "0.25"]) == 0
    text = capsys.readouterr().out
    for method in ("objective", "gradient", "output"):
        (line,) = lines(text, f"noise: {method}")
        assert line.split()[-2:] == ["0.25", "1e-06"]
    words = " ".join(text.split())
    sentence = (
        "Differentially private with epsilon = 0.25, delta = 1e-06, when one row is "
        "replaced by any other (the number of rows is public). Assumes every person "
        "is one row; "
    )
    assert f"objective, gradient, output: {sentence}the parameters were chosen" in words
    assert "seed" not in words


def test_demo_prints_the_total_of_one_budget(capsys):
    # Six releases of epsilon 0.5: at most added up, and more than any four of them.
    assert main(["demo", "--n-samples", "500"]) == 0
    text = capsys.readouterr().out
    assert "Privacy budget 'census': epsilon 3, delta 3e-06" in text
    total = re.search(r"epsilon ([\d.]+) of 3 read so far .*, delta \S+ of 3e-06", text)
    assert 2.0 < float(total[1]) <= 3
    assert "6 spends recorded" in text
    assert "cannot pay for Pure(eps=3)" in text


def test_demo_layout_does_not_depend_on_the_noise(capsys):
    def layout():
        assert main(["demo", "--n-samples", "500"]) == 0
        text = capsys.readouterr().out
        return [
            re.sub(r"[-+]?[\d,]*\d(\.\d+)?", "", x).split() for x in text.splitlines()
        ]

    assert layout() == layout()


def test_demo_models_learn(capsys):
    # Over 300 runs both lead "always no" by 5.1 points, standard deviation 0.3, and are
    # 0.0 from the model without privacy, standard deviation 0.08: seven deviations for
    # the one bound and more than ten for the other, so below 1e-11 to fail, if normal.
    assert main(["demo"]) == 0
    text = capsys.readouterr().out

    def accuracy(start):
        (line,) = lines(text, start)
        return float(re.search(r"([\d.]+)%", line)[1])

    constant, plain = accuracy("always 'no'"), accuracy("not private")
    for method in ("objective", "gradient"):
        assert accuracy(f"noise: {method}") > constant + 3
        assert abs(accuracy(f"noise: {method}") - plain) < 1


def test_demo_with_one_person(capsys):
    assert main(["demo", "--n-samples", "1"]) == 0
    assert "6 spends recorded" in capsys.readouterr().out


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
