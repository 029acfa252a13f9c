import { defineConfig } from "vitest/config";

// One real server and one real browser: files run one after the other, and nothing is retried. The limits are long because a
// machine that is busy with other work can starve the browser for half a minute.
export default defineConfig({
  test: {
    include: ["e2e/**/*.e2e.ts"],
    environment: "node",
    testTimeout: 300_000,
    hookTimeout: 180_000,
    // What is polled for has a second by default.
    expect: { poll: { timeout: 60_000 } },
    fileParallelism: false,
    retry: 0,
  },
});
