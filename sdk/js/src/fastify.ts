// Measures each request of a Fastify application.

import { type Exporter } from "./exporter.js";
import { Requests } from "./requests.js";

interface Request {
  method: string;
  routeOptions?: { url?: string };
  raw: object;
}

interface Reply {
  raw: { statusCode: number; once(event: "close", listener: () => void): unknown };
}

interface Application {
  addHook(name: "onRequest", hook: (request: Request, reply: Reply, done: () => void) => void): unknown;
}

/**
 * A plugin that measures each request into NAME{route,method,code}, in seconds, until its answer is written or its client is gone:
 * `await app.register(fastifyPlugin(exporter, "http_seconds"))` before the routes. The route is the pattern that served it.
 */
export function fastifyPlugin(exporter: Exporter, name: string): (app: Application) => Promise<void> {
  const requests = new Requests(exporter, name);
  const plugin = async (app: Application): Promise<void> => {
    app.addHook("onRequest", (request, reply, done) => {
      const start = performance.now();
      reply.raw.once("close", () =>
        requests.record(request.routeOptions?.url, request.method, reply.raw.statusCode, performance.now() - start));
      done();
    });
  };
  // As fastify-plugin does: the hook is for the whole application, not for this plugin's own routes.
  return Object.assign(plugin, { [Symbol.for("skip-override")]: true });
}
