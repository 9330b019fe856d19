"""Public data sets for benchmarks, from a folder of CSV files.

The folder is named by ``--data`` or the environment variable ``SKDP_DATA``. Numeric
columns are scaled to [0, 1] by their smallest and largest values, which stand in for
public bounds; the others are one-hot encoded.
"""

import os
from pathlib import Path

import numpy as np
import pandas as pd

FOLDER = Path(os.environ.get("SKDP_DATA", "../shared/data"))


def read(name: str, folder: Path = FOLDER) -> pd.DataFrame:
    """Return one of the tables."""
    path = folder / f"{name}.csv.gz"
    if not path.exists():
        raise SystemExit(
            f"{path} is missing: name the folder of the data sets by SKDP_DATA."
        )
    return pd.read_csv(path, keep_default_na=False, na_values=[""])


def encode(
    table: pd.DataFrame, target: str, drop: tuple = (), categorical: tuple = ()
) -> tuple[np.ndarray, np.ndarray]:
    """Return rows scaled to [0, 1] and one-hot encoded, and the target column."""
    rows = table.drop(columns=[target, *drop])
    numeric = [
        name
        for name in rows
        if rows[name].dtype.kind in "if" and name not in categorical
    ]
    other = [name for name in rows if name not in numeric]
    values = rows[numeric].astype(float)
    values = values.fillna(values.median())
    width = (values.max() - values.min()).replace(0, 1)
    parts = [((values - values.min()) / width).to_numpy()]
    if other:
        dummies = pd.get_dummies(rows[other].fillna("?").astype(str))
        parts.append(dummies.to_numpy(float))
    return np.hstack(parts), table[target].to_numpy()


def adult(folder: Path = FOLDER) -> tuple[np.ndarray, np.ndarray]:
    """Return Adult: is the income above 50,000?"""
    X, y = encode(read("adult", folder), "income", ("fnlwgt",))
    return X, (y == ">50K").astype(int)


def covertype(folder: Path = FOLDER) -> tuple[np.ndarray, np.ndarray]:
    """Return Covertype: class 2 against the rest."""
    X, y = encode(read("covertype", folder), "Cover_Type")
    return X, (y == 2).astype(int)


def mnist(folder: Path = FOLDER) -> tuple[np.ndarray, np.ndarray]:
    """Return the digits, pixels in [0, 1]."""
    table = read("mnist", folder)
    return table.drop(columns="label").to_numpy(float) / 255, table["label"].to_numpy()


def german_credit(folder: Path = FOLDER) -> tuple[np.ndarray, np.ndarray]:
    """Return German Credit: is the risk bad?"""
    X, y = encode(read("german_credit", folder), "credit_risk")
    return X, (y == 2).astype(int)


def pums(target: str, folder: Path = FOLDER) -> tuple[np.ndarray, np.ndarray]:
    """Return the census extract of Fulton County."""
    table = read("pums_fulton", folder).drop(columns=["state", "fips"])
    drop = () if target == "income" else ("income",)
    return encode(table, target, drop, ("puma",))


def california(folder: Path = FOLDER) -> tuple[np.ndarray, np.ndarray]:
    """Return the housing blocks of California."""
    return encode(read("california_housing", folder), "medianHouseValue")


def bike(folder: Path = FOLDER) -> tuple[np.ndarray, np.ndarray]:
    """Return the bike rentals, all columns as numbers."""
    drop = ("instant", "dteday", "casual", "registered")
    return encode(read("bike_sharing", folder), "cnt", drop)


def diamonds(folder: Path = FOLDER) -> tuple[np.ndarray, np.ndarray]:
    """Return the diamonds and their prices."""
    return encode(read("diamonds", folder), "price")
