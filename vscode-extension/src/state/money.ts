/** Sums of money as decimal text, without the errors of binary fractions, as Python's `decimal` computes them. */

/** Significant digits of a sum. */
const DIGITS = 28;
const DECIMAL = /^([+-]?)(?:([0-9]+)(?:\.([0-9]*))?|\.([0-9]+))(?:e([+-]?[0-9]+))?$/i;

/** `coefficient` × 10 ^ `exponent`. */
interface Decimal {
  readonly coefficient: bigint;
  readonly exponent: number;
}

/** Whether it is an amount. A damaged journal may contain anything, such as a huge exponent. */
export function isMoney(amount: string | undefined): amount is string {
  return amount !== undefined && parse(amount) !== undefined;
}

/** The sum of amounts; undefined if there are none. */
export function sumOfMoney(amounts: readonly string[]): string | undefined {
  const known = amounts.map(parse).filter((amount) => amount !== undefined);
  return known.length === 0 ? undefined : format(known.reduce(add, { coefficient: 0n, exponent: 0 }));
}

function parse(amount: string): Decimal | undefined {
  const match = amount.length <= 64 ? DECIMAL.exec(amount.trim().replaceAll("_", "")) : null;
  if (!match) return undefined;
  const [, sign = "", whole = "", part = "", only = "", power = "0"] = match;
  const coefficient = BigInt(whole + part + only);
  const exponent = Number(power) - part.length - only.length;
  if (Math.abs(exponent + coefficient.toString().length - 1) >= 30) return undefined;
  return { coefficient: sign === "-" ? -coefficient : coefficient, exponent };
}

function add(one: Decimal, other: Decimal): Decimal {
  const exponent = Math.min(one.exponent, other.exponent);
  const scaled = (value: Decimal): bigint => value.coefficient * 10n ** BigInt(value.exponent - exponent);
  return round({ coefficient: scaled(one) + scaled(other), exponent });
}

/** Round to `DIGITS`, halves to even. */
function round({ coefficient, exponent }: Decimal): Decimal {
  const size = coefficient < 0n ? -coefficient : coefficient;
  const excess = size.toString().length - DIGITS;
  if (excess <= 0) return { coefficient, exponent };
  const unit = 10n ** BigInt(excess);
  const twice = (size % unit) * 2n;
  const kept = size / unit;
  const up = twice > unit || (twice === unit && kept % 2n === 1n);
  const rounded = up ? kept + 1n : kept;
  // 99…9 becomes 100…0, which has one digit more.
  return round({ coefficient: coefficient < 0n ? -rounded : rounded, exponent: exponent + excess });
}

function format({ coefficient, exponent }: Decimal): string {
  if (exponent >= 0) return (coefficient * 10n ** BigInt(exponent)).toString();
  const sign = coefficient < 0n ? "-" : "";
  const digits = coefficient
    .toString()
    .replace("-", "")
    .padStart(1 - exponent, "0");
  return `${sign}${digits.slice(0, exponent)}.${digits.slice(exponent)}`;
}
