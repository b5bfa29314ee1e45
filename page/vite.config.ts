import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

// Where a laptop deployment answers, for `npm run dev` only.
const deployment = process.env["INTERLOCK_URL"] ?? "http://127.0.0.1:8000";

export default defineConfig({
  // Relative, because a deployment serves the page below a stage.
  base: "./",
  plugins: [svelte()],
  build: {
    outDir: "../functions/inbox/static",
    emptyOutDir: true,
    target: "es2022",
    // Inlined assets would be `data:` URLs, and the polyfill an inline script: the page's policy has neither.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: { proxy: { "/people": deployment, "/inbox/config.json": deployment } },
  test: { include: ["src/**/*.test.ts"] },
});
