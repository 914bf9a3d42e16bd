package v1

import (
	"net/http"
	"slices"
	"strings"

	"tenaq/internal/api/wire"
)

// root begins the paths of this API.
const root = "/v1"

// A route answers a path.
type route struct {
	// the name under which it is counted and that a key must be allowed: PeekMessages is
	// tenaq:PeekMessages
	action  string
	changes bool // it is a POST
	server  bool // it is about the server: only keys of the server's own account may use it
	serve   func(c *call) (answer, error)
}

// queueRoutes are the paths behind /v1/queues/NAME/.
var queueRoutes = map[string]*route{
	"messages": {action: "PeekMessages", serve: (*call).messages},
	"fate":     {action: "FollowMessage", serve: (*call).fate},
}

// routes are the paths that name no queue.
var routes = map[string]*route{
	"queues":         {action: "ListQueues", serve: (*call).queues},
	"backup":         {action: "Backup", changes: true, server: true, serve: (*call).backup},
	"alarms":         {action: "ListAlarms", server: true, serve: (*call).alarms},
	"alarms/history": {action: "ListAlarmHistory", server: true, serve: (*call).alarmHistory},
	"alarms/silence": {action: "SilenceAlarms", changes: true, server: true,
		serve: posted(silence)},
	"alarms/test": {action: "TestAction", changes: true, server: true,
		serve: posted(testAction)},
	"alarms/acknowledge": {action: "AcknowledgeAlarm", changes: true, server: true,
		serve: posted(acknowledge)},
	"cluster":          {action: "GetCluster", server: true, serve: (*call).cluster},
	"cluster/join":     changeCluster(posted(join)),
	"cluster/remove":   changeCluster(posted(remove)),
	"cluster/replace":  changeCluster(posted(replace)),
	"cluster/transfer": changeCluster(posted(transfer)),
}

func changeCluster(serve func(*call) (answer, error)) *route {
	return &route{action: "ChangeCluster", changes: true, server: true, serve: serve}
}

// Is reports whether a request is for /v1. A request that names an action of SQS before its body is
// for SQS, whatever its path. A form that names one in its body is for /v1 and refused there, since
// no queue has such a path.
func Is(r *http.Request) bool {
	return (r.URL.Path == root || strings.HasPrefix(r.URL.Path, root+"/")) &&
		len(r.Header["X-Amz-Target"]) == 0 && !wire.HasAction(r.URL.RawQuery)
}

// find returns the route of a path, and the queue that the path names; nil when there is none.
func (h *Handler) find(path string) (found *route, queue string) {
	path = strings.TrimPrefix(path, root+"/")
	if (path == "cluster" || strings.HasPrefix(path, "cluster/")) != (h.control != nil) {
		return nil, ""
	}
	if parts := strings.Split(path, "/"); len(parts) == 3 && parts[0] == "queues" {
		return queueRoutes[parts[2]], parts[1]
	}
	if h.cfg.Monitor == nil && strings.HasPrefix(path, "alarms") || h.cfg.Backup == nil &&
		path == "backup" {
		return nil, ""
	}
	return routes[path], ""
}

// right is what a key must be allowed to use the route.
func (r *route) right() string { return "tenaq:" + r.action }

// Actions are all that a key may be allowed to do here, such as tenaq:PeekMessages. [AUTH-38]
func Actions() (actions []string) {
	for _, all := range []map[string]*route{queueRoutes, routes} {
		for _, r := range all {
			actions = append(actions, r.right())
		}
	}
	slices.Sort(actions)
	return slices.Compact(actions)
}
