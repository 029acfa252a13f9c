// The `@fluent-org/logger` package: HOST PORT COUNT [KEY]; events in each mode, until all are acknowledged, after the handshake
// where there is a key.
const { FluentClient } = require('@fluent-org/logger');

const [host, port, count, key] = process.argv.slice(2);

async function send(mode) {
  const client = new FluentClient('js', {
    eventMode: mode,
    ack: { ackTimeout: 60_000 },
    milliseconds: true,
    flushInterval: mode === 'Message' ? 0 : 20,
    socket: { host, port: Number(port), timeout: 60_000 },
    security: key ? { clientHostname: 'edge-1', sharedKey: key } : undefined,
  });
  const event = (at) => ({ log: `line ${at}`, level: 'warn', hostname: 'edge-1', at, tags: ['a', null, 2.5, -7] });
  await Promise.all(Array.from({ length: Number(count) }, (_, at) => client.emit(mode, event(at))));
  await client.disconnect();
  console.log(mode);
}

(async () => {
  for (const mode of ['Message', 'Forward', 'PackedForward', 'CompressedPackedForward']) await send(mode);
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
