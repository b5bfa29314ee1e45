import js from "@eslint/js";
import svelte from "eslint-plugin-svelte";
import globals from "globals";
import ts from "typescript-eslint";
import config from "./svelte.config.js";

export default ts.config(
  { ignores: ["node_modules"] },
  js.configs.recommended,
  ...ts.configs.strict,
  ...svelte.configs.recommended,
  { languageOptions: { globals: { ...globals.browser } } },
  { files: ["scripts/*.js"], languageOptions: { globals: globals.node } },
  {
    files: ["**/*.svelte", "**/*.svelte.ts"],
    languageOptions: { parserOptions: { parser: ts.parser, svelteConfig: config } },
  },
  {
    rules: {
      // Texts of others must stay texts.
      "svelte/no-at-html-tags": "error",
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-misleading-character-class": ["error", { allowEscape: true }],
      // Maps and sets are replaced as a whole here, or show nothing.
      "svelte/prefer-svelte-reactivity": "off",
    },
  },
);
