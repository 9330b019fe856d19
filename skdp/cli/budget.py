"""``python -m skdp budget``: what a data steward uses."""

import csv
import json
import sys
from typing import Any

from skdp.accounting import BudgetAccountant
from skdp.accounting.ledger import open_ledger
from skdp.accounting.views import as_text, spend_rows, summary
from skdp.exceptions import LedgerError

__all__ = ["add_command"]


def _create(options: Any) -> None:
    names = _names(options.url)
    if options.name in names:
        raise LedgerError(
            f"The budget {options.name!r} exists already. Use 'show' to see it, or "
            "--name for another one."
        )
    accountant = BudgetAccountant(
        options.epsilon,
        options.delta,
        neighboring=options.neighboring,
        composition=options.composition,
        ledger=options.url,
        name=options.name,
    )
    accountant.total()  # connects, and thereby creates it
    print(as_text(accountant))


def _names(url: str) -> list[str]:
    """Return the budgets of a ledger; none for one that is not there yet."""
    try:
        return open_ledger(url, None, "").names()
    except LedgerError as error:
        reasons = ("does not exist", "no budgets", "is an empty file")
        if any(reason in str(error) for reason in reasons):
            return []
        raise


def _chosen(options: Any) -> list[BudgetAccountant]:
    """Return the budget that was named, or all of the ledger."""
    names = (
        [options.name] if options.name else open_ledger(options.url, None, "").names()
    )
    if not names:
        raise LedgerError("The ledger has no budget yet.")
    return [BudgetAccountant.open(options.url, name) for name in names]


def _show(options: Any) -> None:
    text = "\n\n".join(as_text(accountant) for accountant in _chosen(options))
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = text.replace("█", "#").replace("░", "-")
    print(text)


def _printable(text: str) -> str:
    """Return the text without characters that steer a terminal."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _spends(options: Any) -> None:
    for accountant in _chosen(options):
        rows = spend_rows(accountant)
        print(f"{accountant.name}: {len(rows)} spends")
        for row in rows:
            seeded = " (seeded)" if row["seeded"] else ""
            cost = f"epsilon {row['epsilon']:.4g}, delta {row['delta']:.3g}"
            print(f"  {row['time']}  {_printable(row['label'] or '-')}  {cost}{seeded}")
            print(f"      {row['event']}")


def _export(options: Any) -> None:
    accountants = _chosen(options)
    if options.output is None:
        _write(sys.stdout, accountants, options.format)
        return
    try:
        with open(options.output, "w", encoding="utf-8", newline="") as file:
            _write(file, accountants, options.format)
    except OSError as error:
        raise LedgerError(f"Could not write {options.output}: {error}.") from error


def _write(file: Any, accountants: list[BudgetAccountant], kind: str) -> None:
    if kind == "json":
        budgets = []
        for accountant in accountants:
            spends = [
                {
                    "time": spend.time.isoformat(),
                    "label": spend.label,
                    "event": spend.event.to_dict(),
                    "seeded": spend.seeded,
                    "path": spend.path,
                }
                for spend in accountant.spends
            ]
            budgets.append({**summary(accountant), "spends": spends})
        json.dump(budgets, file, indent=2)
        file.write("\n")
        return
    columns = ["budget", "time", "label", "event", "epsilon", "delta", "seeded", "path"]
    writer = csv.DictWriter(file, columns)
    writer.writeheader()
    for accountant in accountants:
        for row in spend_rows(accountant):
            writer.writerow({"budget": accountant.name, **row})


def add_command(commands: Any) -> None:
    """Add ``budget`` to the command line."""
    parser = commands.add_parser(
        "budget", help="make, show and export the budgets of a ledger"
    )
    verbs = parser.add_subparsers(dest="verb", required=True)

    def verb(name: str, run: Any, text: str, default: str | None) -> Any:
        sub = verbs.add_parser(name, help=text, description=text)
        sub.add_argument("url", help="sqlite:///file.db or postgresql://user@host/db")
        shown = "all of the ledger" if default is None else repr(default)
        sub.add_argument(
            "--name", default=default, help=f"the budget (default: {shown})"
        )
        sub.set_defaults(run=run)
        return sub

    create = verb("create", _create, "make a budget", "default")
    create.add_argument("--epsilon", type=float, required=True)
    create.add_argument("--delta", type=float, default=1e-5)
    create.add_argument(
        "--neighboring", choices=["replace", "add_remove"], default="replace"
    )
    create.add_argument(
        "--composition", choices=["adaptive", "basic", "advanced"], default="adaptive"
    )
    verb("show", _show, "draw what is used and say what is left", None)
    verb("spends", _spends, "list what was spent, oldest first", None)
    export = verb("export", _export, "write budgets and spends to a file", None)
    export.add_argument("--format", choices=["json", "csv"], default="json")
    export.add_argument("--output", help="a file (default: standard output)")
