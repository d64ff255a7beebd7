import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { brotliCompressSync, gzipSync } from "node:zlib";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

// In development, the Vite server forwards requests of the API to a running installation.
const API = "http://127.0.0.1:8460";

/** Writes a .br and a .gz file beside each text file, so that the API serves compressed files without work. */
function compressed(): Plugin {
  return {
    name: "compressed",
    apply: "build",
    async writeBundle({ dir }) {
      const folder = join(dir ?? "dist", "assets");
      for (const name of await readdir(folder)) {
        if (!/\.(js|css|svg)$/.test(name)) continue;
        const path = join(folder, name);
        const content = await readFile(path);
        await writeFile(`${path}.br`, brotliCompressSync(content));
        await writeFile(`${path}.gz`, gzipSync(content, { level: 9 }));
      }
    },
  };
}

export default defineConfig({
  base: "/portal/",
  plugins: [react(), compressed()],
  build: {
    target: "es2023",
    // The content security policy permits no data: URLs for scripts and styles.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  server: { proxy: { "/v1": API, "/sign-in": API, "/sign-up": API } },
});
