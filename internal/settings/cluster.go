package settings

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"tenaq/internal/cli"
	"tenaq/internal/cluster/wire"
)

// clusterToken is the variable that holds the token itself. It is no setting, so that no command
// prints it.
const clusterToken = "TENAQ_CLUSTER_TOKEN"

// CheckPeer refuses an address at which a node cannot be reached.
func CheckPeer(v string) error {
	if cli.CheckAddress(v) != nil {
		return fmt.Errorf("%q is not an address with a port, such as node-1.example.com:9326", v)
	}
	host, port, _ := net.SplitHostPort(v)
	switch ip := net.ParseIP(host); {
	case host == "" || ip != nil && ip.IsUnspecified():
		return fmt.Errorf("%q names no machine; write the address at which other nodes reach it, such as node-1.example.com:9326", v)
	case strings.Trim(port, "0") == "":
		return fmt.Errorf("%q has no fixed port; write one, such as 9326", v)
	}
	return nil
}

func parsePeers(v string) ([]string, error) {
	peers := cli.SplitList(v)
	for i, p := range peers {
		if err := CheckPeer(p); err != nil {
			return nil, err
		}
		if slices.Contains(peers[:i], p) {
			return nil, fmt.Errorf("%s is listed twice", p)
		}
	}
	return peers, nil
}

// checkCluster refuses settings of a cluster that contradict each other. It opens no file.
func (c *Configuration) checkCluster() error {
	if c.ClusterListen == "" {
		for _, v := range c.Values {
			if strings.HasPrefix(v.Name, "cluster-") && v.Value != "" {
				return cli.Usagef("%s: this makes sense for a node of a cluster only; set --cluster-listen too, or leave it out", v.Origin)
			}
		}
		return nil
	}
	listen := c.originOf("cluster-listen")
	if c.ClusterAdvertise == "" {
		if err := CheckPeer(c.ClusterListen); err != nil {
			return cli.Usagef("%s: %v; or set --cluster-advertise", listen, err)
		}
	}
	ways := 0
	for _, way := range []string{c.ClusterIdentity, c.ClusterTokenFile, c.ClusterToken} {
		if way != "" {
			ways++
		}
	}
	switch {
	case ways == 0:
		return cli.Usagef("%s: nodes must prove themselves to each other; set --cluster-identity to a directory that \"tenaq cluster ca\" made", listen)
	case ways > 1:
		return cli.Usagef("%s: set only one of --cluster-identity, --cluster-token-file and %s",
			listen, clusterToken)
	case c.ClusterIdentity == "":
		return c.checkLoopback()
	}
	return nil
}

// checkLoopback refuses a token where it could be read on its way.
func (c *Configuration) checkLoopback() error {
	for _, v := range c.Values {
		switch v.Name {
		case "cluster-listen", "cluster-advertise", "cluster-peers":
		default:
			continue
		}
		for _, a := range cli.SplitList(v.Value) {
			host, _, _ := net.SplitHostPort(a)
			if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
				return cli.Usagef("%s: %s is not a loopback address, and a token protects only those; set --cluster-identity instead", v.Origin, a)
			}
		}
	}
	return nil
}

// CheckClusterFiles reads the files with which this node proves itself to others.
func (c *Configuration) CheckClusterFiles() error {
	switch {
	case c.ClusterListen == "":
	case c.ClusterIdentity != "":
		if _, err := wire.OpenIdentity(c.ClusterIdentity); err != nil {
			return cli.Usagef("%s: %v", c.originOf("cluster-identity"), err)
		}
	case c.ClusterTokenFile != "":
		token, err := os.ReadFile(c.ClusterTokenFile)
		if err != nil {
			return cli.Usagef("%s: %v", c.originOf("cluster-token-file"), err)
		}
		if len(strings.TrimSpace(string(token))) == 0 {
			return cli.Usagef("%s: %s is empty; write a random token into it",
				c.originOf("cluster-token-file"), c.ClusterTokenFile)
		}
	}
	return nil
}

func (c *Configuration) originOf(setting string) string {
	i := slices.IndexFunc(c.Values, func(v Loaded) bool { return v.Name == setting })
	return c.Values[i].Origin
}
