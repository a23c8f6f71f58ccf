"""What models cost, as their providers published it: a table with a date, which nothing keeps up to date by itself."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec


class PriceTable(msgspec.Struct, frozen=True):
    """The table that ``scripts/renew_prices.py`` writes."""

    date: str
    """When it was taken."""
    source: str
    """Where from: a collection of published prices."""
    prices: Mapping[str, Mapping[str, Sequence[str]]]
    """Host of the provider → model → the cells of its row, which the file explains."""


@functools.cache
def price_table() -> PriceTable:
    """Return the table. It is a part of the package, as a module is: what reads it decides the same each time."""
    import tomllib

    return PriceTable(**tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")))
