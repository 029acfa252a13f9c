// Delivers N observations through the OpenTelemetry SDK, as its arguments say: Otel.java PROTOCOL ADDRESS TEMPORALITY N [twice] [pause]
//
// A counter, an up-down counter, a gauge, a histogram with explicit bounds and one with exponential bins are counted N times in
// four exports, and N log records are written. With `twice` each export is sent a second time, as a sender does that did not hear
// the answer. With `pause` it says "half" after two exports and reads a line before it goes on.

import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.api.logs.Logger;
import io.opentelemetry.api.logs.Severity;
import io.opentelemetry.api.metrics.DoubleGauge;
import io.opentelemetry.api.metrics.DoubleHistogram;
import io.opentelemetry.api.metrics.LongCounter;
import io.opentelemetry.api.metrics.LongUpDownCounter;
import io.opentelemetry.api.metrics.Meter;
import io.opentelemetry.exporter.otlp.http.logs.OtlpHttpLogRecordExporter;
import io.opentelemetry.exporter.otlp.http.metrics.OtlpHttpMetricExporter;
import io.opentelemetry.exporter.otlp.logs.OtlpGrpcLogRecordExporter;
import io.opentelemetry.exporter.otlp.metrics.OtlpGrpcMetricExporter;
import io.opentelemetry.sdk.common.CompletableResultCode;
import io.opentelemetry.sdk.common.export.RetryPolicy;
import io.opentelemetry.sdk.logs.SdkLoggerProvider;
import io.opentelemetry.sdk.logs.export.BatchLogRecordProcessor;
import io.opentelemetry.sdk.logs.export.LogRecordExporter;
import io.opentelemetry.sdk.metrics.Aggregation;
import io.opentelemetry.sdk.metrics.InstrumentSelector;
import io.opentelemetry.sdk.metrics.InstrumentType;
import io.opentelemetry.sdk.metrics.SdkMeterProvider;
import io.opentelemetry.sdk.metrics.View;
import io.opentelemetry.sdk.metrics.data.AggregationTemporality;
import io.opentelemetry.sdk.metrics.data.MetricData;
import io.opentelemetry.sdk.metrics.export.AggregationTemporalitySelector;
import io.opentelemetry.sdk.metrics.export.MetricExporter;
import io.opentelemetry.sdk.metrics.export.PeriodicMetricReader;
import io.opentelemetry.sdk.resources.Resource;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.TimeUnit;

public class Otel {
    static final int EXPORTS = 4;

    // Fails loudly, and sends twice when asked to.
    record Exporter(MetricExporter exporter, int times) implements MetricExporter {
        @Override
        public CompletableResultCode export(Collection<MetricData> metrics) {
            for (int time = 0; time < times; time++) {
                if (!exporter.export(metrics).join(60, TimeUnit.SECONDS).isSuccess()) {
                    System.err.println("an export failed");
                    Runtime.getRuntime().halt(1);
                }
            }
            return CompletableResultCode.ofSuccess();
        }

        @Override
        public CompletableResultCode flush() {
            return exporter.flush();
        }

        @Override
        public CompletableResultCode shutdown() {
            return exporter.shutdown();
        }

        @Override
        public AggregationTemporality getAggregationTemporality(InstrumentType type) {
            return exporter.getAggregationTemporality(type);
        }
    }

    public static void main(String[] arguments) throws Exception {
        String protocol = arguments[0], address = "http://" + arguments[1], temporality = arguments[2];
        int n = Integer.parseInt(arguments[3]);
        List<String> options = Arrays.asList(arguments).subList(4, arguments.length);
        boolean isHttp = protocol.equals("http"), pauses = options.contains("pause");
        AggregationTemporality kind = temporality.equals("delta") ? AggregationTemporality.DELTA : AggregationTemporality.CUMULATIVE;
        AggregationTemporalitySelector wanted = type -> kind;
        // As long as a killed server may need to come back on a busy machine.
        RetryPolicy again = RetryPolicy.builder().setMaxAttempts(5).setInitialBackoff(Duration.ofSeconds(4)).setMaxBackoff(Duration.ofSeconds(10)).build();
        Duration patience = Duration.ofSeconds(50);
        MetricExporter metrics = isHttp
            ? OtlpHttpMetricExporter.builder().setEndpoint(address + "/v1/metrics").setCompression("gzip").setTimeout(patience)
                .setRetryPolicy(again).setAggregationTemporalitySelector(wanted).build()
            : OtlpGrpcMetricExporter.builder().setEndpoint(address).setCompression("gzip").setTimeout(patience)
                .setRetryPolicy(again).setAggregationTemporalitySelector(wanted).build();
        LogRecordExporter records = isHttp
            ? OtlpHttpLogRecordExporter.builder().setEndpoint(address + "/v1/logs").build()
            : OtlpGrpcLogRecordExporter.builder().setEndpoint(address).build();
        Resource resource = Resource.create(Attributes.of(AttributeKey.stringKey("service.name"), "java-" + protocol,
            AttributeKey.stringKey("service.instance.id"), temporality));
        Exporter exporter = new Exporter(metrics, options.contains("twice") ? 2 : 1);
        SdkMeterProvider provider = SdkMeterProvider.builder().setResource(resource)
            .registerMetricReader(PeriodicMetricReader.builder(exporter).setInterval(Duration.ofHours(1)).build())
            .registerView(InstrumentSelector.builder().setName("fine").build(),
                View.builder().setAggregation(Aggregation.base2ExponentialBucketHistogram()).build())
            .build();
        SdkLoggerProvider logs = SdkLoggerProvider.builder().setResource(resource)
            .addLogRecordProcessor(BatchLogRecordProcessor.builder(records).build()).build();
        observe(provider, n, pauses);
        if (!pauses) {
            write(logs.get("test"), n);
        }
        // Sends the last points once more when they are cumulative, as the SDK does.
        provider.shutdown().join(60, TimeUnit.SECONDS);
        logs.shutdown().join(60, TimeUnit.SECONDS);
        System.out.println("done");
        System.exit(0);
    }

    static void observe(SdkMeterProvider provider, int n, boolean pauses) throws Exception {
        Meter meter = provider.get("test");
        LongCounter counter = meter.counterBuilder("client.requests").setUnit("{request}").build();
        LongUpDownCounter level = meter.upDownCounterBuilder("client.level").setUnit("By").build();
        DoubleGauge gauge = meter.gaugeBuilder("client.temperature").setUnit("Cel").build();
        DoubleHistogram coarse = meter.histogramBuilder("coarse").setUnit("s")
            .setExplicitBucketBoundariesAdvice(List.of(0.001, 0.01, 0.1, 1.0)).build();
        DoubleHistogram fine = meter.histogramBuilder("fine").setUnit("s").build();
        for (int export = 0; export < EXPORTS; export++) {
            for (int at = export; at < n; at += EXPORTS) {
                Attributes attributes = Attributes.of(AttributeKey.stringKey("http.route"), "/" + at % 3);
                counter.add(1, attributes);
                level.add(at % 2 == 0 ? 2 : -1, attributes);
                coarse.record(at * 0.001, attributes);
                fine.record(at * 0.001, attributes);
            }
            gauge.set(20.5 + export);
            provider.forceFlush().join(60, TimeUnit.SECONDS);
            if (pauses && export == 1) {
                System.out.println("half");
                System.in.read();
            }
        }
    }

    static void write(Logger logger, int n) {
        for (int at = 0; at < n; at++) {
            logger.logRecordBuilder().setSeverity(Severity.WARN).setBody("record " + at)
                .setAttribute(AttributeKey.longKey("at"), (long) at).emit();
        }
    }
}
