import { defineConfig } from "vite";

/** Where `npm run dev` finds a running `ogive serve`. */
const server = process.env["OGIVE_URL"] ?? "http://127.0.0.1:6448";

export default defineConfig({
  // Relative asset addresses, so that the page also works behind a proxy under a path.
  base: "./",
  build: {
    target: "es2022",
    outDir: "dist",
    emptyOutDir: true,
    sourcemap: false,
    reportCompressedSize: true,
    // A server's page, and that of a broker.
    rolldownOptions: { input: ["index.html", "broker.html"] },
  },
  server: { host: "127.0.0.1", proxy: { "/api": server, "/v1": server } },
});
