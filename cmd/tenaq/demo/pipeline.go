package demo

import (
	"context"
	"os"
	"os/exec"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/internal/child"
	"tenaq/internal/cli"
	"tenaq/internal/demo/pipeline"
)

var pipelineScenario = scenario{
	name: "pipeline",
	text: "files that are downloaded once, while producers, workers and tasks die at the worst moments",
	run:  runPipeline,
	breaks: []breakage{
		{name: "claim", text: "workers do not claim the files"},
	},
	child: pipelineChild,
}

// runPipeline makes the queues and has the story told.
func runPipeline(ctx context.Context, env *demoEnv) ([]demoRow, error) {
	s, err := env.openSQS(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	cfg := pipeline.Config{
		Seed: env.seed, Dir: env.dir, Client: s.api, CreateQueue: s.createQueue,
		Unclaimed: env.broken == "claim",
		Part: func(args ...string) (*exec.Cmd, error) {
			cmd, err := s.childCommand("pipeline")
			if err == nil {
				cmd.Args = append(cmd.Args, args...)
			}
			return cmd, err
		},
		Say: env.progress.Say,
		Line: func(part, whole int, format string, args ...any) {
			env.progress.Line("%s %d of %d files, "+format, slices.Concat([]any{cli.Bar(part, whole), part, whole}, args)...)
		},
	}
	if s.server != nil {
		cfg.Restart = s.restartScaled
	}
	found, err := pipeline.Run(ctx, cfg)
	rows := make([]demoRow, len(found))
	for i, r := range found {
		rows[i] = demoRow(r)
	}
	return append(rows, s.alarmRow(ctx)), err
}

// restartScaled starts the server again, at another address, with time in its queues passing faster.
func (s *demoSQS) restartScaled(ctx context.Context, scale string) (*sqs.Client, error) {
	if err := s.server.Stop(); err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	server, err := child.New(child.Config{
		Program: program, Dir: s.env.dir, Args: []string{"--log-level", "warn", "--time-scale", scale, "--alarm-minute", demoMinute.String()},
	})
	if err != nil {
		return nil, err
	}
	s.server = server
	if _, err := server.Start(ctx); err != nil {
		return nil, err
	}
	s.endpoint = server.URL()
	s.api = newDemoClient(s.aws, s.endpoint)
	return s.api, nil
}

// pipelineChild is a producer, a worker or a task.
func pipelineChild(ctx context.Context, a *cli.App, args []string) error {
	if len(args) < 5 {
		return cli.Usagef("a child of the pipeline is also told what it is and where its settings are")
	}
	sqsArgs, part, path := args[:3], args[3], args[4]
	settings, err := pipeline.ReadSettings(path)
	if err != nil {
		return err
	}
	if part == pipeline.PartTask {
		if code, err := settings.Do(ctx, a.Stdin); err != nil {
			return &cli.CodedError{Code: code, Err: err}
		}
		return nil
	}
	api, err := childClient(ctx, sqsArgs)
	if err != nil {
		return err
	}
	switch part {
	case pipeline.PartProducer:
		if len(args) != 6 {
			return cli.Usagef("a producer is told which file to register")
		}
		return settings.Produce(ctx, args[5])
	case pipeline.PartWorker:
		program, err := os.Executable()
		if err != nil {
			return err
		}
		task := slices.Concat([]string{program, "demo", "child", "pipeline"}, sqsArgs, []string{pipeline.PartTask, path})
		return settings.Work(ctx, api, task, a.Stdin, a.Stderr)
	}
	return cli.Usagef("the pipeline has no part %q", part)
}
