// A real server for tests; OGIVE_BIN names the binary.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const freePort = () =>
  new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });

export class Server {
  static async start() {
    const server = new Server();
    server.data = mkdtempSync(join(tmpdir(), "ogive-js-"));
    server.url = `http://127.0.0.1:${await freePort()}`;
    await server.run();
    return server;
  }

  async run() {
    this.process = spawn(process.env.OGIVE_BIN, ["serve", "--data", this.data, "--listen", this.url.slice(7)], { stdio: "ignore" });
    for (;;) {
      const answer = await fetch(`${this.url}/-/ready`).catch(() => null);
      if (answer?.ok) return;
      await sleep(20);
    }
  }

  async kill() {
    const gone = new Promise((resolve) => this.process.once("exit", resolve));
    this.process.kill("SIGKILL");
    await gone;
  }

  async stop() {
    await this.kill();
    rmSync(this.data, { recursive: true, force: true });
  }

  /** The one number that an expression gives. The last cell ends after its shutdown, at the end of its interval. */
  async query(expression, aheadSeconds = 2) {
    const time = Math.ceil(Date.now() / 1000) + aheadSeconds;
    const answer = await fetch(`${this.url}/api/v1/query?time=${time}&query=${encodeURIComponent(expression)}`);
    const { data } = await answer.json();
    return data.result.length === 1 ? Number(data.result[0].value[1]) : data.result;
  }
}

export { sleep };
