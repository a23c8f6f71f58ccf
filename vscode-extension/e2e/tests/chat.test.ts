/** The chat of the editor without any other service: the models of delegators, and `@understudy`. */
import { until } from "../driver/environment.ts";
import { inCode } from "../driver/test.ts";

describe("the chat", () => {
  it(
    "says what it lacks; with a delegator on a model server, that is its model, and the participant answers",
    inCode({ file: "shop/prices.py", settings: { "chat.disableAIFeatures": false } }, async (vs) => {
      await vs.openContainer();
      await vs.waitForRow("Delegators", "ghostwriter");
      await vs.command("Understudy: Delegate in Chat…");
      await vs.notification("needs a language model").waitFor();
      await vs.shot("1 lacks");
      await vs.clearNotifications();
      const address = await vs.world.modelServer();
      vs.world.understudy("servers", "add", "scripted", "--kind", "custom", "--url", address);
      vs.world.understudy("delegators", "add", "cheap", "--server", "scripted", "--model", "good");
      await vs.waitForRow("Delegators", "cheap");
      await vs.command("Understudy: Delegate in Chat…");
      const chat = vs.page.locator(".interactive-session").first();
      await chat.locator(".interactive-input-editor").first().waitFor();
      await vs.shot("2 chat");
      await chat.getByText("cheap").first().waitFor();
      await vs.page.keyboard.type("/explain");
      await vs.page.keyboard.press("Escape");
      await vs.page.keyboard.press("Enter");
      await until(async () => /cheap · good/.test(await chat.innerText()), "the participant answers");
      await vs.shot("3 answered");
    }),
  );
});
