import { defineConfig } from "vitest/config";

// Figures of the page in a real browser: they print, and assert no time.
export default defineConfig({
  test: {
    include: ["bench/**/*.figures.ts"],
    environment: "node",
    testTimeout: 1_800_000,
    hookTimeout: 1_800_000,
    fileParallelism: false,
    retry: 0,
  },
});
