package cli

import (
	"testing"
)

func TestResolveEndpoint(t *testing.T) {
	for _, tt := range []struct {
		flag      string
		env       map[string]string
		want      Endpoint
		loopback  bool
		wantError string
	}{
		{want: Endpoint{URL: "http://127.0.0.1:9324", Origin: "default"}, loopback: true},
		{
			env:  map[string]string{"AWS_ENDPOINT_URL": "https://a.example"},
			want: Endpoint{URL: "https://a.example", Origin: "AWS_ENDPOINT_URL"},
		},
		{
			env:  map[string]string{"AWS_ENDPOINT_URL": "https://a.example", "AWS_ENDPOINT_URL_SQS": "https://b.example/"},
			want: Endpoint{URL: "https://b.example", Origin: "AWS_ENDPOINT_URL_SQS"},
		},
		{
			env:      map[string]string{"AWS_ENDPOINT_URL_SQS": "https://b.example", "TENAQ_ENDPOINT_URL": "http://[::1]:9324"},
			want:     Endpoint{URL: "http://[::1]:9324", Origin: "TENAQ_ENDPOINT_URL"},
			loopback: true,
		},
		{
			flag:     "http://localhost:4566",
			env:      map[string]string{"TENAQ_ENDPOINT_URL": "https://c.example"},
			want:     Endpoint{URL: "http://localhost:4566", Origin: "--endpoint-url"},
			loopback: true,
		},
		{env: map[string]string{"TENAQ_LISTEN": "10.0.0.5:7000"}, want: Endpoint{URL: "http://10.0.0.5:7000", Origin: "TENAQ_LISTEN"}},
		{
			env:      map[string]string{"TENAQ_LISTEN": ":7000", "TENAQ_TLS_CERT": "cert.pem"},
			want:     Endpoint{URL: "https://127.0.0.1:7000", Origin: "TENAQ_LISTEN"},
			loopback: true,
		},
		{
			env:      map[string]string{"TENAQ_LISTEN": "127.0.0.1:7000", "AWS_ENDPOINT_URL": "http://127.0.0.1:8000"},
			want:     Endpoint{URL: "http://127.0.0.1:8000", Origin: "AWS_ENDPOINT_URL"},
			loopback: true,
		},
		{env: map[string]string{"TENAQ_LISTEN": "127.0.0.1:0"}, want: Endpoint{URL: DefaultEndpoint, Origin: "default"}, loopback: true},
		{env: map[string]string{"TENAQ_LISTEN": "7000"}, wantError: `TENAQ_LISTEN: "7000" is not an address with a port, such as 127.0.0.1:9324`},
		{flag: "aws", env: map[string]string{"TENAQ_ENDPOINT_URL": "https://c.example"}, want: Endpoint{URL: "", Origin: "--endpoint-url"}},
		{env: map[string]string{"TENAQ_ENDPOINT_URL": "aws"}, want: Endpoint{URL: "", Origin: "TENAQ_ENDPOINT_URL"}},
		{
			flag:      "localhost:9324",
			wantError: `--endpoint-url: "localhost:9324" is neither a URL such as http://127.0.0.1:9324 nor the word aws`,
		},
		{
			flag:      "http://127.0.0.1:99999",
			wantError: `--endpoint-url: "http://127.0.0.1:99999" has no port from 1 to 65535`,
		},
		{
			env:       map[string]string{"AWS_ENDPOINT_URL": "http://127.0.0.1:0"},
			wantError: `AWS_ENDPOINT_URL: "http://127.0.0.1:0" has no port from 1 to 65535`,
		},
		{
			env:       map[string]string{"AWS_ENDPOINT_URL": "127.0.0.1"},
			wantError: `AWS_ENDPOINT_URL: "127.0.0.1" is neither a URL such as http://127.0.0.1:9324 nor the word aws`,
		},
	} {
		got, err := ResolveEndpoint(tt.flag, func(name string) string { return tt.env[name] })
		if got != tt.want || errorText(err) != tt.wantError {
			t.Errorf("flag %q, env %v: got %v, %q, want %v, %q", tt.flag, tt.env, got, errorText(err), tt.want, tt.wantError)
		}
		if got.IsLoopback() != tt.loopback {
			t.Errorf("%v: got loopback %t, want %t", got, got.IsLoopback(), tt.loopback)
		}
	}
}

func TestIsAmazonURL(t *testing.T) {
	for url, want := range map[string]bool{
		"https://sqs.eu-west-1.amazonaws.com/123456789012/orders":  true,
		"https://sqs.cn-north-1.amazonaws.com.cn/123456789012/x":   true,
		"http://sqs.us-east-1.localhost.localstack.cloud:4566/0/x": false,
		"http://127.0.0.1:9324/000000000000/orders":                false,
		"https://amazonaws.com.example/000000000000/orders":        false,
		"https://SQS.us-east-1.amazonaws.com.:443":                 true,
		"https://sqs.eu-west-1.api.aws":                            true,
		"https://sqs.eusc-de-east-1.amazonaws.eu":                  true,
		"http://sqs.us-east-1.amazonaws.com:443":                   false,
		"http://ec2-203-0-113-7.compute-1.amazonaws.com:9324":      false,
	} {
		if got := IsAmazonURL(url); got != want {
			t.Errorf("isAmazonURL(%q): got %t, want %t", url, got, want)
		}
	}
}

// The key of a tenaq server goes to every server but Amazon's.
func TestOwnKey(t *testing.T) {
	both := map[string]string{"TENAQ_ACCESS_KEY_ID": "TQONE001", "TENAQ_SECRET_ACCESS_KEY": "canary-of-the-only-one"}
	for _, tt := range []struct {
		url  string
		env  map[string]string
		want bool
	}{
		{"http://127.0.0.1:9324", both, true},
		{"https://queue.example.com", both, true},
		{"", both, false},
		{"https://sqs.us-east-1.amazonaws.com", both, false},
		{"https://sqs.us-east-1.amazonaws.com:443", both, false},
		{"http://127.0.0.1:9324", map[string]string{"TENAQ_ACCESS_KEY_ID": "TQONE001"}, false},
	} {
		id, secret, ok := Endpoint{URL: tt.url}.OwnKey(func(name string) string { return tt.env[name] })
		if ok != tt.want || ok && (id != "TQONE001" || secret != "canary-of-the-only-one") {
			t.Errorf("%q with %d variables: got %q, %t, want %t", tt.url, len(tt.env), id, ok, tt.want)
		}
	}
}

// An endpoint that is used only for records is not a tenaq server, so it gets no key of one.
func TestOwnKeyElsewhere(t *testing.T) {
	id, _, ok := Endpoint{URL: "http://127.0.0.1:8000", service: "DynamoDB"}.OwnKey(func(string) string { return "canary-of-the-only-one" })
	if ok {
		t.Errorf("got the key %q, want none", id)
	}
}

func TestQueueNameOf(t *testing.T) {
	for queue, want := range map[string]string{
		"orders": "orders",
		"http://127.0.0.1:9324/000000000000/orders.fifo": "orders.fifo",
	} {
		if got := QueueNameOf(queue); got != want {
			t.Errorf("queueNameOf(%q): got %q, want %q", queue, got, want)
		}
	}
}
