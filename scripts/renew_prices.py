"""Renew the table of published prices from a file or address with the prices of LiteLLM or of models.dev.

    python scripts/renew_prices.py model_prices_and_context_window.json
    python scripts/renew_prices.py https://models.dev/api.json

The providers of the table stay; their models become those of the source that answer in text. Afterwards the table has
the date of today (``--date``) and names the source (``--source``). Models that the source does not have are left out
and printed: the table has one date, and a price of another day would be wrong under it. Nothing is written when the
source does not list a provider of the table at all.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import re
import sys
import tomllib
import urllib.request
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

TABLE = Path(__file__).parent.parent / "sidecar/understudy/model/config/price_table.toml"
HEAD = """\
# What models cost, as their providers published it, in USD per million tokens: read, written, read from a cache,
# written to a cache; last the size of a request in tokens above which other prices apply. Empty: none was published.
# Prices that depend on the time of day or on the region are left out: a cost is better unknown than wrong.
# scripts/renew_prices.py writes this file.
"""
HOSTS = {
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "gemini",
    "api.groq.com": "groq",
    "api.cerebras.ai": "cerebras",
}
"""Host of the table → what LiteLLM calls the provider."""
MODELS_DEV = {"gemini": "google"}
"""LiteLLM's name of a provider → the one of models.dev, where they differ."""
MAX_BYTES = 64 << 20
SECONDS = 60
_MILLION = 1_000_000
_ABOVE = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")
_DATED = re.compile(r"[-@]\d{4}-?\d{2}-?\d{2}$|-latest$")
"""The end of a name that the table leaves out: its prices are looked up for every version of a model."""

Row = tuple[str, ...]
"""Read, written, cache read, cache written, largest request; empty texts at the end are left out."""


def main(arguments: list[str]) -> int:
    """Write the table; return 0, or 1 with a message when the source cannot be used."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("prices", help="a file or an https:// address")
    parser.add_argument("--date", type=dt.date.fromisoformat, default=dt.datetime.now(dt.UTC).date())
    parser.add_argument("--source", help="what the table names as its source; default: the file's name or the host")
    parser.add_argument("--table", type=Path, default=TABLE, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    before = tomllib.loads(options.table.read_text("utf-8"))["prices"]
    try:
        # Decimal keeps prices as they were published: 1.1e-06 of a dollar a token is 1.1, not 1.0999999999999999.
        value = json.loads(read(options.prices), parse_float=Decimal, parse_int=Decimal)
        found = prices(value)
    except (OSError, ValueError) as error:
        print(f"Cannot use {options.prices}: {error}", file=sys.stderr)
        return 1
    source = options.source or (urlsplit(options.prices).hostname or Path(options.prices).name)
    lost = sorted(_names(before) - _names(found))
    options.table.write_text(rendered(found, options.date.isoformat(), source), "utf-8")
    print(f"{sum(map(len, found.values()))} models of {len(found)} providers, {options.date} from {source}.")
    if lost:
        print(f"Without a price now: {', '.join(lost)}.")
    return 0


def _names(prices_by_host: Mapping[str, Mapping[str, Any]]) -> set[str]:
    return {name for rows in prices_by_host.values() for name in rows}


def read(place: str) -> bytes:
    """Return the content of a file or an address, which must use TLS."""
    if "://" not in place:
        return Path(place).read_bytes()
    if not place.startswith("https://"):
        raise ValueError("An address must begin with https://.")
    with urllib.request.urlopen(place, timeout=SECONDS) as answer:  # noqa: S310 - https only
        data: bytes = answer.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"It is larger than {MAX_BYTES} bytes.")
    return data


def prices(value: Any) -> dict[str, dict[str, Row]]:
    """Return host → model → row; raise ValueError if the value has neither format, or lacks a provider."""
    if not isinstance(value, dict):
        raise ValueError("It is not a JSON object.")  # noqa: TRY004 - the content is wrong, not an argument's type
    of = _models_dev if any(isinstance(one, dict) and "models" in one for one in value.values()) else _litellm
    found: dict[str, dict[str, Row]] = {}
    for host, provider in HOSTS.items():
        rows = {name: row for name, row in of(value, provider) if not _DATED.search(name)}
        # A model that is listed with a date only has the prices of its newest version.
        for name, row in sorted(of(value, provider)):
            rows.setdefault(_DATED.sub("", name), row) if _DATED.sub("", name) not in rows else None
        if not rows:
            raise ValueError(f"It has no prices of {provider}.")
        found[host] = dict(sorted(rows.items()))
    return found


def _litellm(value: Mapping[str, Any], provider: str) -> Iterator[tuple[str, Row]]:
    """Yield the models of LiteLLM's table, whose prices are in USD a token."""
    for name, entry in value.items():
        if not isinstance(entry, dict) or entry.get("litellm_provider") != provider:
            continue
        short = name.removeprefix(f"{provider}/")
        if entry.get("mode") not in {"chat", "responses"} or "/" in short or short.startswith("ft:"):
            continue
        tiers = [int(found[1]) * 1000 for key in entry if (found := _ABOVE.fullmatch(key)) and entry[key] is not None]
        costs = [
            entry.get(key)
            for key in ("input_cost_per_token", "output_cost_per_token", "cache_read_input_token_cost",
                        "cache_creation_input_token_cost")
        ]  # fmt: skip
        row = _row([None if cost is None else cost * _MILLION for cost in costs], min(tiers, default=None))
        if row is not None:
            yield short, row


def _models_dev(value: Mapping[str, Any], provider: str) -> Iterator[tuple[str, Row]]:
    """Yield the models of models.dev, whose prices are in USD per million tokens."""
    models = value.get(MODELS_DEV.get(provider, provider), {}).get("models", {})
    for name, entry in models.items():
        cost = entry.get("cost")
        writes = entry.get("modalities", {}).get("output", ["text"])
        if not isinstance(cost, dict) or writes != ["text"]:
            continue
        tiers = [int(one["tier"]["size"]) for one in cost.get("tiers", ()) if one["tier"].get("type") == "context"]
        if not tiers and "context_over_200k" in cost:
            tiers = [200_000]
        row = _row(
            [cost.get(key) for key in ("input", "output", "cache_read", "cache_write")], min(tiers, default=None)
        )
        if row is not None:
            yield name, row


def _row(costs: list[Any], largest: int | None) -> Row | None:
    """Return a row; None when reading or writing has no price, or costs nothing, which is a trial and not a price."""
    if any(cost is not None and (not isinstance(cost, Decimal) or cost < 0) for cost in costs):
        return None
    if not costs[0] or not costs[1]:
        return None
    texts = ["" if cost is None else format(cost.normalize(), "f") for cost in costs]
    texts.append("" if largest is None else str(largest))
    while texts[-1] == "":
        texts.pop()
    return tuple(texts)


def rendered(prices_by_host: Mapping[str, Mapping[str, Row]], date: str, source: str) -> str:
    """Return the table as TOML, one model a line."""
    lines = [HEAD, f"date = {json.dumps(date)}", f"source = {json.dumps(source)}"]
    for host, rows in prices_by_host.items():
        lines += ["", f"[prices.{json.dumps(host)}]"]
        lines += [f"{json.dumps(name)} = {json.dumps(row)}" for name, row in rows.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
