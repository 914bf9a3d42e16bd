package cli

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// errTilde is the error of a path that a shell has not expanded.
var errTilde = errors.New("the shell expands ~ only at the start of a word; write the full path")

func CheckAddress(v string) error {
	_, port, err := net.SplitHostPort(v)
	if err == nil {
		if _, numeric := strconv.ParseUint(port, 10, 16); numeric == nil {
			return nil
		}
	}
	return fmt.Errorf("%q is not an address with a port, such as 127.0.0.1:9324", v)
}

// ReachableAddress returns the address at which the same machine reaches a server that listens.
func ReachableAddress(listen string) string {
	host, port, _ := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// DefaultDataDir returns the default data directory and its origin: the state directory of a
// systemd service, or else the XDG state directory of the user.
func DefaultDataDir(getenv func(string) string) (dir, origin string, err error) {
	if dirs := getenv("STATE_DIRECTORY"); dirs != "" {
		dir, _, _ = strings.Cut(dirs, ":") // systemd lists several when a unit asks for several
		return dir, "STATE_DIRECTORY", nil
	}
	// The XDG rules ignore a relative path.
	if home := getenv("XDG_STATE_HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, "tenaq"), "XDG_STATE_HOME", nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", "", errors.New("there is no home directory for the data; set --data-dir")
	}
	return filepath.Join(home, ".local", "state", "tenaq"), "default", nil
}
