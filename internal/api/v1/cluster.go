package v1

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"tenaq/internal/api/intake"
	"tenaq/internal/broker"
	"tenaq/internal/cluster"
	"tenaq/internal/door/auth"
)

// A Control shows and changes the cluster of this node. Changes are for the node that leads; others
// return cluster.ErrNotLeader. Every other error is shown to the operator, so it ends with what to
// do. A node is named by its id, a beginning of it that no other node has, or its address.
type Control interface {
	// Status returns within seconds, also without a leader.
	Status(ctx context.Context) cluster.Status

	Join(ctx context.Context, node string) error
	Remove(ctx context.Context, node string) error
	Replace(ctx context.Context, before, after string) error

	// Transfer hands the lead over; an empty name lets the leader choose.
	Transfer(ctx context.Context, node string) error
}

// ClusterConfig configures the handler of NewCluster. All fields are required.
type ClusterConfig struct {
	Door    *auth.Door
	Intake  *intake.Intake
	Control Control
	Logger  *slog.Logger
}

// NewCluster returns a handler for the paths for which IsCluster reports true. It needs no broker:
// a node that follows, or knows no leader, answers GET /v1/cluster.
func NewCluster(cfg ClusterConfig) http.Handler {
	return &Handler{
		// These paths are about no queue, so no policy is ever read.
		cfg: Config{Door: cfg.Door, Policies: auth.NewPolicies(nil, cfg.Logger),
			Intake: cfg.Intake, Logger: cfg.Logger},
		control: cfg.Control,
	}
}

const clusterPath = root + "/cluster"

// IsCluster reports whether a request for /v1 is about the cluster.
func IsCluster(r *http.Request) bool {
	return r.URL.Path == clusterPath || strings.HasPrefix(r.URL.Path, clusterPath+"/")
}

// cluster answers GET /v1/cluster.
func (c *call) cluster() (answer, error) {
	if q := c.query(); q.err != nil {
		return answer{}, q.err
	}
	return answer{body: c.control.Status(c)}, nil
}

type nodeRequest struct {
	Node string `json:"node"`
}

// join answers POST /v1/cluster/join: {"node": "10.0.0.4:9326"}. The node gets its vote when it has
// caught up.
func join(c *call, in nodeRequest) (any, error) {
	if in.Node == "" {
		return nil, errNoNode("node")
	}
	return struct{}{}, asClusterError(c.control.Join(c, in.Node))
}

// remove answers POST /v1/cluster/remove: {"node": "3f9c"}.
func remove(c *call, in nodeRequest) (any, error) {
	if in.Node == "" {
		return nil, errNoNode("node")
	}
	return struct{}{}, asClusterError(c.control.Remove(c, in.Node))
}

type replaceRequest struct {
	Old string `json:"old"`
	New string `json:"new"`
}

// replace answers POST /v1/cluster/replace: {"old": "3f9c", "new": "10.0.0.4:9326"}.
func replace(c *call, in replaceRequest) (any, error) {
	switch {
	case in.Old == "":
		return nil, errNoNode("old")
	case in.New == "":
		return nil, errNoNode("new")
	}
	return struct{}{}, asClusterError(c.control.Replace(c, in.Old, in.New))
}

// transfer answers POST /v1/cluster/transfer: {"node": "3f9c"}, or {} for any node.
func transfer(c *call, in nodeRequest) (any, error) {
	return struct{}{}, asClusterError(c.control.Transfer(c, in.Node))
}

func errNoNode(name string) error {
	return errValue(name, `""`, "the id of a node, a beginning of it, or its address")
}

// asClusterError turns an error of a Control into one of /v1.
func asClusterError(err error) error {
	switch {
	case errors.Is(err, cluster.ErrNotLeader):
		return broker.ErrNotLeader // as for every other request
	case errors.Is(err, cluster.ErrUnknownNode):
		return &Error{http.StatusNotFound, "NodeNotFound", err.Error()}
	case errors.Is(err, cluster.ErrRefused):
		return &Error{http.StatusConflict, "Refused", sentence(err, cluster.ErrRefused)}
	case err != nil:
		return &Error{http.StatusInternalServerError, "ChangeFailed", err.Error()}
	}
	return nil
}
