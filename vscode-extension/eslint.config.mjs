import tseslint from "typescript-eslint";

const VSCODE = { name: "vscode", message: "Only src/host/vscode/ speaks to the editor; use the Host interface." };
const CLIENT = {
  group: ["vscode-languageclient", "vscode-languageclient/*"],
  message: "Only src/sidecar/languageClient.ts speaks this; use the Wire interface.",
};

export default tseslint.config(
  { ignores: ["dist/", "node_modules/", "wheels/", "e2e/"] },
  ...tseslint.configs.strictTypeChecked,
  ...tseslint.configs.stylisticTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      "no-restricted-imports": ["error", { paths: [VSCODE], patterns: [CLIENT] }],
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true }],
      "@typescript-eslint/no-empty-function": "off", // an empty function can be intended
      "no-console": "error",
      eqeqeq: "error",
    },
  },
  { files: ["src/host/vscode/**"], rules: { "no-restricted-imports": ["error", { patterns: [CLIENT] }] } },
  { files: ["src/sidecar/languageClient.ts"], rules: { "no-restricted-imports": ["error", { paths: [VSCODE] }] } },
  { files: ["tests/**"], rules: { "@typescript-eslint/no-non-null-assertion": "off" } }, // a wrong assertion fails the test
  { files: ["**/*.mjs"], ...tseslint.configs.disableTypeChecked },
  { files: ["**/*.mjs"], rules: { ...tseslint.configs.disableTypeChecked.rules, "no-console": "off" } },
);
