// The `hot-shots` package: HOST PORT COUNT; over UDP in packed datagrams, with an array at the end.
const StatsD = require('hot-shots');

const [host, port, count] = process.argv.slice(2);
const client = new StatsD({ host, port: Number(port), prefix: 'js.', globalTags: { via: 'udp' }, maxBufferSize: 1400 });
for (let at = 0; at < Number(count); at += 1) {
  client.timing('time', (at % 100) + 1);
  client.distribution('size', 2);
  client.increment('n');
}
client.histogram('list', [1, 2]);
client.close((error) => {
  if (error) throw error;
  console.log('sent');
});
