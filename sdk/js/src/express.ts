// Measures each request of an Express application, or of anything with its middleware.

import { type Exporter } from "./exporter.js";
import { type Recorder } from "./recorder.js";

interface Request {
  method: string;
  baseUrl?: string;
  route?: { path?: unknown };
}

interface Response {
  statusCode: number;
  on(event: "finish" | "close", listener: () => void): unknown;
}

const METHODS = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);

/**
 * Middleware that measures each request into NAME{route,method,code}, in seconds, until its answer is written or its client
 * is gone. The route is the pattern that served it, so that paths with identifiers do not make a series each; code is the
 * class: 2xx, 4xx.
 */
export function middleware(exporter: Exporter, name: string): (request: Request, response: Response, next: () => void) => void {
  const recorders = new Map<string, Recorder>();
  return (request, response, next) => {
    const start = performance.now();
    let done = false;
    const end = (): void => {
      if (done) return;
      done = true;
      const path = request.route?.path;
      const route = typeof path === "string" ? `${request.baseUrl ?? ""}${path}` : "other";
      const method = METHODS.has(request.method) ? request.method : "other";
      const code = `${Math.floor(response.statusCode / 100)}xx`;
      const key = JSON.stringify([route, method, code]);
      let recorder = recorders.get(key);
      if (recorder === undefined) recorders.set(key, (recorder = exporter.recorder(name, { route, method, code })));
      recorder.recordMilliseconds(performance.now() - start);
    };
    response.on("finish", end);
    response.on("close", end);
    next();
  };
}
