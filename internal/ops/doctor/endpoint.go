package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"

	"tenaq/internal/cli"
)

type endpointKind string

const (
	kindUnknown    endpointKind = ""
	KindTenaq      endpointKind = "tenaq"
	kindAmazon     endpointKind = "Amazon SQS"
	kindLocalStack endpointKind = "LocalStack"
	kindOther      endpointKind = "another server"
)

// A probe is the answer to one request without credentials.
type probe struct {
	Kind    endpointKind
	version string
	date    time.Time // of the answer, to the second; zero when it has none
	asked   time.Time
	took    time.Duration
	Err     error
}

// examineEndpoint looks at the endpoint, and makes a client for it.
func (d *Doctor) examineEndpoint(ctx context.Context) {
	d.look = d.Probe(ctx)
	d.kind = d.look.Kind
	subject := "endpoint " + d.Endpoint.String()
	d.find(subject, "what it is", checkKind(d.look, d.Endpoint))
	if d.look.Err == nil {
		d.find("clock", "clock", checkClock(d.look))
	}
	d.find(subject, "encryption", checkScheme(d.Endpoint))
	d.find(subject, "variables", checkVariables(d.Endpoint, d.getenv))
	d.find(subject, "AWS CLI", checkCLI(d.Endpoint, d.getenv, func() string {
		return cliVersion(ctx)
	}))
	d.find(subject, "proxy", checkProxy(d.Endpoint, d.getenv))
	client, err := d.connect.Connect(ctx)
	if err != nil {
		d.find(subject, "credentials",
			problem("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE", "%v", err))
		return
	}
	if credentials, err := client.Options().Credentials.Retrieve(ctx); err == nil {
		d.find(subject, "credentials", checkCredentials(d.Endpoint, credentials.AccessKeyID))
	}
	if d.look.Err != nil {
		return
	}
	d.Region = cmp.Or(client.Options().Region, d.Region)
	out, err := cli.Call(ctx, client, client.ListQueues,
		&sqs.ListQueuesInput{MaxResults: aws.Int32(1)})
	var refusal smithy.APIError
	if denied := errors.As(err, &refusal) &&
		strings.HasPrefix(cli.ErrorKind(refusal), "AccessDenied"); err != nil && !denied {
		d.find(subject, "requests",
			problem("follow the error message", "%v", client.Explain("list queues", "", err)))
		return
	}
	d.find(subject, "requests", fine("answered"))
	d.client = client
	if out == nil || len(out.QueueUrls) == 0 {
		d.find(subject, "queue URLs", unchecked("", "there is no queue whose URL could be checked"))
		return
	}
	d.find(subject, "queue URLs", checkQueueURL(ctx, d.Endpoint, out.QueueUrls[0]))
	d.find(subject, "region", checkRegionOf(regionOfURL(out.QueueUrls[0]), d.Region, "queue URLs"))
}

func (d *Doctor) base() string {
	if !d.Endpoint.IsAmazon() {
		return d.Endpoint.URL
	}
	suffix := ".amazonaws.com"
	if strings.HasPrefix(d.Region, "cn-") {
		suffix += ".cn"
	}
	return "https://sqs." + d.Region + suffix
}

// Probe finds out what answers.
func (d *Doctor) Probe(ctx context.Context) probe {
	path := "/v1/queues?limit=1"
	amazonHost := d.Endpoint.IsAmazon() || cli.IsAmazonURL(d.Endpoint.URL)
	if amazonHost {
		path = "/"
	}
	p := probe{asked: time.Now()}
	header, _, err := d.get(ctx, d.base()+path)
	p.took = time.Since(p.asked)
	if err != nil {
		p.Err = (&cli.Client{Endpoint: d.Endpoint}).ExplainTransport("ask "+d.base(), err)
		return p
	}
	p.date, _ = http.ParseTime(header.Get("Date"))
	switch {
	case amazonHost:
		p.Kind = kindAmazon
	case header.Get(cli.V1Header) != "":
		p.Kind = KindTenaq
	default:
		p.Kind = kindOther
	}
	if p.Kind == KindTenaq || p.Kind == kindOther {
		var health struct {
			Services map[string]string
			Version  string
		}
		_, body, err := d.get(ctx, d.base()+"/_localstack/health")
		if err == nil && json.Unmarshal(body, &health) == nil && health.Services != nil {
			p.version = health.Version
			if p.Kind == kindOther {
				p.Kind = kindLocalStack
			}
		}
	}
	return p
}

// get reads the answer of an address, at most 1 MiB.
func (d *Doctor) get(ctx context.Context, address string) (http.Header, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, nil, err
	}
	resp, err := d.HTTP.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp.Header, body, err
}

func checkKind(p probe, e cli.Endpoint) Finding {
	if p.Err != nil {
		return problem("start the server, or name another with --endpoint-url", "%v", p.Err)
	}
	says := string(p.Kind)
	if p.version != "" {
		says += " " + p.version
	}
	says += fmt.Sprintf(", answers in %s; the address comes from %s", cli.ShortDuration(p.took),
		e.Origin)
	if p.Kind == kindLocalStack {
		return warning("do not keep data there that must not be lost", "%s; it is meant for tests",
			says)
	}
	return fine("%s", says).with(map[string]float64{"answerSeconds": p.took.Seconds()})
}

// checkScheme looks for requests without encryption.
func checkScheme(e cli.Endpoint) Finding {
	if e.IsAmazon() || e.IsLoopback() || !strings.HasPrefix(e.URL, "http://") {
		return Finding{}
	}
	return warning("put a TLS proxy in front of it, and use its https address",
		"requests to another machine are not encrypted: anyone on the network path can read and change messages")
}

// endpointVariables name the endpoint of SDKs and of this program. The first one wins.
var endpointVariables = []string{"TENAQ_ENDPOINT_URL", "AWS_ENDPOINT_URL_SQS", "AWS_ENDPOINT_URL"}

// checkVariables looks for variables that lead other programs to another endpoint.
func checkVariables(e cli.Endpoint, getenv func(string) string) Finding {
	var set []string
	for _, name := range endpointVariables {
		if getenv(name) != "" {
			set = append(set, name)
		}
	}
	sdk := getenv("AWS_ENDPOINT_URL_SQS")
	from := "AWS_ENDPOINT_URL_SQS"
	if sdk == "" {
		sdk, from = getenv("AWS_ENDPOINT_URL"), "AWS_ENDPOINT_URL"
	}
	same := func(a, b string) bool { return strings.TrimRight(a, "/") == strings.TrimRight(b, "/") }
	switch {
	case sdk != "" && strings.EqualFold(getenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"), "true"):
		return problem("unset AWS_IGNORE_CONFIGURED_ENDPOINT_URLS, or "+from,
			"%s=%s is set, and AWS_IGNORE_CONFIGURED_ENDPOINT_URLS=true makes the SDKs ignore it: they use Amazon", from, sdk)
	case sdk != "" && !same(sdk, e.URL):
		return warning("set both to the same address, or unset "+from,
			"programs in this environment use %s=%s; this check uses %s, which comes from %s",
			from, sdk, e, e.Origin)
	case sdk == "" && (e.Origin == "TENAQ_ENDPOINT_URL" || e.Origin == "TENAQ_LISTEN"):
		return fine("only tenaq reads %s; the SDKs in this environment use Amazon", e.Origin)
	}
	for _, name := range set[min(1, len(set)):] {
		if !same(getenv(name), getenv(set[0])) {
			return warning("unset the wrong one",
				"%s=%s and %s=%s differ; for SQS the first one wins", set[0], getenv(set[0]), name,
				getenv(name))
		}
	}
	return fine("nothing in the environment contradicts %s", e)
}

// checkCLI looks for an AWS CLI that ignores the endpoint of the environment. It asks for the
// version only if that matters, because it takes a second.
func checkCLI(e cli.Endpoint, getenv func(string) string, version func() string) Finding {
	if e.IsAmazon() || cli.IsAmazonURL(e.URL) || getenv("AWS_ENDPOINT_URL_SQS") == "" &&
		getenv("AWS_ENDPOINT_URL") == "" {
		return Finding{}
	}
	v := version()
	do := fmt.Sprintf(`add --endpoint-url %s to "aws sqs"; in a shell, eval "$(tenaq env)" does that`, e)
	var major, minor int
	switch n, _ := fmt.Sscanf(v, "%d.%d", &major, &minor); {
	case n < 2:
		return Finding{} // there is none, or none that is known
	case major < 2:
		return warning(do, "aws is version %s, which ignores AWS_ENDPOINT_URL_SQS and sends requests for SQS to Amazon", v)
	case major == 2 && minor < 13:
		return warning(do+"; or update it to 2.13 or later",
			"aws is version %s, which ignores AWS_ENDPOINT_URL_SQS and uses Amazon", v)
	}
	return fine("aws is version %s, which reads AWS_ENDPOINT_URL_SQS", v)
}

func cliVersion(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "aws", "--version").Output()
	if err != nil {
		return ""
	}
	version, _, _ := strings.Cut(string(out), " ")
	return strings.TrimPrefix(version, "aws-cli/")
}

// checkProxy looks for a proxy between clients and this machine. Go never uses one there, but other
// clients do.
func checkProxy(e cli.Endpoint, getenv func(string) string) Finding {
	if !e.IsLoopback() {
		return Finding{}
	}
	u, err := url.Parse(e.URL)
	if err != nil {
		return Finding{}
	}
	names := []string{"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"}
	if u.Scheme == "https" {
		names = []string{"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"}
	}
	i := slices.IndexFunc(names, func(name string) bool { return getenv(name) != "" })
	if i < 0 {
		return Finding{}
	}
	exempt := cmp.Or(getenv("no_proxy"), getenv("NO_PROXY"))
	if isExempt(u.Hostname(), exempt) {
		return fine("%s leaves out %s", names[i], u.Hostname())
	}
	return warning("add "+u.Hostname()+" to NO_PROXY",
		"%s is set, and NO_PROXY does not exempt %s: clients such as boto3 and curl send its requests to the proxy", names[i], u.Hostname())
}

// isExempt reports whether NO_PROXY names a host or its domain.
func isExempt(host, list string) bool {
	for _, entry := range cli.SplitList(list) {
		if h, _, err := net.SplitHostPort(entry); err == nil {
			entry = h
		}
		entry = strings.TrimPrefix(strings.TrimPrefix(entry, "*"), ".")
		_, block, err := net.ParseCIDR(entry)
		switch {
		case entry == "" || strings.EqualFold(entry, host) ||
			strings.HasSuffix(strings.ToLower(host), "."+strings.ToLower(entry)):
			return true
		case err == nil && block.Contains(net.ParseIP(host)):
			return true
		}
	}
	return false
}

// dummyKeys are access keys of examples and tests.
var dummyKeys = []string{"tenaq", "test", "dummy", "local", "localstack", "fake", "foo", "x",
	"mock", "anything", "akiaiosfodnn7example"}

// checkCredentials looks for keys that cannot be those of Amazon.
func checkCredentials(e cli.Endpoint, key string) Finding {
	switch {
	case !e.IsAmazon() && !cli.IsAmazonURL(e.URL):
		return Finding{}
	case slices.Contains(dummyKeys, strings.ToLower(key)) || len(key) < 16:
		return problem("set an access key of Amazon, or AWS_PROFILE",
			"the access key %q is a placeholder for tests, and requests go to Amazon", key)
	}
	return fine("the access key is %s...", key[:4])
}

// checkQueueURL follows a queue URL: many clients send their requests to it instead of the
// endpoint.
func checkQueueURL(ctx context.Context, e cli.Endpoint, queueURL string) Finding {
	u, err := url.Parse(queueURL)
	if err != nil || u.Host == "" {
		return problem("set --public-url of the server", "%q is not a URL", queueURL)
	}
	const set = "set --public-url of the server to the address that its clients use; clients of older SDKs send requests to the queue URL"
	switch {
	case cli.IsAmazonURL(queueURL) && (e.IsAmazon() || cli.IsAmazonURL(e.URL)):
		return fine("%s", u.Host)
	case cli.IsAmazonURL(queueURL):
		return problem(set, "they begin with %s, an address of Amazon: clients send requests there",
			u.Host)
	case e.IsAmazon():
		return warning("check the endpoint",
			"they begin with %s, which is not an address of Amazon", u.Host)
	}
	if own, err := url.Parse(e.URL); err == nil && sameHost(u, own) {
		return fine("they lead back to %s", e)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := net.DefaultResolver.LookupHost(ctx, u.Hostname()); err != nil {
		return problem(set, "they begin with %s://%s, and this machine cannot resolve that host",
			u.Scheme, u.Host)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", hostPort(u))
	if err != nil {
		return problem(set, "they begin with %s://%s, and nothing answers there",
			u.Scheme, u.Host)
	}
	conn.Close()
	return warning(set+", unless both are the same server",
		"they begin with %s://%s, and requests go to %s", u.Scheme, u.Host, e)
}

// sameHost reports whether two addresses are the same. All names of this machine are.
func sameHost(a, b *url.URL) bool {
	if hostPort(a) == hostPort(b) {
		return true
	}
	_, portA, _ := net.SplitHostPort(hostPort(a))
	_, portB, _ := net.SplitHostPort(hostPort(b))
	return portA == portB && cli.IsLoopbackHost(a.Hostname()) && cli.IsLoopbackHost(b.Hostname())
}

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// regionOfURL returns the region in a queue URL of Amazon's; "" in others.
func regionOfURL(queueURL string) string {
	u, err := url.Parse(queueURL)
	if err != nil || !cli.IsAmazonURL(queueURL) {
		return ""
	}
	parts := strings.Split(u.Hostname(), ".")
	switch {
	case parts[0] == "sqs" && len(parts) >= 4:
		return parts[1]
	case parts[1] == "queue" && len(parts) >= 4: // the old form
		return parts[0]
	}
	return ""
}

func regionOfARN(arn string) string {
	if parts := strings.Split(arn, ":"); len(parts) == 6 {
		return parts[3]
	}
	return ""
}

// checkRegionOf compares the region of queues with that of signatures.
func checkRegionOf(of, region, where string) Finding {
	switch {
	case of == "":
		return Finding{}
	case of != region:
		return warning("set AWS_REGION="+of+", or --region of the server to "+region,
			"%s have the region %s, but requests are signed for %s: ARNs that programs build name queues that do not exist", where, of, region)
	}
	return fine("%s", region)
}
