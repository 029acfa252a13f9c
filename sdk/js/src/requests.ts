// Recorders of requests by what served them, shared by the frameworks.

import { type Exporter } from "./exporter.js";
import { type Recorder } from "./recorder.js";

const METHODS = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);

/** Counts requests into NAME{route,method,code}: code is the class, and what a client can invent is "other". */
export class Requests {
  readonly #exporter: Exporter;
  readonly #name: string;
  readonly #recorders = new Map<string, Recorder>();

  constructor(exporter: Exporter, name: string) {
    this.#exporter = exporter;
    this.#name = name;
  }

  record(route: string | undefined, method: string, status: number, milliseconds: number): void {
    const labels = { route: route ?? "other", method: METHODS.has(method) ? method : "other", code: `${Math.floor(status / 100)}xx` };
    const key = JSON.stringify(labels);
    let recorder = this.#recorders.get(key);
    if (recorder === undefined) this.#recorders.set(key, (recorder = this.#exporter.recorder(this.#name, labels)));
    recorder.recordMilliseconds(milliseconds);
  }
}
