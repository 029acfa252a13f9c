import { readFileSync } from "node:fs";
import { defineConfig, type Plugin } from "vite";

/** Where `npm run dev` finds a running `ogive serve`. */
const server = process.env["OGIVE_URL"] ?? "http://127.0.0.1:6448";

/** What the pages have in common: `<!-- part NAME -->` becomes `parts/NAME.html`. */
const parts: Plugin = {
  name: "parts",
  transformIndexHtml: {
    order: "pre",
    handler: (html) =>
      html.replace(/<!-- part (\w+) -->/g, (_, name: string) => readFileSync(new URL(`parts/${name}.html`, import.meta.url), "utf8").trim()),
  },
};

export default defineConfig({
  // Relative asset addresses, so that the page also works behind a proxy under a path.
  base: "./",
  plugins: [parts],
  build: {
    target: "es2022",
    outDir: "dist",
    emptyOutDir: true,
    sourcemap: false,
    reportCompressedSize: true,
    // A server's page, those of its lines, of its alerts and of services on the wire, of stacks, and that of a broker.
    rolldownOptions: { input: ["index.html", "logs.html", "alerts.html", "services.html", "broker.html", "board.html", "operate.html", "flame.html"] },
  },
  server: { host: "127.0.0.1", proxy: { "/api": server, "/v1": server } },
});
