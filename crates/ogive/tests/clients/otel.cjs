// Delivers N observations through the OpenTelemetry SDK: node otel.cjs FORM ADDRESS TEMPORALITY N [twice]
//
// A counter, a histogram with explicit bounds and one with exponential bins are counted N times in four exports as protobuf or
// JSON, and N log records are written (JSON). With `twice` each export is sent a second time.
const { ExportResultCode } = require('@opentelemetry/core');
const { resourceFromAttributes } = require('@opentelemetry/resources');
const { AggregationTemporality, AggregationType, MeterProvider, PeriodicExportingMetricReader } = require('@opentelemetry/sdk-metrics');
const { LoggerProvider, BatchLogRecordProcessor } = require('@opentelemetry/sdk-logs');
const { OTLPLogExporter } = require('@opentelemetry/exporter-logs-otlp-http');

const [form, address, temporality, count, ...options] = process.argv.slice(2);
const n = Number(count);
const exports_ = 4;
const { OTLPMetricExporter } = require(`@opentelemetry/exporter-metrics-otlp-${form === 'json' ? 'http' : 'proto'}`);

class Exporter extends OTLPMetricExporter {
  export(metrics, done) {
    const failed = (result) => {
      if (result.code !== ExportResultCode.SUCCESS) {
        console.error('an export failed', result.error);
        process.exit(1);
      }
    };
    super.export(metrics, (first) => {
      failed(first);
      if (!options.includes('twice')) return done(first);
      super.export(metrics, (second) => {
        failed(second);
        done(second);
      });
    });
  }
}

async function main() {
  const exporter = new Exporter({
    url: `http://${address}/v1/metrics`,
    timeoutMillis: 60_000,
    compression: form === 'json' ? 'none' : 'gzip',
    temporalityPreference: temporality === 'delta' ? AggregationTemporality.DELTA : AggregationTemporality.CUMULATIVE,
  });
  const resource = resourceFromAttributes({ 'service.name': `js-${form}`, 'service.instance.id': temporality });
  const provider = new MeterProvider({
    resource,
    views: [{ instrumentName: 'fine', aggregation: { type: AggregationType.EXPONENTIAL_HISTOGRAM } }],
    readers: [new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000, exportTimeoutMillis: 60_000 })],
  });
  const meter = provider.getMeter('test');
  const counter = meter.createCounter('client.requests', { unit: '{request}' });
  const coarse = meter.createHistogram('coarse', { unit: 's', advice: { explicitBucketBoundaries: [0.001, 0.01, 0.1, 1] } });
  const fine = meter.createHistogram('fine', { unit: 's' });
  for (let round = 0; round < exports_; round += 1) {
    for (let at = round; at < n; at += exports_) {
      const attributes = { 'http.route': `/${at % 3}` };
      counter.add(1, attributes);
      coarse.record(at * 0.001, attributes);
      fine.record(at * 0.001, attributes);
    }
    await provider.forceFlush();
  }
  const logs = new LoggerProvider({
    resource,
    processors: [new BatchLogRecordProcessor({ exporter: new OTLPLogExporter({ url: `http://${address}/v1/logs`, timeoutMillis: 60_000 }) })],
  });
  const logger = logs.getLogger('test');
  for (let at = 0; at < n; at += 1) logger.emit({ severityNumber: 13, body: `record ${at}`, attributes: { at } });
  await logs.shutdown();
  await provider.shutdown();
  console.log('done');
}

main();
