"""How a budget looks: in a terminal and in a notebook."""

from html import escape
from typing import Any

from skdp.accounting._rules import basic_price
from skdp.exceptions import BudgetError

_WIDTH = 40
_ROWS = 20


def bar(share: float, width: int = _WIDTH) -> str:
    """Return a bar of text; anything above nothing shows at least one block."""
    share = min(max(share, 0.0), 1.0)
    full = round(share * width)
    if share > 0:
        full = max(full, 1)
    if share < 1:
        full = min(full, width - 1)
    return "█" * full + "░" * (width - full)


def summary(accountant: Any) -> dict[str, Any]:
    """Return the numbers that every view shows."""
    total, left = accountant.total(), accountant.remaining()
    return {
        "name": accountant.name,
        "epsilon": accountant.epsilon,
        "delta": accountant.delta,
        "neighboring": accountant.neighboring,
        "composition": accountant.composition,
        "spent_epsilon": total.epsilon,
        "spent_delta": total.delta,
        "rule": total.rule,
        "remaining_epsilon": left.epsilon,
        "remaining_delta": left.delta,
        "n_spends": len(accountant.spends),
    }


def _sentences(numbers: dict[str, Any]) -> tuple[str, str]:
    spent = (
        f"epsilon {numbers['spent_epsilon']:.4g} of {numbers['epsilon']:g} read so far "
        f"({numbers['rule']}), delta {numbers['spent_delta']:.3g} of "
        f"{numbers['delta']:g}"
    )
    left = "nothing is left"
    if numbers["remaining_epsilon"] > 0:
        left = (
            f"a release with epsilon {numbers['remaining_epsilon']:.4g}, delta "
            f"{numbers['remaining_delta']:.3g} would still fit"
        )
    return spent, left


def _title(numbers: dict[str, Any]) -> str:
    return (
        f"Privacy budget {numbers['name']!r}: epsilon {numbers['epsilon']:g}, delta "
        f"{numbers['delta']:g}, neighbours {numbers['neighboring']}, "
        f"{numbers['composition']} composition"
    )


def as_text(accountant: Any) -> str:
    """Return the budget for a terminal: a bar and what is left."""
    try:
        numbers = summary(accountant)
    except BudgetError as error:
        return f"{accountant!r}\n  {error}"
    share = numbers["spent_epsilon"] / numbers["epsilon"]
    spent, left = _sentences(numbers)
    count = numbers["n_spends"]
    return "\n".join(
        [
            _title(numbers),
            f"  {bar(share)} {share:.0%}",
            f"  {spent}",
            f"  {left}",
            f"  {count} spend{'' if count == 1 else 's'} recorded",
        ]
    )


def spend_rows(accountant: Any) -> list[dict[str, Any]]:
    """Return one plain row for each spend."""
    rows = []
    for spend in accountant.spends:
        epsilon, delta = basic_price(spend.event, accountant.epsilon, accountant.delta)
        rows.append(
            {
                "time": spend.time.isoformat(timespec="seconds"),
                "label": spend.label,
                "event": str(spend.event),
                "epsilon": epsilon,
                "delta": delta,
                "seeded": spend.seeded,
                "path": spend.path,
            }
        )
    return rows


_STYLE = (
    "font-family: sans-serif; max-width: 48em; border: 1px solid #8886; "
    "border-radius: 6px; padding: 0.8em 1em; font-size: 13px"
)


def _table(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return ""
    cell = (
        "style='text-align: left; padding: 2px 14px 2px 0; white-space: nowrap; "
        "font-size: 12px'"
    )
    head = "".join(
        f"<th {cell}>{name}</th>" for name in ("when", "label", "release", "ε", "δ")
    )
    body = ""
    for row in rows[-_ROWS:]:
        label = row["label"] or "-"
        values = (
            row["time"].replace("T", " ").removesuffix("+00:00"),
            label + (" (seeded)" if row["seeded"] else ""),
            row["event"],
            f"{row['epsilon']:.4g}",
            f"{row['delta']:.3g}",
        )
        cells = "".join(f"<td {cell}>{escape(value)}</td>" for value in values)
        body += f"<tr>{cells}</tr>"
    more = len(rows) - _ROWS
    note = f"<p>… and {more} earlier ones</p>" if more > 0 else ""
    return (
        "<table style='border-collapse: collapse; margin-top: 0.6em'>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"
    )


def as_html(accountant: Any) -> str:
    """Return the budget for a notebook: a bar and a table of the spends."""
    try:
        numbers, rows = summary(accountant), spend_rows(accountant)
    except BudgetError as error:
        text = f"{escape(repr(accountant))}<br>{escape(str(error))}"
        return f"<div style='{_STYLE}'>{text}</div>"
    share = min(1.0, numbers["spent_epsilon"] / numbers["epsilon"])
    colour = "#2a7f62" if share < 0.75 else "#b8860b" if share < 1 else "#b03a2e"
    spent, left = _sentences(numbers)
    return (
        f"<div style='{_STYLE}'><b>{escape(_title(numbers))}</b>"
        "<div style='background: #8883; border-radius: 4px; margin: 0.6em 0; "
        f"height: 14px'><div style='width: {share:.1%}; background: {colour}; "
        "height: 14px; border-radius: 4px'></div></div>"
        f"{escape(spent)};<br>{escape(left)}.{_table(rows)}</div>"
    )
