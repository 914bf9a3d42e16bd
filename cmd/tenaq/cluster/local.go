package cluster

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
)

// Ports of a local cluster. Node i, from 0, has port + 10i for clients, the next one for health and
// metrics, and the one after that for other nodes.
const (
	localNodes  = 3
	localPort   = 9324
	portStep    = 10
	localHost   = "127.0.0.1"
	portHighest = 65535 - (localNodes-1)*portStep - 2
)

func newLocalCmd(a *cli.App) *cobra.Command {
	var dir string
	var port int
	cmd := &cobra.Command{
		Use:   "local [-- SERVE_FLAG...]",
		Short: "Run a cluster of three nodes on this machine",
		Long: `Run a cluster of three nodes on this machine, to try it out: three processes
"tenaq serve" on loopback addresses, which share a secret. Ctrl-C stops all.

          clients  health, metrics  other nodes
  node-1     9324             9325         9326
  node-2     9334             9335         9336
  node-3     9344             9345         9346

--port sets the client port of node-1; the other ports follow it.

The directory holds the data of the nodes, the secret and the port. A later
start in the same directory continues that cluster. Flags after -- are passed to
each "tenaq serve". Log lines go to standard error, with the name of the node.

Kill a node to see what happens: clients of the others continue. The command
prints how to start it again. A cluster on one machine does not survive the loss
of that machine.`,
		Example: `  tenaq cluster local
  tenaq cluster local --dir /tmp/three --port 7000
  tenaq cluster local -- --config tenaq.yaml --log-level debug`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if n := cmd.ArgsLenAtDash(); n > 0 || n < 0 && len(args) > 0 {
				return cli.Usagef("%s does not take %q; flags of serve come after --",
					cmd.CommandPath(), args[0])
			}
			program, err := os.Executable()
			if err != nil {
				return err
			}
			c, err := openLocal(dir, port)
			if err != nil {
				return err
			}
			if err := c.free(); err != nil {
				return err
			}
			c.program, c.args = program, args
			return c.run(cmd.Context(), a)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "`directory` of the cluster (default: beside that of serve)")
	cli.Number(cmd.Flags(), &port, "port", 0, 0, portHighest,
		"first `port` (default 9324, or as before)")
	return cmd
}

// A local cluster is the directory that holds one, and what to run.
type local struct {
	dir     string
	port    int
	program string
	args    []string // further flags of serve
}

// openLocal finds or makes the directory of a local cluster. Without a port it keeps the one that
// the cluster has: its nodes know each other by it.
func openLocal(dir string, port int) (*local, error) {
	if dir == "" {
		single, _, err := cli.DefaultDataDir(os.Getenv)
		if err != nil {
			return nil, cli.Usagef("there is no home directory for the data; set --dir")
		}
		dir = single + "-cluster"
	}
	dir, err := filepath.Abs(dir) // so that the commands that are printed work anywhere
	if err != nil {
		return nil, cli.Codedf(cli.ExitFailed, "%v", err)
	}
	c := &local{dir: dir}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, cli.Codedf(cli.ExitFailed, "%v", err)
	}
	var secret [32]byte
	rand.Read(secret[:]) // it never fails
	if _, err := c.keep("token", hex.EncodeToString(secret[:])); err != nil {
		return nil, err
	}
	text, err := c.keep("port", strconv.Itoa(cmp.Or(port, localPort)))
	if err != nil {
		return nil, err
	}
	if c.port, err = strconv.Atoi(text); err != nil || c.port < 1 || c.port > portHighest {
		return nil, cli.Usagef("%s holds %q, which is not a port from 1 to %d", c.file("port"), text,
			portHighest)
	}
	if port != 0 && port != c.port {
		return nil, cli.Codedf(cli.ExitRefused,
			"the nodes of the cluster in %s know each other at port %d: leave --port out, or choose another --dir", dir, c.port)
	}
	return c, nil
}

func (c *local) file(name string) string { return filepath.Join(c.dir, name) }

// keep returns the text of a file, which it writes if there is none.
func (c *local) keep(name, text string) (string, error) {
	f, err := os.OpenFile(c.file(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		b, err := os.ReadFile(c.file(name))
		if err != nil {
			return "", cli.Codedf(cli.ExitFailed, "%v", err)
		}
		return strings.TrimSpace(string(b)), nil
	case err != nil:
		return "", cli.Codedf(cli.ExitFailed, "%v", err)
	}
	_, err = f.WriteString(text + "\n")
	return text, errors.Join(err, f.Close())
}

// A localNode is a node of a local cluster, as --json prints it.
type localNode struct {
	Name    string `json:"name"`
	URL     string `json:"url"`
	Admin   string `json:"adminUrl"`
	Address string `json:"address"` // for other nodes
	DataDir string `json:"dataDir"`
	PID     int    `json:"pid"`
}

func (c *local) nodes() (nodes [localNodes]localNode) {
	at := func(port int) string { return net.JoinHostPort(localHost, strconv.Itoa(port)) }
	for i := range nodes {
		first := c.port + i*portStep
		name := fmt.Sprint("node-", i+1)
		nodes[i] = localNode{Name: name, URL: "http://" + at(first), Admin: "http://" + at(first+1),
			Address: at(first + 2), DataDir: c.file(name)}
	}
	return nodes
}

// free refuses ports on which another program listens. A cluster without a node yet forgets its
// port then, so that a next start may take another.
func (c *local) free() error {
	nodes := c.nodes()
	for _, n := range nodes {
		for _, at := range []string{strings.TrimPrefix(n.URL, "http://"),
			strings.TrimPrefix(n.Admin, "http://"), n.Address} {
			l, err := net.Listen("tcp", at)
			if err == nil {
				err = l.Close()
			}
			if err == nil {
				continue
			}
			if !errors.Is(err, syscall.EADDRINUSE) {
				return cli.Codedf(cli.ExitFailed, "%v", err)
			}
			if _, err := os.Stat(nodes[0].DataDir); err == nil {
				return cli.Codedf(cli.ExitRefused, "address %s is in use: stop the program that listens there; the nodes in %s cannot take other ports", at, c.dir)
			}
			if err := os.Remove(c.file("port")); err != nil {
				return cli.Codedf(cli.ExitFailed, "%v", err)
			}
			return cli.Codedf(cli.ExitRefused, "address %s is in use: stop the program that listens there, or pass another --port", at)
		}
	}
	return nil
}

// serveArgs are the arguments with which a node runs.
func (c *local) serveArgs(n localNode) []string {
	var peers []string
	for _, other := range c.nodes() {
		peers = append(peers, other.Address)
	}
	return append([]string{"serve", "--data-dir", n.DataDir,
		"--listen", strings.TrimPrefix(n.URL, "http://"),
		"--admin-listen", strings.TrimPrefix(n.Admin, "http://"), "--cluster-listen", n.Address,
		"--cluster-peers", strings.Join(peers, ","), "--cluster-token-file", c.file("token")},
		c.args...)
}

// environment is that of the nodes. Settings of a cluster are not meant for these nodes.
func environment(environ []string) (env []string) {
	for _, v := range environ {
		if !strings.HasPrefix(v, "TENAQ_CLUSTER_") {
			env = append(env, v)
		}
	}
	return env
}
