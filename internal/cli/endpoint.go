package cli

import (
	"cmp"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const (
	DefaultEndpoint = "http://127.0.0.1:9324"
	DefaultRegion   = "us-east-1"

	// Amazon, as the value of --endpoint-url, means Amazon SQS.
	Amazon = "aws"

	originDefault = "default" // no flag or variable names the endpoint
)

// An Endpoint is where the SQS API is spoken.
type Endpoint struct {
	URL    string // "" is Amazon, at the address that belongs to the region
	Origin string // the flag or variable it comes from

	service string // other than SQS: never sign with the key of a tenaq server
}

// ResolveEndpoint finds the endpoint. Every AWS SDK reads AWS_ENDPOINT_URL_SQS and
// AWS_ENDPOINT_URL, so a shell that is set up for the SDKs is set up for tenaq too. After these
// comes TENAQ_LISTEN, where a server with this environment listens.
func ResolveEndpoint(flag string, getenv func(string) string) (Endpoint, error) {
	found := Endpoint{URL: flag, Origin: "--endpoint-url"}
	for _, name := range []string{"TENAQ_ENDPOINT_URL", "AWS_ENDPOINT_URL_SQS",
		"AWS_ENDPOINT_URL"} {
		if found.URL == "" {
			found = Endpoint{URL: getenv(name), Origin: name}
		}
	}
	if listen := getenv("TENAQ_LISTEN"); found.URL == "" && listen != "" &&
		!strings.HasSuffix(listen, ":0") {
		if err := CheckAddress(listen); err != nil {
			return Endpoint{}, Usagef("TENAQ_LISTEN: %v", err)
		}
		scheme := "http"
		if getenv("TENAQ_TLS_CERT") != "" {
			scheme = "https"
		}
		found = Endpoint{URL: scheme + "://" + ReachableAddress(listen), Origin: "TENAQ_LISTEN"}
	}
	if found.URL == "" {
		found = Endpoint{URL: DefaultEndpoint, Origin: originDefault}
	}
	if found.URL == Amazon {
		found.URL = ""
		return found, nil
	}
	u, err := url.Parse(found.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return Endpoint{}, Usagef("%s: %q is neither a URL such as %s nor the word %s",
			found.Origin, found.URL, DefaultEndpoint, Amazon)
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return Endpoint{}, Usagef("%s: %q has no port from 1 to 65535", found.Origin, found.URL)
		}
	}
	found.URL = strings.TrimRight(found.URL, "/")
	return found, nil
}

// ServiceEndpoint finds the endpoint of another service of AWS, or of a store with the same API.
// Every AWS SDK reads the same variables.
func ServiceEndpoint(service string, getenv func(string) string) Endpoint {
	for _, name := range []string{"AWS_ENDPOINT_URL_" + strings.ToUpper(service),
		"AWS_ENDPOINT_URL"} {
		if v := getenv(name); v != "" {
			return Endpoint{URL: strings.TrimRight(v, "/"), Origin: name, service: service}
		}
	}
	return Endpoint{Origin: originDefault, service: service}
}

// ResolveRegion finds the region, "" if none is set.
func ResolveRegion(flag string, getenv func(string) string) string {
	if flag != "" {
		return flag
	}
	for _, name := range []string{"TENAQ_REGION", "AWS_REGION", "AWS_DEFAULT_REGION"} {
		if v := getenv(name); v != "" {
			return v
		}
	}
	return ""
}

func (e Endpoint) IsAmazon() bool { return e.URL == "" }

// IsLoopback reports whether the endpoint is on this machine, where a server may run without
// credentials.
func (e Endpoint) IsLoopback() bool {
	u, err := url.Parse(e.URL)
	return err == nil && IsLoopbackHost(u.Hostname())
}

func IsLoopbackHost(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

func (e Endpoint) String() string {
	if e.IsAmazon() {
		return "Amazon " + cmp.Or(e.service, "SQS")
	}
	return e.URL
}

// QueueNameOf returns the name in a name, URL or ARN, and checks nothing: an argument goes through
// QueueURL or QueueName first.
func QueueNameOf(queue string) string {
	switch {
	case IsQueueURL(queue):
		queue = strings.TrimSuffix(queue, "/")
		return queue[strings.LastIndexByte(queue, '/')+1:]
	case IsQueueARN(queue):
		return queue[strings.LastIndexByte(queue, ':')+1:]
	}
	return queue
}

func IsQueueARN(queue string) bool { return strings.HasPrefix(queue, "arn:") }

func IsQueueURL(queue string) bool {
	return strings.HasPrefix(queue, "http://") || strings.HasPrefix(queue, "https://")
}

// amazonSuffixes end the names of Amazon's hosts.
var amazonSuffixes = []string{
	".amazonaws.com", ".amazonaws.com.cn", ".amazonaws.eu",
	".api.aws", ".api.amazonwebservices.com.cn", ".api.amazonwebservices.eu",
}

// IsAmazonURL reports whether the URL of a queue or an endpoint belongs to Amazon. Another port
// than that of its scheme belongs to the server of a customer, on a machine of Amazon.
func IsAmazonURL(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	switch port := u.Port(); {
	case port == "", port == "443" && u.Scheme == "https", port == "80" && u.Scheme == "http":
	default:
		return false
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	return slices.ContainsFunc(amazonSuffixes, func(suffix string) bool {
		return strings.HasSuffix(host, suffix)
	})
}
