package stage

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/internal/cli"
)

// A Child is what another process of a scenario is told: in the first line of its standard input,
// or in an argument if its standard input is needed for something else.
type Child struct {
	Name     string          `json:"name"`
	Role     string          `json:"role"`
	Scenario string          `json:"scenario"`
	Stage    string          `json:"stage"`    // URL to report to
	Endpoint string          `json:"endpoint"` // of the SQS; empty for Amazon's
	Region   string          `json:"region"`
	Ours     bool            `json:"ours"` // the server is the demo's own and checks no credentials
	Dir      string          `json:"dir"`
	Broken   string          `json:"broken"`
	Task     json.RawMessage `json:"task"` // what the scenario adds

	// In is what follows on standard input.
	In io.Reader `json:"-"`
}

// Command is the command that runs c as another process, with c as its last argument.
func (c *Child) Command() ([]string, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	told, err := json.Marshal(c)
	return []string{program, "demo", "child", string(told)}, err
}

// RunChild is the main function of a child. Args is empty, or what Command made.
func RunChild(ctx context.Context, scenarios []Scenario, args []string, stdin io.Reader) error {
	c := &Child{In: stdin}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	told := []byte(nil)
	if len(args) > 0 {
		told = []byte(args[0])
	} else {
		lines := bufio.NewReader(stdin)
		told, _ = lines.ReadBytes('\n')
		// this process ends with the demo, which holds the other end of its standard input
		go func() {
			_, _ = io.Copy(io.Discard, lines)
			cancel()
		}()
	}
	if err := json.Unmarshal(told, c); err != nil {
		return cli.Usagef("only the demo starts this command: %v", err)
	}
	for _, s := range scenarios {
		if s.Name == c.Scenario && s.Child != nil {
			return s.Child(ctx, c)
		}
	}
	return cli.Usagef("there is no scenario %q that starts processes", c.Scenario)
}

// Client is a client of the scenario's SQS.
func (c *Child) Client(ctx context.Context) (*sqs.Client, error) {
	if c.Ours {
		return newClient(openConfig(), c.Endpoint), nil
	}
	cfg, err := cli.AWSConfig(ctx, cli.Endpoint{URL: c.Endpoint}, c.Region)
	if err != nil {
		return nil, err
	}
	return newClient(cfg, c.Endpoint), nil
}

// A Report is what a process says at a point, before it goes on. Which fields are set depends on
// the point.
type Report struct {
	From    string   `json:"from"`
	Role    string   `json:"role"`
	Point   string   `json:"point"`
	Key     string   `json:"key,omitempty"` // of the work
	Keys    []string `json:"keys,omitempty"`
	Message string   `json:"message,omitempty"` // id
	Text    string   `json:"text,omitempty"`
	Number  int      `json:"number,omitempty"` // attempt, generation, delay
	Fence   uint64   `json:"fence,omitempty"`
	Run     string   `json:"run,omitempty"` // of a handler; each run has its own
	// the handler was told that its claim or its lease is lost
	Lost  bool `json:"lost,omitempty"`
	Stale bool `json:"stale,omitempty"` // a fence refused its write
	PID   int  `json:"pid,omitempty"`

	// At is when the report came, in seconds from the beginning. The crew sets it.
	At float64 `json:"at"`
}

// Tell reports a point and returns when the process may go on. A process that is killed here never
// does.
func (c *Child) Tell(ctx context.Context, r Report) {
	r.From, r.Role, r.PID = c.Name, c.Role, os.Getpid()
	body, _ := json.Marshal(r) // nothing in it can fail to be encoded
	req, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodPost,
		c.Stage+"/report", bytes.NewReader(body))
	if err != nil {
		return
	}
	if resp, err := http.DefaultClient.Do(req); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

// asCommand is the command of c, which waits for a first line on its standard input.
func asCommand() (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	return exec.Command(program, "demo", "child"), nil
}
