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
	// Status returns within seconds, even without a leader.
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
			Intake: cfg.Intake, Logger: cfg.Logger, Control: cfg.Control},
	}
}

const clusterPath = root + "/cluster"

// IsCluster reports whether a request for /v1 is about the cluster.
func IsCluster(r *http.Request) bool {
	return r.URL.Path == clusterPath || strings.HasPrefix(r.URL.Path, clusterPath+"/")
}

// cluster answers GET /v1/cluster.
func (c *call) cluster(none) (cluster.Status, error) { return c.cfg.Control.Status(c), nil }

type nodeIn struct {
	Node string `json:"node" doc:"id of a node, a beginning of it, or its address"`
}

// join answers POST /v1/cluster/join. The node gets its vote when it has caught up.
func (c *call) join(in nodeIn) (none, error) {
	if in.Node == "" {
		return none{}, errNoNode("node")
	}
	return none{}, asClusterError(c.cfg.Control.Join(c, in.Node))
}

// remove answers POST /v1/cluster/remove.
func (c *call) remove(in nodeIn) (none, error) {
	if in.Node == "" {
		return none{}, errNoNode("node")
	}
	return none{}, asClusterError(c.cfg.Control.Remove(c, in.Node))
}

type replaceIn struct {
	Old string `json:"old" doc:"the node that leaves"`
	New string `json:"new" doc:"the node that takes its place"`
}

// replace answers POST /v1/cluster/replace.
func (c *call) replace(in replaceIn) (none, error) {
	switch {
	case in.Old == "":
		return none{}, errNoNode("old")
	case in.New == "":
		return none{}, errNoNode("new")
	}
	return none{}, asClusterError(c.cfg.Control.Replace(c, in.Old, in.New))
}

type transferIn struct {
	Node string `json:"node,omitempty" doc:"the node that is to lead; any node if empty"`
}

// transfer answers POST /v1/cluster/transfer.
func (c *call) transfer(in transferIn) (none, error) {
	return none{}, asClusterError(c.cfg.Control.Transfer(c, in.Node))
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
