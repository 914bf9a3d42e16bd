package server

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// three starts three nodes in this process and waits until each knows a leader. A node is stopped
// with its function.
func three(t *testing.T, change func(i int, cfg *Config)) (nodes []*Server, stops []func() error) {
	t.Helper()
	var peers []string
	for range 3 {
		peers = append(peers, freeAddress(t))
	}
	for i := range 3 {
		cfg := config(t)
		cfg.ClusterListen, cfg.ClusterPeers, cfg.ClusterToken = peers[i], peers, "the same on all"
		if change != nil {
			change(i, &cfg)
		}
		s, stop := run(t, cfg)
		nodes, stops = append(nodes, s), append(stops, stop)
	}
	for _, s := range nodes {
		eventually(t, "a leader is known", s.HasWriter)
	}
	return nodes, stops
}

// Without credentials, each node accepts the names by which its own clients reach it, whichever
// node leads, and no others. [AUTH-2]
func TestHostsOfNodes(t *testing.T) {
	name := func(i int) string { return fmt.Sprintf("node-%d.example", i) }
	nodes, _ := three(t, func(i int, cfg *Config) { cfg.AllowedHosts = []string{name(i)} })
	for at := range 2 * 9 { // twice, because a node remembers what it has accepted
		i, j, code, want := at/3%3, at%3, 0, http.StatusForbidden
		if i == j {
			want = http.StatusOK
		}
		eventually(t, "a node leads", func() bool {
			r, err := http.NewRequest(http.MethodGet, nodes[i].URL()+"/?Action=ListQueues", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = name(j)
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
			code = res.StatusCode
			return code != http.StatusServiceUnavailable
		})
		if code != want {
			t.Errorf("node %d answers %d to the Host %s, want %d", i, code, name(j), want)
		}
	}
}

// freeAddress returns an address that nothing listens on, and nothing else will: the host is drawn
// from all of 127.0.0.0/8.
func freeAddress(t *testing.T) string {
	host := fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250))
	l, err := net.Listen("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// leaderOf returns the index of the node that writes the store.
func leaderOf(t *testing.T, nodes []*Server) (leader int) {
	t.Helper()
	eventually(t, "a node writes", func() bool {
		for i, s := range nodes {
			if s.writer.Load() != nil {
				leader = i
				return true
			}
		}
		return false
	})
	return leader
}

// must calls an action until it is carried out, as clients do, and returns the answer. On a machine
// that pauses, another node may take over at any time: then the action may be carried out twice.
func must(t *testing.T, s *Server, action, body string) (answer string) {
	t.Helper()
	eventually(t, action, func() bool {
		var code int
		code, answer = call(t, s, action, body)
		if code != 200 && code != 500 && code != 503 {
			t.Fatalf("%s answers %d %s", action, code, answer)
		}
		return code == 200
	})
	return answer
}

// Every node answers every request, a poll included, and continues when the leader stops. The
// messages of the queue, the declared queues and the key of receipt handles are the same
// everywhere.
func TestAnyNodeServes(t *testing.T) {
	nodes, stops := three(t, func(_ int, cfg *Config) {
		cfg.Queues = []Queue{{Name: "declared"}}
	})
	url := fmt.Sprintf(`"QueueUrl":"http://%s/000000000000/declared"`, nodes[0].Addr())
	leader := leaderOf(t, nodes)
	for i, s := range nodes {
		must(t, s, "SendMessage", fmt.Sprintf(`{%s,"MessageBody":"by node %d"}`, url, i))
	}
	count := func(s *Server) (all int) {
		answer := must(t, s, "GetQueueAttributes", fmt.Sprintf(`{%s,"AttributeNames":["All"]}`, url))
		var got struct{ Attributes map[string]string }
		if err := json.Unmarshal([]byte(answer), &got); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"} {
			n, err := strconv.Atoi(got.Attributes[name])
			if err != nil {
				t.Fatal(err)
			}
			all += n
		}
		return all
	}
	sent := count(nodes[leader])
	if sent < 3 {
		t.Errorf("three messages were sent, and there are %d", sent)
	}
	answer := must(t, nodes[(leader+1)%3], "ReceiveMessage",
		fmt.Sprintf(`{%s,"MaxNumberOfMessages":1,"WaitTimeSeconds":5}`, url))
	_, handle, _ := strings.Cut(answer, `"ReceiptHandle":"`)
	handle, _, _ = strings.Cut(handle, `"`)

	if err := stops[leader](); err != nil {
		t.Fatal(err)
	}
	next := nodes[(leader+1)%3]
	must(t, next, "DeleteMessage", fmt.Sprintf(`{%s,"ReceiptHandle":%q}`, url, handle))
	if got := count(next); got != sent-1 {
		t.Errorf("of %d messages one was deleted, and the next leader has %d", sent, got)
	}
}

// A poll that waits at a node that does not lead is answered by a send to another node.
func TestPollThroughFollower(t *testing.T) {
	nodes, _ := three(t, nil)
	leader := leaderOf(t, nodes)
	must(t, nodes[0], "CreateQueue", `{"QueueName":"jobs"}`)
	url := fmt.Sprintf(`"QueueUrl":"http://%s/000000000000/jobs"`, nodes[0].Addr())
	got := make(chan string)
	go func() {
		for {
			code, answer := call(t, nodes[(leader+1)%3], "ReceiveMessage",
				fmt.Sprintf(`{%s,"WaitTimeSeconds":20}`, url))
			if code == http.StatusOK {
				got <- answer
				return
			}
		}
	}()
	eventually(t, "the poll waits at the leader", func() bool { return nodes[leaderOf(t, nodes)].polls() == 1 })
	must(t, nodes[(leader+2)%3], "SendMessage", fmt.Sprintf(`{%s,"MessageBody":"found"}`, url))
	if answer := <-got; !strings.Contains(answer, `"Body":"found"`) {
		t.Errorf("the poll was answered %s", answer)
	}
}

// A node that stops does not wait for the polls of its clients.
func TestPollEndsWithItsNode(t *testing.T) {
	nodes, stops := three(t, nil)
	leader := leaderOf(t, nodes)
	must(t, nodes[0], "CreateQueue", `{"QueueName":"jobs"}`)
	follower := (leader + 1) % 3
	var stopping atomic.Bool
	got := make(chan int)
	go func() {
		for {
			code, _ := call(t, nodes[follower], "ReceiveMessage", fmt.Sprintf(
				`{"QueueUrl":"http://%s/000000000000/jobs","WaitTimeSeconds":20}`, nodes[0].Addr()))
			if stopping.Load() {
				got <- code
				return
			}
		}
	}()
	eventually(t, "the poll waits at the leader", func() bool {
		leader = leaderOf(t, nodes)
		return nodes[leader].polls() == 1
	})
	stopping.Store(true)
	if err := stops[follower](); err != nil {
		t.Error(err)
	}
	if code := <-got; code != http.StatusInternalServerError {
		t.Errorf("the poll answers %d, want 500", code)
	}
	eventually(t, "the poll is gone at the leader", func() bool { return nodes[leader].polls() == 0 })
}

// A node that stops ends the live streams of its clients with a word. [V1-13]
func TestLiveStreamEndsWithItsNode(t *testing.T) {
	nodes, stops := three(t, nil)
	leader := leaderOf(t, nodes)
	follower := (leader + 1) % 3
	res, err := http.Get(nodes[follower].URL() + "/v1/live")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := stops[follower](); err != nil {
		t.Error(err)
	}
	if b, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(b), `"reason":"stopping"`) {
		t.Errorf("got %v and %s, want the end of the stream and why", err, b)
	}
}

// Each node reports about itself, and the leader about the others.
func TestClusterMetrics(t *testing.T) {
	nodes, _ := three(t, nil)
	asked := (leaderOf(t, nodes) + 1) % 3
	must(t, nodes[asked], "ListQueues", `{}`)
	for i, s := range nodes {
		eventually(t, fmt.Sprintf("node %d reports", i), func() bool {
			role, others, forwards := "follower", 0, 0
			if i == leaderOf(t, nodes) {
				role, others = "leader", 2
			}
			if i == asked {
				forwards = 1
			}
			_, text := get(t, "http://"+s.AdminAddr()+"/metrics")
			return strings.Contains(text, "tenaq_cluster_role{role=\""+role+"\"} 1\n") &&
				strings.Contains(text, "tenaq_cluster_has_leader 1\n") &&
				strings.Count(text, "\ntenaq_cluster_follower_reachable{node=") == others &&
				strings.Count(text, "tenaq_requests_total{action=\"Forward\",code=\"\"}") == forwards
		})
	}
}

// A node without a majority says that it is not ready, refuses requests as not carried out, and
// still tells how the cluster is.
func TestNoMajority(t *testing.T) {
	nodes, stops := three(t, nil)
	left := (leaderOf(t, nodes) + 1) % 3
	for i, stop := range stops {
		if i != left {
			if err := stop(); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := nodes[left]
	eventually(t, "the last node is not ready", func() bool {
		code, _ := get(t, "http://"+s.AdminAddr()+"/readyz")
		return code == http.StatusServiceUnavailable
	})
	if code, answer := call(t, s, "ListQueues", `{}`); code != http.StatusServiceUnavailable {
		t.Errorf("without a leader ListQueues answers %d %s, want 503", code, answer)
	}
	code, answer := get(t, "http://"+s.Addr()+"/v1/cluster")
	if code != http.StatusOK || strings.Count(answer, `"unreachable"`) != 2 {
		t.Errorf("/v1/cluster answers %d %s, want two unreachable members", code, answer)
	}
	if code, _ := get(t, "http://"+s.AdminAddr()+"/metrics"); code != http.StatusOK {
		t.Errorf("/metrics answers %d, want 200", code)
	}
}

// The alarms that a program creates are on the next leader too.
func TestAlarmsMove(t *testing.T) {
	nodes, stops := three(t, nil)
	leader := leaderOf(t, nodes)
	eventually(t, "PutMetricAlarm is answered", func() bool {
		req, err := http.NewRequest("POST", "http://"+nodes[leader].Addr(), strings.NewReader(
			`{"AlarmName":"mine","Namespace":"AWS/SQS","MetricName":"ApproximateNumberOfMessagesVisible",
			"Dimensions":[{"Name":"QueueName","Value":"jobs"}],"Statistic":"Maximum","Period":60,
			"EvaluationPeriods":1,"Threshold":5,"ComparisonOperator":"GreaterThanThreshold"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-amz-json-1.0")
		req.Header.Set("X-Amz-Target", "GraniteServiceVersion20100801.PutMetricAlarm")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode < 500 && resp.StatusCode != http.StatusOK {
			t.Fatalf("PutMetricAlarm answers %d %s", resp.StatusCode, answer)
		}
		return resp.StatusCode == http.StatusOK
	})
	if err := stops[leader](); err != nil {
		t.Fatal(err)
	}
	s := nodes[(leader+1)%3]
	eventually(t, "the next leader has the alarm", func() bool {
		code, answer := get(t, "http://"+s.Addr()+"/v1/alarms")
		return code == http.StatusOK && strings.Contains(answer, `"mine"`)
	})
}
