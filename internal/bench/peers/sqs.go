package peers

import (
	"context"
	"net/url"
	"os"
	"path/filepath"

	"tenaq/internal/bench"
)

// ours is tenaq, or the server that does nothing.
type ours struct {
	*place
	endpoint bench.Endpoint
	nothing  bool
}

func startTenaq(ctx context.Context, at *place) (server, error) {
	endpoint, err := at.own.Start(ctx)
	return &ours{at, endpoint, false}, err
}

// startNothing leaves the start to contender, because the answers depend on the workload.
func startNothing(_ context.Context, at *place) (server, error) {
	return &ours{place: at, nothing: true}, nil
}

func (o *ours) contender(ctx context.Context, w bench.Work) (bench.Contender, error) {
	if o.nothing {
		w.Endpoint = bench.Endpoint{Region: "us-east-1"}
		var err error
		if w.Endpoint.URL, err = url.Parse(o.own.Server.URL()); err != nil {
			return nil, err
		}
		return o.own.Baseline(ctx, w)
	}
	w.Endpoint = o.endpoint
	return bench.New(w)
}

func (o *ours) pid() int {
	if o.nothing {
		return o.own.BaselinePID()
	}
	return o.own.Server.PID()
}

func (o *ours) close() {} // the comparison does so

// An emulator is a peer that speaks SQS.
type emulator struct {
	*process
	endpoint bench.Endpoint
}

func (e *emulator) contender(_ context.Context, w bench.Work) (bench.Contender, error) {
	w.Endpoint = e.endpoint
	return bench.New(w)
}

// startEmulator starts a command that serves SQS on the port of its place.
func startEmulator(
	ctx context.Context, at *place, env []string, command ...string,
) (server, error) {
	p, err := start(at, env, command...)
	if err != nil {
		return nil, err
	}
	e := &emulator{p, bench.Endpoint{Region: "us-east-1",
		URL: &url.URL{Scheme: "http", Host: "127.0.0.1:" + at.port, Path: "/"}}}
	return e, p.ready(ctx, func(ctx context.Context) error {
		_, err := bench.Call(ctx, e.endpoint, "ListQueues", "{}")
		return err
	})
}

func startElasticMQ(ctx context.Context, at *place) (server, error) {
	java, err := program("java")
	if err != nil {
		return nil, err
	}
	jars, err := fetched("elasticmq", "lib")
	if err != nil {
		return nil, err
	}
	return startEmulator(ctx, at, nil, java, "-Xmx4g", "-cp", filepath.Join(jars, "*"),
		"-Drest-sqs.bind-hostname=127.0.0.1", "-Drest-sqs.bind-port="+at.port,
		"-Dnode-address.host=127.0.0.1", "-Dnode-address.port="+at.port,
		"-Drest-stats.enabled=false", "org.elasticmq.server.Main")
}

func startFauxqs(ctx context.Context, at *place) (server, error) {
	modules, err := fetched("fauxqs", "node_modules")
	if err != nil {
		return nil, err
	}
	node := filepath.Join(modules, "node", "bin", "node") // newer than that of the machine
	if _, err := os.Stat(node); err != nil {
		return nil, errMissing
	}
	return startEmulator(ctx, at, []string{"FAUXQS_PORT=" + at.port, "FAUXQS_HOST=127.0.0.1",
		"FAUXQS_LOGGER=false"}, node, filepath.Join(modules, "fauxqs", "dist", "cli.js"))
}
