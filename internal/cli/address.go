package cli

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

func CheckAddress(v string) error {
	_, port, err := net.SplitHostPort(v)
	if err == nil {
		if _, numeric := strconv.ParseUint(port, 10, 16); numeric == nil {
			return nil
		}
	}
	return fmt.Errorf("%q is not an address with a port, such as 127.0.0.1:9324", v)
}

// ReachableAddress returns where a server that listens at an address is reached from the same
// machine.
func ReachableAddress(listen string) string {
	host, port, _ := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// DefaultDataDir says where data lies when nobody says it, and by which rule: where systemd wants
// the state of a service, else where the XDG rules put the state of a user's program.
func DefaultDataDir(getenv func(string) string) (dir, origin string, err error) {
	if dirs := getenv("STATE_DIRECTORY"); dirs != "" {
		dir, _, _ = strings.Cut(dirs, ":") // systemd lists several when a unit asks for several
		return dir, "STATE_DIRECTORY", nil
	}
	// The XDG rules say that a relative path is to be ignored.
	if home := getenv("XDG_STATE_HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, "tenaq"), "XDG_STATE_HOME", nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", "", errors.New("there is no home directory to keep the data in; set --data-dir")
	}
	return filepath.Join(home, ".local", "state", "tenaq"), "default", nil
}

func ResolveAlias(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}
