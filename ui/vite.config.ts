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

/** A page that begins with it is painted before its program runs. */
const START = "src/start.ts";

/**
 * A page that begins with `START` has its style sheet inside: nothing is fetched before it is painted. It names no modules to load
 * ahead: their requests delay the first paint, and the picture is there no sooner.
 */
const styleInside: Plugin = {
  name: "style-inside",
  transformIndexHtml: {
    order: "post",
    handler: (html, { bundle, chunk }) => {
      if (bundle === undefined || !(chunk?.moduleIds.some((id) => id.endsWith(START)) ?? false)) return html;
      return html.replace(/<link rel="stylesheet"[^>]* href="\.\/([^"]+)">/, (link, name: string) => {
        const sheet = bundle[name];
        return sheet?.type === "asset" ? `<style data-href="./${name}">${String(sheet.source).trim()}</style>` : link;
      });
    },
  },
};

export default defineConfig({
  // Relative asset addresses, so that the page also works behind a proxy under a path.
  base: "./",
  plugins: [parts, styleInside],
  build: {
    target: "es2022",
    outDir: "dist",
    emptyOutDir: true,
    sourcemap: false,
    reportCompressedSize: true,
    // Every browser that runs ES2022 knows it.
    modulePreload: { polyfill: false },
    // A server's page, those of its lines, of its alerts and of services on the wire, of stacks, that of a broker and that of a fleet.
    rolldownOptions: {
      input: ["index.html", "logs.html", "alerts.html", "services.html", "broker.html", "board.html", "operate.html", "flame.html", "fleet.html"],
      // What half of the pages need is one file: each request more delays the first picture.
      output: { codeSplitting: { groups: [{ name: "shared", test: /ui\/src\//, minShareCount: 4 }] } },
    },
  },
  server: { host: "127.0.0.1", proxy: { "/api": server, "/v1": server } },
});
