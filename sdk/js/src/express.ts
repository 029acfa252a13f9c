// Measures each request of an Express application, or of anything with its middleware.

import { type Exporter } from "./exporter.js";
import { Requests } from "./requests.js";

interface Request {
  method: string;
  baseUrl?: string;
  route?: { path?: unknown };
}

interface Response {
  statusCode: number;
  on(event: "finish" | "close", listener: () => void): unknown;
}

/**
 * Middleware that measures each request into NAME{route,method,code}, in seconds, until its answer is written or its client
 * is gone. The route is the pattern that served it, so that paths with identifiers do not make a series each; code is the
 * class: 2xx, 4xx.
 */
export function middleware(exporter: Exporter, name: string): (request: Request, response: Response, next: () => void) => void {
  const requests = new Requests(exporter, name);
  return (request, response, next) => {
    const start = performance.now();
    let done = false;
    const end = (): void => {
      if (done) return;
      done = true;
      const path = request.route?.path;
      const route = typeof path === "string" ? `${request.baseUrl ?? ""}${path}` : undefined;
      requests.record(route, request.method, response.statusCode, performance.now() - start);
    };
    response.on("finish", end);
    response.on("close", end);
    next();
  };
}
