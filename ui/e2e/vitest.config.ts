import { defineConfig } from "vitest/config";

// One real server and one real browser: files run one after the other. A machine that is busy with other work can starve
// the browser past its own 30 s; a test is then run once more, and the report says so.
export default defineConfig({
  test: {
    include: ["e2e/**/*.e2e.ts"],
    environment: "node",
    testTimeout: 60_000,
    hookTimeout: 60_000,
    fileParallelism: false,
    retry: 1,
  },
});
