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

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/internal/cli"
)

// A Child is another process of a scenario. It reads its configuration from the first line of its
// standard input, or from an argument if standard input has another use.
type Child struct {
	told
	*Act
	In  io.Reader // what follows on standard input
	API *sqs.Client
}

type told struct {
	Program              string
	Name, Role, Scenario string
	Stage                string // URL to report to
	Endpoint             string // of the SQS; empty for Amazon's
	Region               string
	Ours                 bool // the server is the demo's own and checks no credentials
	Dir                  string
	Broken               string
	Task                 json.RawMessage // what the scenario adds
}

// A Role is the main function of a process.
type Role func(c *Child)

// RoleOf returns the role of processes that a task configures.
func RoleOf[T any](main func(c *Child, task T)) Role {
	return func(c *Child) {
		var task T
		c.Must(json.Unmarshal(c.Task, &task))
		main(c, task)
	}
}

// Command is the command of a process with another role and the same task. Its standard input is
// free.
func (c *Child) Command(role string) []string {
	other := c.told
	other.Role, other.Name = role, fmt.Sprintf("a %s of %s", role, c.Name)
	text, err := json.Marshal(other)
	c.Must(err)
	return []string{c.Program, "demo", "child", string(text)}
}

// RunChild is the main function of a child. Args is empty, or has its configuration.
func RunChild(ctx context.Context, scenarios []Scenario, args []string, stdin io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := &Child{Act: newAct(ctx), In: stdin}
	text := []byte(nil)
	if len(args) > 0 {
		text = []byte(args[0])
	} else {
		lines := bufio.NewReader(stdin)
		text, _ = lines.ReadBytes('\n')
		// this process ends with the demo, which holds the other end of its standard input
		go func() {
			_, _ = io.Copy(io.Discard, lines)
			cancel()
		}()
	}
	if err := json.Unmarshal(text, &c.told); err != nil {
		return cli.Usagef("only the demo starts this command: %v", err)
	}
	cfg := openConfig()
	if !c.Ours {
		var err error
		if cfg, err = cli.AWSConfig(ctx, cli.Endpoint{URL: c.Endpoint}, c.Region); err != nil {
			return err
		}
	}
	c.API = newClient(cfg, c.Endpoint)
	for _, s := range scenarios {
		if role := s.Roles[c.told.Role]; s.Name == c.Scenario && role != nil {
			c.Play(func() { role(c) })
			return c.Failure()
		}
	}
	return cli.Usagef("no scenario %q has a process %q", c.Scenario, c.told.Role)
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
	Number  int      `json:"number,omitempty"` // attempt, delay
	Fence   uint64   `json:"fence,omitempty"`
	Run     string   `json:"run,omitempty"` // of a handler; each run has its own
	// the handler was told that its claim or its lease is lost
	Lost       bool `json:"lost,omitempty"`
	Generation int  `json:"generation,omitempty"`
	PID        int  `json:"pid,omitempty"`

	// At is when the report came, in seconds from the beginning. The crew sets it.
	At float64 `json:"at"`
}

// Tell reports a point and returns when the process may continue. It does not return in a process
// that is killed at this point.
func (c *Child) Tell(r Report) {
	r.From, r.Role, r.PID = c.Name, c.Role, os.Getpid()
	body, _ := json.Marshal(r) // nothing in it can fail to be encoded
	resp, err := http.Post(c.Stage+"/report", "application/json", bytes.NewReader(body))
	if err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}
