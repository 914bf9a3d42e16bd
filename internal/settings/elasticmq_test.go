package settings

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tenaq/internal/cli"
)

// readConf reads a configuration of ElasticMQ.
func readConf(t testing.TB, text string) (*configFile, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "elasticmq.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return ReadConfigFile(path)
}

func TestElasticMQ(t *testing.T) {
	f, err := readConf(t, `
include classpath("application.conf")

# Where it listens is not read, nor is what else it knows.
node-address { protocol = http, host = "*", port = 9324, context-path = "" }
rest-sqs.bind-port = 9324
rest-sqs.sqs-limits = strict // or relaxed
pekko { loggers = ["a", ["b"]] }
messages-storage { uri = ${?URI}, note = """more
than one line""" }

queues {
  orders {
    defaultVisibilityTimeout = 10 seconds
    delay = 5s
    receiveMessageWait: 1500
    deadLettersQueue {
      name = "orders-dead"
      maxReceiveCount = 3 // from 1 to 1000
    }
    fifo = false
    contentBasedDeduplication = false
    tags { team = payments, "cost center" = "42" }
  }
  orders-dead { }
  "line.fifo" { fifo = true, contentBasedDeduplication = true, deadLettersQueue { name = dead, maxReceiveCount = 5 } }
  dead { fifo = true }
}
queues.orders.delay = 7 seconds
aws { region = eu-west-1, accountId = 012345678901 }
`)
	if err != nil {
		t.Fatal(err)
	}
	const arn = "arn:aws:sqs:eu-west-1:012345678901:"
	want := map[string]map[string]string{
		"orders": {"VisibilityTimeout": "10", "DelaySeconds": "7", "ReceiveMessageWaitTimeSeconds": "1",
			"RedrivePolicy": `{"deadLetterTargetArn":"` + arn + `orders-dead","maxReceiveCount":3}`},
		"orders-dead": {},
		"line.fifo": {"FifoQueue": "true", "ContentBasedDeduplication": "true",
			"RedrivePolicy": `{"deadLetterTargetArn":"` + arn + `dead.fifo","maxReceiveCount":5}`},
		"dead.fifo": {"FifoQueue": "true"},
	}
	for _, q := range f.Queues {
		if !maps.Equal(q.Attributes, want[q.Name]) {
			t.Errorf("%s has %v, want %v", q.Name, q.Attributes, want[q.Name])
		}
		delete(want, q.Name)
	}
	if len(want) > 0 {
		t.Errorf("these are missing: %v", want)
	}
	if got := f.Queues[0].Tags; len(got) != 2 || got["team"] != "payments" || got["cost center"] != "42" {
		t.Errorf("tags %v", got)
	}
	if f.values["region"].text != "eu-west-1" || f.values["account"].text != "012345678901" {
		t.Errorf("settings %v", f.values)
	}
}

func TestElasticMQErrors(t *testing.T) {
	for text, want := range map[string]string{
		"aws { }":                                         "declares no queues",
		"queues {\n a {\n":                                "conf:3: a closing brace is missing",
		"queues { a = 5 }":                                "queue a must be an object",
		"queues { a {\n delay = soon\n} }":                `conf:2: delay: "soon" is not a duration`,
		"queues { a { delay = 9999999999 days } }":        "is not a duration",
		"queues { a {\n copyTo = b } }":                   "conf:2: tenaq does not pass messages on",
		"queues { a { deadLettersQueue { name = b } } }":  "needs name and maxReceiveCount",
		"queues { a { colour = red } }":                   `has no "colour"`,
		"queues { a { delay = ${DELAY} } }":               "${DELAY} is an array, a substitution",
		"queues { \"a b\" { } }":                          "is not a queue name",
		"queues { a { delay } }":                          "delay has no value",
		"queues { a { delay = \"5 } }":                    "closing quote is missing",
		"include \"more.conf\"\nqueues { a { } }":         `conf:1: cannot include "more.conf"`,
		"queues { a { } }\nx = [1, 2":                     "conf:2: x: the closing ] is missing",
		"queues { a { fifo = true }\n \"a.fifo\" { } }\n": "declared twice",
	} {
		_, err := readConf(t, text)
		if err == nil || !strings.Contains(err.Error(), want) || cli.ExitCode(err) != cli.ExitUsage {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// No file makes the reader panic or read forever.
func FuzzElasticMQ(f *testing.F) {
	f.Add("queues { a { delay = 5 s } }\naws.region = x")
	f.Add("include classpath(\"x\")\nqueues.a.b{\"c\":${?D}, e=[f,[g]]}//h")
	f.Fuzz(func(t *testing.T, text string) {
		file := &configFile{Path: "f.conf", values: map[string]fileValue{}}
		_ = file.readElasticMQ(text)
	})
}
