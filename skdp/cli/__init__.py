"""The command line: ``python -m skdp``."""

import argparse
import os
import re
import sys
from collections.abc import Sequence

from skdp import __version__
from skdp.cli import budget, demo
from skdp.exceptions import BudgetError

__all__ = ["main"]


class _Parser(argparse.ArgumentParser):
    """A parser whose errors do not repeat a URL: it may hold a password."""

    def error(self, message: str) -> None:
        secret = r"\bpostgres(ql)?:\S*|\b(?!sqlite:)[\w+.-]+://\S*"
        super().error(re.sub(secret, "(a URL)", message))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m skdp",
        description="scikit-learn estimators with differential privacy",
    )
    parser.add_argument("--version", action="version", version=f"skdp {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    demo.add_command(commands)
    budget.add_command(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0 is success, 1 a budget or ledger that refuses, 2 a wrong argument.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except BudgetError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    except (ValueError, TypeError) as error:
        parser.error(str(error))
    except OSError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    return 0
