/** Helpers for tests of reviews. */
import type { Locator } from "playwright-core";
import { until } from "./environment.ts";
import type { Workbench } from "./workbench.ts";
import { PYTHON } from "./fixture.ts";

/** The title of the view. */
export const VIEW = "Review";

/** Configuration of a delegator that runs `scenario.json` of the workspace. */
export const scripted = (name: string): Record<string, string> => ({
  [`delegators/${name}.toml`]: `name = "${name}"\ntool = "generic"\n\n[launch]\ncommand = ["${PYTHON}", "-m", "understudy.testing.agent", "scenario.json"]\noutput = "events"\n`,
});

/** That file. */
export const scenario = (...steps: readonly object[]): Record<string, string> => ({
  "scenario.json": JSON.stringify({ steps: [...steps, { result: { ok: true } }] }),
});

/**
 * Create a result with this verdict and open its review from the palette, with bars unless lenses are enabled.
 * Returns its ID.
 */
export async function reviewing(
  vs: Workbench,
  delegator = "quick",
  verdict = "Verified",
  bars = true,
): Promise<string> {
  await vs.openContainer();
  const { id } = vs.world.understudy("start", "tests", "shop/prices.py", "--delegator", delegator, "--detach");
  await until(() => vs.world.understudy("show", id).state === "finished", "the result is there");
  await vs.waitForRow("Delegations", "To Review");
  await vs.command("Understudy: Review…");
  await vs.pick("prices.py");
  await vs.waitForRow(VIEW, verdict);
  if (bars) await vs.bar("Change 1 of").waitFor();
  // Opening ends with the selection of this row. A row that is clicked before loses its selection, and does not open.
  await until(async () => (await vs.selectedRow(VIEW)).includes(verdict), "the verdict is selected");
  return id;
}

/** Numbers of pending, accepted and rejected changes. */
export const counts = (vs: Workbench, id: string): string => {
  const { pending, accepted, rejected } = vs.world.understudy("show", id).review;
  return `${pending} ${accepted} ${rejected}`;
};

/** Open the writable copy of a file of the result, from the row of one of its changes. */
export async function openCopy(vs: Workbench, change: string, file: string): Promise<void> {
  await vs.rowMenu(VIEW, change, "Edit Result");
  await vs.editor(`${file}: Edit Result`).waitFor();
}

/** Edit a line of the result and save it, which changes the verdict. Returns the line. */
export async function editResult(vs: Workbench): Promise<Locator> {
  await openCopy(vs, "test_more_than", "test_prices.py");
  const line = vs.page
    .locator(".editor-group-container.active .modified .view-line", { hasText: "discounted(1000, 101)" })
    .first();
  await line.click();
  await vs.page.keyboard.press("End");
  await vs.type("  # one above everything");
  await vs.save();
  await vs.waitForRow(VIEW, "edited by you");
  await vs.waitForRow(VIEW, "Unverified");
  return line;
}
