import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { describe, expect, it } from "vitest";
import type { SidecarState } from "../../src/sidecar/sidecar.ts";
import { SidecarError } from "../../src/sidecar/connection.ts";
import { redact, createReport } from "../../src/health/issueReport.ts";
import { FakeHost } from "../support/fakeHost.ts";
import { GoldenSidecar, result } from "../support/golden.ts";

const unknown = { folders: [], homePath: "/", variables: {} };
const ada = { folders: ["/home/ada/greeting", "/home/ada/greeting/inner"], homePath: "/home/ada", variables: {} };

describe("a report leaves out", () => {
  // One line per rule that no other rule would redact.
  it.each([
    ["a header that is quoted by itself", "sent Bearer xyz.123", "sent Bearer <secret>"],
    ["a bearer of any spelling", "sent bearer   xyz.123, then", "sent Bearer <secret>, then"],
    ["a header", "Authorization: Bearer xyz.123", "Authorization: <secret>"],
    ["a header of another scheme", "authorization: Basic eHl6", "authorization: <secret>"],
    ["a value by its name", '"apiKey": "abc def"', '"apiKey": <secret> def"'],
    ["a value by the end of its name", "access_token=abc&x", "access_token=<secret>"],
    ["a password", "password = hunter2", "password = <secret>"],
    ["a key of a known form", `key sk-${"a".repeat(40)}.`, "key <key>."],
    ["a signed token", "got eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "got <key>"],
    ["a private key", "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----", "<private key>"],
    ["a login in an address", "https://ada:pw@example.com/v1", "https://<login>@example.com/v1"],
    ["a name before an address", "https://t0ken@example.com/v1", "https://<login>@example.com/v1"],
    ["a password with a sign in it", "http://ada:p@ss@localhost/", "http://<login>@localhost/"],
    ["a password without a user", "redis://:pw@localhost/", "redis://<login>@localhost/"],
    ["what an address asks with", "GET /v1?alt=sse&sig=abc (401)", "GET /v1?alt=<value>&sig=<value> (401)"],
    ["a cookie", "Set-Cookie: session=abc; Path=/", "Set-Cookie: <secret>"],
    ["a header of a rare scheme", "Proxy-Authorization: Negotiate abc", "Proxy-Authorization: <secret>"],
    ["a header after which a line is broken", "Authorization: Bearer\n abc", "Authorization: <secret>"],
    ["a variable", "AWS_SECRET_ACCESS_KEY=abc OPENAI_KEY=abc", "AWS_SECRET_ACCESS_KEY=<secret> OPENAI_KEY=<secret>"],
    ["a parameter", '{"name": "router", "key": "abc"}', '{"name": "router", "key": <secret>}'],
    ["an option", "curl --api-key abc --token def", "curl --api-key <secret> --token <secret>"],
    [
      "a name with spaces",
      "api key: abc, private_key=abc, pwd: abc",
      "api key: <secret>, private_key=<secret>, pwd: <secret>",
    ],
    ["a key of another form", `got github_pat_${"a".repeat(20)} and xai-${"b".repeat(20)}`, "got <key> and <key>"],
    ["a private key that was cut", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl+bnN/a2V5\nabc=", "<private key>"],
    ["a mail address", "by ada.l+x@example.com", "by <mail>"],
    ["another user's home folder", "/Users/dev/x and C:\\Users\\dev\\x", "/Users/<user>/x and C:\\Users\\<user>\\x"],
  ])("%s", (_, text, clean) => {
    expect(redact(text, unknown)).toBe(clean);
  });

  it("the values of variables with secret names, wherever they appear", () => {
    const variables = { OPENAI_API_KEY: "abcdef123456", GH_TOKEN: "short", SHELL: "/bin/fish" };
    expect(redact("used abcdef123456 short /bin/fish", { ...unknown, variables })).toBe(
      "used <OPENAI_API_KEY> short /bin/fish",
    );
  });

  it("folders, the home folder and the user", () => {
    expect(redact("/home/ada/greeting/inner/x, /home/ada/greeting/y, /home/ada/z", ada)).toBe(
      "<folder 1>/x, <folder 2>/y, ~/z",
    );
    const variables = { USER: "ada", HOSTNAME: "lovelace.local", LOGNAME: "root" };
    const text = "ada on lovelace.local in /data/ada/x, not adam, not root, not ada-2";
    expect(redact(text, { ...unknown, variables })).toBe(
      "<user> on <hostname> in /data/<user>/x, not adam, not root, not ada-2",
    );
    const spaced = { ...unknown, folders: ["/data/my shop"] };
    expect(redact("file:///data/my%20shop/x and /data/my shop/y", spaced)).toBe("file://<folder 1>/x and <folder 1>/y");
  });
});

describe("redaction", () => {
  it("finds a folder behind a link, as programs write it", () => {
    const top = realpathSync(mkdtempSync(path.join(os.tmpdir(), "understudy-report-")));
    const folders = [path.join(top, "link")];
    mkdirSync(path.join(top, "a client"));
    symlinkSync(path.join(top, "a client"), folders[0]!);
    expect(redact(`${top}/a client/x ${encodeURI(top)}/a%20client/y ${top}/link/z`, { ...unknown, folders })).toBe(
      "<folder 1>/x <folder 1>/y <folder 1>/z",
    );
    rmSync(top, { recursive: true });
  });

  it.each(["a", "A", "a1.", "-", "AAAA_", "token ", "https://a"])("terminates for any output (%s)", (piece) => {
    // An expression with backtracking at every character would take minutes here.
    expect(redact(`${piece.repeat(20_000 / piece.length)}\n`.repeat(100), unknown)).not.toBe("");
  });
});

describe("a report keeps", () => {
  it.each([
    "2026-11-21T00:45:12.345Z [info] /usr/bin/understudy (path): Understudy 0.1.0",
    "the sidecar ended: KeyError: 'name' (exit code 1)",
    "- ok keyring: No keyring of the operating system answers; keys are kept in files that only you can read.",
    "- delegators: 3, not ready: 1, about 4200 tokens: no token was lost; press a key to go on",
    "understudy/modelServers/setKey: The server http://127.0.0.1:11434/v1 does not answer (401).",
    "python3.13 -I -m pip --isolated install --require-hashes -r requirements.txt",
  ])("%s", (text) => {
    expect(redact(text, unknown)).toBe(text);
  });
});

describe("an issue report", () => {
  const host = new FakeHost();
  const parts = {
    environment: { ...host.environment, remoteName: "box.example:8080", homePath: "/home/ada", variables: {} },
    output: host.output,
    store: {
      ...result("understudy/delegators/list", "delegators-list.valid"),
      delegations: result("understudy/delegations/list", "delegations-list.valid").delegations,
    },
    folders: () => ["/home/ada/greeting"],
  };

  it("describes the state without personal data", async () => {
    host.output.info("opened /home/ada/greeting/a.py with Bearer xyz.123");
    const requester = new GoldenSidecar().answer("understudy/doctor", {
      checks: [{ name: "git", ok: false, message: "/home/ada/bin/git is too old" }],
    });
    const state: SidecarState = {
      kind: "mismatch",
      found: { command: "/home/ada/.venv/bin/understudy", origin: "path" },
      upgrade: "sidecar",
      reported: "Understudy 0.0.1, protocol 0",
    };
    const text = await createReport({ ...parts, requester, state: () => state });
    for (const said of [
      "remote: yes",
      "sidecar: mismatch, upgrade the sidecar: Understudy 0.0.1, protocol 0",
      "- NOT OK git: ~/bin/git is too old",
      "opened <folder 1>/a.py with Bearer <secret>",
    ]) {
      expect(text).toContain(said);
    }
    expect(text).not.toMatch(/\/home\/ada|xyz\.123|box\.example/);
  });

  it("works without a sidecar, and contains the last output of one that crashed", async () => {
    const requester = {
      request: () =>
        Promise.reject(new SidecarError({ kind: "connection_failed", message: "Understudy has stopped." })),
    };
    const exit = { code: 8, signal: null, lines: ["Traceback in /home/ada/x.py", "error: the disk is full"] };
    const state: SidecarState = { kind: "failed", cause: "the disk is full", exit };
    const text = await createReport({ ...parts, requester, state: () => state });
    expect(text).toContain("sidecar: failed: the disk is full\n    Traceback in ~/x.py\n");
    expect(text).toContain("- not asked: Understudy has stopped.");
  });
});
