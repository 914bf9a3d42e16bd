package main

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

const (
	defaultEndpoint = "http://127.0.0.1:9324"
	defaultRegion   = "us-east-1"

	// amazon, where an endpoint is asked for, means Amazon SQS itself.
	amazon = "aws"
)

// An endpoint is where the SQS API is spoken.
type endpoint struct {
	url    string // "" is Amazon, at the address that belongs to the region
	origin string // the flag or variable it comes from

	foreign bool // it is of something else than queues, which no key of a tenaq server is for
}

// resolveEndpoint finds the endpoint. AWS_ENDPOINT_URL_SQS and AWS_ENDPOINT_URL are what every AWS SDK
// reads, so a shell that is set up for the SDKs is set up for tenaq too.
func resolveEndpoint(flag string, getenv func(string) string) (endpoint, error) {
	found := endpoint{url: defaultEndpoint, origin: "default"}
	if flag != "" {
		found = endpoint{url: flag, origin: "--endpoint-url"}
	} else {
		for _, name := range []string{"TENAQ_ENDPOINT_URL", "AWS_ENDPOINT_URL_SQS", "AWS_ENDPOINT_URL"} {
			if v := getenv(name); v != "" {
				found = endpoint{url: v, origin: name}
				break
			}
		}
	}
	if found.url == amazon {
		found.url = ""
		return found, nil
	}
	u, err := url.Parse(found.url)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return endpoint{}, usagef("%s: %q is not an address such as %s, nor the word %s", found.origin, found.url, defaultEndpoint, amazon)
	}
	found.url = strings.TrimRight(found.url, "/")
	return found, nil
}

// resolveRegion finds the region, "" when nobody names one.
func resolveRegion(flag string, getenv func(string) string) string {
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

func (e endpoint) isAmazon() bool { return e.url == "" }

// isLoopback tells whether the endpoint is on this machine, where a server may run without credentials.
func (e endpoint) isLoopback() bool {
	u, err := url.Parse(e.url)
	return err == nil && isLoopbackHost(u.Hostname())
}

func isLoopbackHost(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

func (e endpoint) String() string {
	if e.isAmazon() {
		return "Amazon SQS"
	}
	return e.url
}

// queueNameOf returns the name of a queue that is given by its name, its URL or its ARN.
func queueNameOf(queue string) string {
	switch {
	case isQueueURL(queue):
		return queue[strings.LastIndexByte(queue, '/')+1:]
	case isQueueARN(queue):
		return queue[strings.LastIndexByte(queue, ':')+1:]
	}
	return queue
}

// isQueueARN tells an ARN from a name, in which there is no colon.
func isQueueARN(queue string) bool { return strings.HasPrefix(queue, "arn:") }

func isQueueURL(queue string) bool {
	return strings.HasPrefix(queue, "http://") || strings.HasPrefix(queue, "https://")
}

// amazonSuffixes end the names of Amazon's hosts.
var amazonSuffixes = []string{
	".amazonaws.com", ".amazonaws.com.cn", ".amazonaws.eu",
	".api.aws", ".api.amazonwebservices.com.cn", ".api.amazonwebservices.eu",
}

// isAmazonURL tells whether the URL of a queue or an endpoint belongs to Amazon. Behind another port than that of its
// scheme is somebody's own server, on a machine of Amazon's.
func isAmazonURL(address string) bool {
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
	return slices.ContainsFunc(amazonSuffixes, func(suffix string) bool { return strings.HasSuffix(host, suffix) })
}
