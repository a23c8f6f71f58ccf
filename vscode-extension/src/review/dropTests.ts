/** Remove new tests that notice nothing from a result. */

import { t } from "../base/l10n.ts";
import type { Host } from "../host/host.ts";
import type { Delegation } from "../protocol.ts";
import type { Requester } from "../sidecar/connection.ts";
import { oneLine } from "../state/formatting.ts";
import { droppableTests } from "../state/mutationWording.ts";

export interface DropDeps {
  readonly host: Pick<Host, "windows">;
  readonly requester: Requester;
}

/** Ask which tests to drop if there are several; return whether the user wants the checks to run again. */
export async function dropIdleTests({ host, requester }: DropDeps, delegation: Delegation): Promise<boolean> {
  const idle = droppableTests(delegation);
  if (idle.length === 0) {
    await host.windows.message("info", t("“{0}” has no tests to drop.", delegation.title));
    return false;
  }
  let tests = idle;
  if (idle.length > 1) {
    const outcome = await host.windows.pick({
      title: t("Drop Tests"),
      placeholder: t("Choose the tests to drop: they notice nothing"),
      many: true,
      items: idle.map((test) => ({ id: test, label: oneLine(test, 200), picked: true })),
    });
    if (outcome.kind !== "picked" || outcome.ids.length === 0) return false;
    tests = outcome.ids;
  }
  // All of them without names: those that must stay are then left out instead of refused.
  const { dropped, kept } = await requester.request("understudy/delegations/drop", {
    id: delegation.id,
    ...(tests.length < idle.length ? { tests: [...tests] } : {}),
  });
  const count = dropped.length === 1 ? t("1 test was dropped.") : t("{0} tests were dropped.", dropped.length);
  const stayed = kept.map(({ test, why }) => oneLine(`${test} ${why}`, 200)).join("; ");
  const text = stayed === "" ? count : t("{0} Not dropped: {1}.", count, stayed);
  const again = t("Check Again");
  return (await host.windows.message("info", text, { buttons: [again] })) === again;
}
