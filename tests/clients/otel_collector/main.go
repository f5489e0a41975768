// otelcol-file ADDRESS FILE: the OTLP receiver and the file exporter of the OpenTelemetry Collector, of its official modules, joined:
// OTLP over HTTP in, a file of JSON lines out. The Collector's service, which reads a configuration and joins them otherwise, takes
// as long again to build. Used by tests/clients/test_otel_collector.py.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	metrics "go.opentelemetry.io/otel/metric/noop"
	traces "go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"
)

type host struct{}

func (host) GetExtensions() map[component.ID]component.Component { return nil }

func configured(factory component.Factory, settings map[string]any) (component.Config, error) {
	config := factory.CreateDefaultConfig()
	return config, confmap.NewFromStringMap(settings).Unmarshal(config)
}

func open(ctx context.Context, address, path string) (components []component.Component, err error) {
	out, in := fileexporter.NewFactory(), otlpreceiver.NewFactory()
	telemetry := component.TelemetrySettings{
		Logger: zap.Must(zap.NewProduction()), TracerProvider: traces.NewTracerProvider(), MeterProvider: metrics.NewMeterProvider(),
		Resource: pcommon.NewResource(),
	}
	info := component.NewDefaultBuildInfo()
	exporting := exporter.Settings{ID: component.NewID(out.Type()), TelemetrySettings: telemetry, BuildInfo: info}
	receiving := receiver.Settings{ID: component.NewID(in.Type()), TelemetrySettings: telemetry, BuildInfo: info}
	to, err := configured(out, map[string]any{"path": path, "flush_interval": "50ms"})
	if err != nil {
		return nil, err
	}
	from, err := configured(in, map[string]any{"protocols": map[string]any{"http": map[string]any{"endpoint": address}}})
	if err != nil {
		return nil, err
	}
	sentSpans, err1 := out.CreateTraces(ctx, exporting, to)
	sentMetrics, err2 := out.CreateMetrics(ctx, exporting, to)
	sentLogs, err3 := out.CreateLogs(ctx, exporting, to)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	spans, err1 := in.CreateTraces(ctx, receiving, from, sentSpans)
	points, err2 := in.CreateMetrics(ctx, receiving, from, sentMetrics)
	logs, err3 := in.CreateLogs(ctx, receiving, from, sentLogs)
	return []component.Component{sentSpans, sentMetrics, sentLogs, spans, points, logs}, errors.Join(err1, err2, err3)
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: otelcol-file ADDRESS FILE")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	components, err := open(ctx, os.Args[1], os.Args[2])
	for _, each := range components {
		if err == nil {
			err = each.Start(ctx, host{})
		}
	}
	if err != nil {
		log.Fatal(err)
	}
	<-ctx.Done()
	for n := len(components) - 1; n >= 0; n-- { // receivers first
		if err := components[n].Shutdown(context.Background()); err != nil {
			log.Print(err)
		}
	}
}
