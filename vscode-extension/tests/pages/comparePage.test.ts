// @vitest-environment happy-dom
import { beforeEach, describe, expect, it } from "vitest";
import { ComparePage } from "../../src/pages/comparePage.ts";
import type { CompareResult } from "../../src/protocol.ts";
import type { PageClient, PageNotification } from "../../src/state/pageClient.ts";
import { settled } from "../support/flushPromises.ts";
import { result } from "../support/golden.ts";

customElements.define("understudy-compare", ComparePage);

let answer: CompareResult;
let asked: [string, unknown][];
let remembered: unknown;
let notify: (notification: PageNotification) => void;

beforeEach(() => {
  answer = result("understudy/groups/compare", "groups-compare.valid");
  asked = [];
  remembered = undefined;
});

async function open(group?: string): Promise<void> {
  const page = new ComparePage();
  page.client = {
    request: (method: string, params: object) => {
      asked.push([method, params]);
      return Promise.resolve(method === "understudy/groups/compare" ? structuredClone(answer) : {});
    },
    onNotification: (listener: (notification: PageNotification) => void) => void (notify = listener),
    remembered,
    remember: (state: unknown) => void (remembered = state),
  } as PageClient;
  const target = group === undefined ? {} : { target: { show: "compare", name: group } as const };
  page.start = { page: "compare", places: [], translations: {}, ...target };
  document.body.replaceChildren(page);
  await drawn();
}

async function drawn(): Promise<void> {
  for (let times = 0; times < 5; times += 1) await settled();
}

const all = (selector: string): string[] =>
  [...document.querySelectorAll(selector)].map((one) => one.textContent.replaceAll(/\s+/gu, " ").trim());

async function press(label: string): Promise<void> {
  document.querySelector<HTMLElement>(`[aria-label="${label}"]`)!.click();
  await drawn();
}

describe("the Compare page", () => {
  it("has one column per result, with what decides between them", async () => {
    await open("g");
    expect(all("thead th")).toEqual(["ghostwriter", "quick"]);
    expect(all("tbody th")).toEqual([
      "Verdict",
      "Places tested",
      "Small changes noticed",
      "Checks",
      "Lines",
      "Files",
      "Cost",
      "Time",
      "Review",
    ]);
    expect(remembered).toEqual({ group: "g" });
    await open();
    expect(asked.at(-1)).toEqual(["understudy/groups/compare", { id: "g" }]);
  });

  it("shows equal changes once, different ones side by side, and what conflicts", async () => {
    await open("g");
    expect(all("h3")).toEqual(["Line 3 all agree", "After line 9 2 variants"]);
    expect(all(".variant strong")).toEqual(["ghostwriter, quick", "ghostwriter", "quick"]);
    expect(all(".variant .problem")).toEqual(["Conflicts with what you accepted from ghostwriter."]);
    expect(all(".removed")).toEqual(["- return text"]);
    expect(document.querySelector<HTMLElement>(".code")!.getAttribute("aria-label")).toBe("1 lines removed, 1 added");
    document.querySelector<HTMLInputElement>("header input")!.click();
    await drawn();
    expect(all("h3")).toEqual([]);
  });

  it("accepts a change in every result that has it, and opens the native review", async () => {
    await open("g");
    const [one, other] = answer.results.map(({ delegation }) => delegation.id);
    await press("Accept the change of ghostwriter, quick");
    const path = "greeting/wrapping.py";
    expect(asked.filter(([method]) => method === "page/decide")).toEqual([
      ["page/decide", { id: one, decisions: [{ path, hunk: "0a1b2c3d4e5f", decision: "accept" }] }],
      ["page/decide", { id: other, decisions: [{ path, hunk: "1a2b3c4d5e6f", decision: "accept" }] }],
    ]);
    expect(asked.at(-1)?.[0]).toBe("understudy/groups/compare");
    await press("Open this change of quick in the review");
    expect(asked.at(-1)).toEqual(["page/review", { id: other, path, hunk: "3a4b5c6d7e8f" }]);
    expect(document.querySelector('[aria-label="Accept the change of ghostwriter"]')).toBeNull();
  });

  it("shows text of agents as text, and reads again when delegations change", async () => {
    answer.files[0]!.places[0]!.variants[0]!.added = ["<img src=x>\u202e"];
    await open("g");
    expect(document.querySelector("img")).toBeNull();
    expect(all(".added")[0]).toBe("+ <img src=x>\ufffd");
    asked = [];
    notify({ method: "understudy/changed", params: { collections: ["delegations"] } });
    notify({ method: "understudy/changed", params: { collections: ["delegations"] } });
    await new Promise((resolve) => setTimeout(resolve, 400));
    expect(asked).toHaveLength(1);
  });
});
