import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

// The built files are committed: `npm ci && npm run build` makes the very same ones again.
export default defineConfig({
  base: "./",  // the server replaces this by the path under which it serves the page
  oxc: { jsx: { runtime: "automatic", importSource: "shown", development: false } },
  resolve: { alias: { "shown/jsx-runtime": fileURLToPath(new URL("src/shown/jsx-runtime.ts", import.meta.url)) } },
  build: {
    outDir: "../src/ropewalk/doors/web/static",
    emptyOutDir: true,
    sourcemap: false,
    modulePreload: false,
    assetsInlineLimit: 0,
    target: "es2022",
  },
  worker: { format: "es" },
});
