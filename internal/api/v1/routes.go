package v1

import "cmp"

// routes are all routes. If a path fits two of them, the first one answers.
var routes []*route

// The table is set when the program starts, because some handlers use it themselves.
func init() {
	routes = []*route{
		{method: "GET", path: "", action: "Describe", free: true, operation: does((*call).describe),
			summary: "What this server offers, and what the caller may do"},
		{method: "GET", path: "/openapi.json", action: "Describe", free: true,
			operation: does((*call).openAPI), summary: "This document"},
		{method: "POST", path: "/tokens", action: "MakeToken", free: true,
			reads: true, operation: does((*call).makeToken),
			summary: "Make a short-lived bearer token of the key that signs the request"},
		{method: "GET", path: "/keys", action: "ViewKeys", server: true,
			operation: does((*call).keys), summary: "List the keys of this server, without secrets"},
		{method: "GET", path: "/settings", action: "ViewSettings", server: true,
			needs: hasSettings, operation: does((*call).settings),
			summary: "List the settings of this server with their origins, without passwords"},
		{method: "GET", path: "/status", action: "ViewSettings", server: true, needs: hasStatus,
			operation: does((*call).status),
			summary:   "Show the figures of this server: disk, commits, requests, memory, backups"},
		{method: "GET", path: "/session", action: "Session", free: true, needs: hasSessions,
			operation: does((*call).showSession),
			summary:   "Show the session of a page, and what it may do"},
		{method: "POST", path: "/session", action: "SignIn", free: true, reads: true,
			needs: hasSessions, operation: does((*call).signIn), logs: aboutSession,
			summary: "Sign in to the console with the id and the secret of a key"},
		{method: "DELETE", path: "/session", action: "SignOut", free: true, reads: true,
			needs: hasSessions, operation: does((*call).signOut), logs: aboutSession,
			summary: "Sign out"},
		{method: "GET", path: "/live", action: "ListQueues", operation: does((*call).liveStream),
			summary: "Stream counters once a second, as server-sent events"},
		{method: "GET", path: "/series", action: "ListQueues", needs: hasAlarms,
			operation: does((*call).series),
			summary:   "Show how many messages went through queues, minute by minute"},

		{method: "GET", path: "/queues", action: "ListQueues", operation: does((*call).queues),
			summary: "List queues with what waits in them"},
		{method: "GET", path: "/queues/{queue}", action: "GetQueue",
			operation: does((*call).oneQueue),
			summary:   "Show a queue with its attributes and tags"},
		{method: "GET", path: "/queues/{queue}/messages", action: "PeekMessages",
			operation: does((*call).messages), summary: "Look at messages without receiving them"},
		{method: "GET", path: "/queues/{queue}/groups", action: "PeekMessages",
			operation: does((*call).groups), summary: "List message groups, locked ones first"},
		{method: "POST", path: "/queues/{queue}/groups/release", action: "ReleaseGroup",
			operation: does((*call).releaseGroup), logs: aboutGroup,
			summary: "Make the messages of a group that are in flight receivable"},
		{method: "GET", path: "/queues/{queue}/history", action: "SearchHistory",
			operation: does((*call).history),
			summary:   "Search the messages of a queue that have ended"},
		{method: "GET", path: "/queues/{queue}/fate", action: "FollowMessage",
			operation: does((*call).fate), summary: "Ask what became of a message"},
		{method: "GET", path: "/messages/{id}", action: "PeekMessages",
			operation: does((*call).found),
			summary:   "Find a message by its id or that of its lineage"},
		{method: "GET", path: "/trace", action: "Trace", free: true,
			parts: []string{mayPeek, maySearch, mayClaims}, operation: does((*call).trace),
			summary: "Show the life of one piece of work, by its key or the id of a message"},
		{method: "GET", path: "/queues/{queue}/reasons", action: "PeekMessages",
			operation: does((*call).reasons), summary: "Group messages by why they failed"},
		{method: "POST", path: "/queues/{queue}/reasons/{kind}/note", action: "NoteReason",
			server: true, needs: hasAlarms, operation: does((*call).noteReason), logs: aboutNote,
			summary: "Write a note about a kind of failure, or remove it"},
		{method: "POST", path: "/queues/{queue}/nack", action: "Nack", large: true,
			operation: does((*call).nack),
			summary:   "Give received messages back with a verdict and a reason"},

		{method: "GET", path: "/tasks", action: "ListTasks", operation: does((*call).tasks),
			summary: "List tasks that take messages out of queues"},
		{method: "POST", path: "/tasks", action: "ManageTasks", operation: does((*call).startTask),
			summary: "Start a task that moves, deletes, parks or replays messages"},
		{method: "POST", path: "/tasks/count", action: "PeekMessages", reads: true,
			operation: does((*call).countTask),
			summary:   "Count the messages that a task would take"},
		{method: "GET", path: "/tasks/{task}", action: "ListTasks",
			operation: does((*call).oneTask), summary: "Show a task"},
		{method: "POST", path: "/tasks/{task}/pause", action: "ManageTasks",
			operation: does((*call).pauseTask), summary: "Pause a task"},
		{method: "POST", path: "/tasks/{task}/resume", action: "ManageTasks",
			operation: does((*call).resumeTask), summary: "Resume a task"},
		{method: "POST", path: "/tasks/{task}/cancel", action: "ManageTasks",
			operation: does((*call).cancelTask), summary: "Cancel a task"},
		{method: "POST", path: "/tasks/{task}/rate", action: "ManageTasks",
			operation: does((*call).setTaskRate), summary: "Change the rate of a task"},
		{method: "GET", path: "/actions", action: "ListTasks", operation: does((*call).actions),
			summary: "List what operators did to tasks and messages, the latest first"},
		{method: "POST", path: "/replace", action: "ReplaceMessage", large: true,
			operation: does((*call).replaceMessage),
			summary:   "Send another body or other attributes in the place of a message"},

		{method: "POST", path: "/do/{action}", action: "Do", free: true, large: true, raw: true,
			needs: hasSQS, operation: does((*call).doAction),
			summary: "Carry out an action of SQS, with its right, such as sqs:SendMessage"},

		{method: "POST", path: "/example", action: "Example", free: true,
			operation: does((*call).makeExample),
			summary:   "Make a queue whose worker fails, to look at, with the rights of all it does"},

		{method: "GET", path: "/records", action: "ReadRecords", operation: does((*call).records),
			summary: "Read records in the order of their keys"},
		{method: "POST", path: "/records", action: "WriteRecords", large: true,
			operation: does((*call).writeRecords),
			summary:   "Write or remove records that have given versions"},
		{method: "GET", path: "/stores", action: "ListClaims", server: true, needs: hasStores,
			operation: does((*call).stores),
			summary:   "List the stores outside this server whose claims can be shown"},
		{method: "GET", path: "/claims", action: "ListClaims", operation: does((*call).claims),
			summary: "List claims in the order of their keys"},
		{method: "POST", path: "/claims/{key}/settle", action: "ManageClaims", large: true,
			operation: does((*call).settleClaim), logs: aboutClaim,
			summary: "Record the decision of a person that the work of a key is done"},
		{method: "POST", path: "/claims/{key}/reopen", action: "ManageClaims",
			operation: does((*call).reopenClaim), logs: aboutClaim,
			summary: "Record the decision of a person that the work of a key can be done again"},
		{method: "POST", path: "/claims/{key}/undo", action: "ManageClaims",
			operation: does((*call).undoClaim), logs: aboutClaim,
			summary: "Take back the decision of a person about a key, if it was the last change"},
		{method: "GET", path: "/claims/{key}", action: "GetClaim", operation: does((*call).claim),
			summary: "Show the claim on a key"},
		{method: "POST", path: "/claims/{key}/acquire", action: "AcquireClaim", large: true,
			operation: does((*call).acquireClaim), summary: "Claim the work of a key"},
		{method: "POST", path: "/claims/{key}/renew", action: "RenewClaim",
			operation: does((*call).renewClaim), summary: "Restart the lease of a claim"},
		{method: "POST", path: "/claims/{key}/complete", action: "CompleteClaim", large: true,
			operation: does((*call).completeClaim), summary: "Record that the work is done"},
		{method: "POST", path: "/claims/{key}/fail", action: "FailClaim",
			operation: does((*call).failClaim), summary: "Record that the work failed"},
		{method: "POST", path: "/claims/{key}/release", action: "ReleaseClaim",
			operation: does((*call).releaseClaim),
			summary:   "Give a claim back before the work began"},

		{method: "GET", path: "/redrivers", action: "ViewRedrivers", server: true,
			needs: hasRedrivers, operation: does((*call).redrivers),
			summary: "List the redrivers of this server, with their state"},
		{method: "GET", path: "/redrivers/{queue}", action: "ViewRedrivers", server: true,
			needs: hasRedrivers, operation: does((*call).oneRedriver),
			summary: "Show the redriver of a dead-letter queue"},
		{method: "POST", path: "/redrivers/{queue}/pause", action: "ManageRedrivers", server: true,
			needs: hasRedrivers, operation: does((*call).pauseRedriver), logs: aboutRedriver,
			summary: "Pause the redrivers of a dead-letter queue"},
		{method: "POST", path: "/redrivers/{queue}/resume", action: "ManageRedrivers", server: true,
			needs: hasRedrivers, operation: does((*call).resumeRedriver), logs: aboutRedriver,
			summary: "End the pause of the redrivers of a dead-letter queue"},
		{method: "POST", path: "/redrivers/{queue}/step", action: "ManageRedrivers", server: true,
			needs: hasRedrivers, operation: does((*call).stepRedriver), logs: aboutStep,
			summary: "Take a step of the redriver of a dead-letter queue at once"},
		{method: "POST", path: "/redrivers/{queue}/plan", action: "ManageRedrivers", server: true,
			needs: hasRedrivers, operation: does((*call).planRedriver), logs: aboutPlan,
			summary: "Say what the next step of a redriver would do; receives what it looks at"},

		{method: "GET", path: "/outbox", action: "ViewOutbox", server: true, needs: hasAlarms,
			operation: does((*call).outboxes),
			summary:   "List the outboxes whose relays report to this server"},
		{method: "GET", path: "/outbox/{outbox}/parked", action: "ViewOutbox", server: true,
			needs: hasAlarms, operation: does((*call).parkedRows),
			summary: "List the rows of an outbox that were set aside, as its relays reported them"},
		{method: "POST", path: "/outbox/{outbox}/parked", action: "ReportOutbox", server: true,
			needs: hasAlarms, operation: does((*call).reportParkedRows),
			summary: "Report the rows of an outbox that were set aside, as a relay does"},
		{method: "GET", path: "/outbox/{outbox}/orders", action: "ReportOutbox", server: true,
			needs: hasAlarms, operation: does((*call).rowOrders),
			summary: "List what is ordered about rows that were set aside, as a relay does"},
		{method: "POST", path: "/outbox/{outbox}/parked/release", action: "ManageOutbox",
			server: true, needs: hasAlarms, operation: does((*call).releaseParkedRows),
			summary: "Order a relay to send rows again that were set aside"},
		{method: "POST", path: "/outbox/{outbox}/parked/discard", action: "ManageOutbox",
			server: true, needs: hasAlarms, operation: does((*call).discardParkedRows),
			summary: "Order a relay to delete rows that were set aside"},

		{method: "POST", path: "/backup", action: "Backup", server: true, reads: true,
			needs:     hasBackup,
			operation: does((*call).backup), summary: "Stream a backup of the whole store"},

		{method: "GET", path: "/alarms", action: "ListAlarms", server: true, needs: hasAlarms,
			operation: does((*call).alarms), summary: "List alarms and silences"},
		{method: "GET", path: "/alarms/history", action: "ListAlarmHistory", server: true,
			needs: hasAlarms, operation: does((*call).alarmHistory),
			summary: "List changes of alarms, the newest last"},
		{method: "POST", path: "/alarms/silence", action: "SilenceAlarms", server: true,
			needs: hasAlarms, operation: does((*call).silence), logs: aboutSilence,
			summary: "Silence alarms for a while, or end a silence"},
		{method: "POST", path: "/alarms/acknowledge", action: "AcknowledgeAlarm", server: true,
			needs: hasAlarms, operation: does((*call).acknowledge), logs: aboutAlarm,
			summary: "Acknowledge an alarm, or end its acknowledgement"},
		{method: "POST", path: "/alarms/test", action: "TestAction", server: true,
			needs: hasAlarms, operation: does((*call).testAction), logs: aboutAction,
			summary: "Run an action of the alarms once"},

		{method: "GET", path: "/cluster", action: "GetCluster", server: true, needs: hasCluster,
			operation: does((*call).cluster), summary: "Show the cluster and its nodes"},
		{method: "POST", path: "/cluster/join", action: "ChangeCluster", server: true,
			needs: hasCluster, operation: does((*call).join), summary: "Add a node to the cluster"},
		{method: "POST", path: "/cluster/remove", action: "ChangeCluster", server: true,
			needs: hasCluster, operation: does((*call).remove),
			summary: "Remove a node from the cluster"},
		{method: "POST", path: "/cluster/replace", action: "ChangeCluster", server: true,
			needs:     hasCluster,
			operation: does((*call).replace), summary: "Replace a node by another"},
		{method: "POST", path: "/cluster/transfer", action: "ChangeCluster", server: true,
			needs: hasCluster, operation: does((*call).transfer),
			summary: "Hand the lead over to another node"},
	}
	for _, r := range routes {
		r.segments = segmentsOf(root + r.path)
	}
}

// The optional parts in the configuration of a handler.
func hasAlarms(h *Handler) bool { return h.cfg.Monitor != nil }
func hasBackup(h *Handler) bool { return h.cfg.Backup != nil }
func hasRedrivers(h *Handler) bool {
	return h.cfg.Broker != nil && h.cfg.Redrivers != nil
}
func hasStores(h *Handler) bool {
	return h.cfg.Broker != nil && h.cfg.Stores != nil
}
func hasSettings(h *Handler) bool { return len(h.cfg.Settings) > 0 }
func hasStatus(h *Handler) bool {
	return h.cfg.Broker != nil && h.cfg.Status != nil
}
func hasCluster(h *Handler) bool { return h.cfg.Control != nil }
func hasSQS(h *Handler) bool     { return h.cfg.Broker != nil && h.cfg.SQS != nil }
func hasSessions(h *Handler) bool {
	return h.cfg.Broker != nil && h.cfg.Door.HasSessions()
}

// The texts in the action log for routes that change more than tasks and messages. [TASK-16]
func aboutSession(c *call, _ any) (about, text string) { return "console", c.request.RemoteAddr }
func aboutGroup(_ *call, in any) (about, text string) {
	release := in.(releaseIn)
	return release.Queue, "group " + release.Group
}
func aboutNote(_ *call, in any) (about, text string) {
	note := in.(noteIn)
	if *note.Text == "" {
		return note.Queue, "kind " + note.Kind + ", removed"
	}
	return note.Queue, "kind " + note.Kind + ": " + *note.Text
}
func aboutSilence(_ *call, in any) (about, text string) {
	silence := in.(silenceIn)
	return silence.Match, "for " + silence.For + ", " + silence.Reason
}
func aboutAlarm(_ *call, in any) (about, text string) {
	alarm := in.(acknowledgeIn)
	if alarm.End {
		return alarm.Alarm, "ended"
	}
	return alarm.Alarm, alarm.Note
}
func aboutRedriver(_ *call, in any) (about, text string) {
	if pause, ok := in.(pauseRedriverIn); ok {
		return pause.Queue, "paused: " + cmp.Or(pause.Reason, "no reason given")
	}
	return in.(redriverIn).Queue, "resumed"
}
func aboutStep(_ *call, in any) (about, text string) {
	return in.(redriverIn).Queue, "took a step"
}
func aboutPlan(_ *call, in any) (about, text string) {
	return in.(redriverIn).Queue, "planned the next step"
}
func aboutAction(_ *call, in any) (about, text string) { return in.(actionIn).Action, "" }
